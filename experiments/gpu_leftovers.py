"""Does a process read on a GPU what another one has left there? What would it cost to zero it?

One process fills half of the GPU's free memory with a pattern. Another one then takes as much
without writing to it, and counts what it finds: once after the first has given its memory back and
lives on, as a trainer does that makes room, and once after it has ended. Zeroing is timed beside.
Without a GPU nothing is measured.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

import _common

from warren.live.gpu.discovery import gpus_here

PATTERN: Final = 0xA5
PIECE_BYTES: Final = 1 << 28
TIMES: Final = 5


def main() -> None:
    """Leave something, look for it, save."""
    if not gpus_here():
        print("skipped: there is no GPU here that torch can use")
        return
    rows = [{"left_by": how, **_left(ends=how == "ended")} for how in ("given back", "ended")]
    for row in rows:
        print(row, flush=True)
    gpu = gpus_here()[0]
    found = {"gpu": gpu.name, "libraries": gpu.libraries, "pattern": PATTERN, "rows": rows}
    _common.save("gpu_leftovers", 1, found)


def _left(*, ends: bool) -> dict[str, Any]:
    """Let one process leave its memory, and another look at what it gets."""
    first, leaves = _started(_leave)
    pieces = leaves.recv()
    if ends:
        leaves.send("end")
        first.join()
    second, looks = _started(_look)
    looks.send(pieces)
    found: dict[str, Any] = looks.recv()
    second.join()
    if not ends:
        leaves.send("end")
        first.join()
    return {"bytes": pieces * PIECE_BYTES, **found}


def _started(what: Any) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=what, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return process, mine


def _leave(parent: Connection) -> None:
    """Fill half of what is free, give it back, and live until told to end."""
    import torch

    free_bytes, _ = torch.cuda.mem_get_info(0)
    pieces = free_bytes // 2 // PIECE_BYTES
    held = [
        torch.full((PIECE_BYTES,), PATTERN, dtype=torch.uint8, device="cuda") for _ in range(pieces)
    ]
    torch.cuda.synchronize()
    held.clear()
    torch.cuda.empty_cache()
    parent.send(pieces)
    parent.recv()


def _look(parent: Connection) -> None:
    """Take as much without writing, and count what is there; then time how long zeros take."""
    import torch

    pieces, found, zero_ms = parent.recv(), {"of_pattern": 0, "not_zero": 0}, []
    # All at once: what was looked at is not given to another piece.
    held = [torch.empty(PIECE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(pieces)]
    for one in held:
        found["of_pattern"] += int((one == PATTERN).sum())
        found["not_zero"] += int((one != 0).sum())
    for _ in range(TIMES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for one in held:
            one.zero_()
        end.record()
        torch.cuda.synchronize()
        zero_ms.append(begin.elapsed_time(end))
    parent.send({**found, "zero_ms": median(zero_ms)})


if __name__ == "__main__":
    main()
