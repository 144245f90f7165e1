"""Start a run, hit it at a drawn moment with a drawn signal, and look for what it leaves.

200 times, two at a time: from 0.1 s after the start to well into training, SIGINT, SIGTERM, SIGHUP
or SIGKILL goes to the controller, the zygote or any other process of the run, or SIGKILL to
controller and zygote at once. A run that goes on is ended with SIGTERM to its controller. Within
10 s of the controller's end no process may be left, no socket, no temporary folder and nothing in
shared memory, although one of the two jobs starts processes of its own and leaves folders about.

A run has a temporary folder of its own (TMPDIR), which is also what its processes are known by.
``--cycles N`` makes fewer and saves nothing; ``--within S`` allows more time, on a busy machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import _common
import _processes

RUN: Final = Path(__file__).parent / "spine" / "endless.yaml"
CYCLES: Final = 200
AT_ONCE: Final = 2
SEED: Final = 1
MOMENT_S: Final = (0.1, 7.0)
CLEAN_S: Final = 10.0
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
VICTIMS: Final = ("controller", "zygote", "child", "controller and zygote")
SHARED: Final = Path("/dev/shm")

Row = dict[str, Any]


def main() -> None:
    """Make the cycles, save, and stop with an error where something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--within", type=float, default=CLEAN_S)
    asked = parser.parse_args()
    cycles = asked.cycles
    before = _listing(SHARED)
    folder = Path(tempfile.mkdtemp(prefix="wk-"))
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            rows = list(pool.map(lambda number: cycle(folder, number, asked.within), range(cycles)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    stays = sorted(_listing(SHARED) - before)
    bad = [row for row in rows if row["left"]]
    struck = Counter(f"{row['signal']} to {row['victim']}" for row in rows)
    _common.table([["signal and victim", "cycles"], *sorted(struck.items())])
    print(f"{len(rows)} cycles, {len(bad)} left something; new in shared memory: {len(stays)}")
    if cycles == CYCLES:
        content = {"cycles": len(rows), "struck": dict(sorted(struck.items())), "left": bad}
        _common.save("start_kill", SEED, content | {"shared_memory": stays})
    if bad or stays:
        sys.exit("\n".join(str(row) for row in [*bad, *stays]))


def cycle(folder: Path, number: int, within_s: float) -> Row:
    """One run from its start to what it leaves; ``left`` is empty if that is nothing."""
    draw = random.Random(f"{SEED}-{number}")
    own, out = folder / f"{number:04}", folder / f"out-{number:04}"
    own.mkdir()
    with (folder / f"{number}.err").open("w") as errors:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "warren",
                "run",
                str(RUN),
                "--out",
                str(folder / f"out-{number}"),
            ],
            env=os.environ | {"TMPDIR": str(own)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        moment_s = draw.uniform(*MOMENT_S)
        time.sleep(moment_s)
        row: Row = {"cycle": number, "moment_s": round(moment_s, 2), **_strike(process, own, draw)}
        left = _end(process, within_s) + _left(own, within_s)
    row["left"] = left
    if left:
        row["stderr"] = (folder / f"{number}.err").read_text()[-500:]
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    shutil.rmtree(own, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    return row


def _strike(process: subprocess.Popen[bytes], own: Path, draw: random.Random) -> Row:
    """Send the signal; who does not exist yet is stood for by the controller."""
    victim, signum = draw.choice(VICTIMS), draw.choice(SIGNALS)
    names = {pid: name for pid, name in _of_run(own).items() if pid != process.pid}
    zygote = [pid for pid, name in names.items() if name == _processes.KINDS["zygote"]]
    others = sorted(pid for pid in names if pid not in zygote)
    if victim == "controller and zygote" and zygote:
        pids, signum = [process.pid, *zygote], signal.SIGKILL
    elif victim == "zygote" and zygote:
        pids = zygote
    elif victim == "child" and others:
        pids = [draw.choice(others)]
        victim = names[pids[0]].rstrip("0123456789.-") or "child"
    else:
        pids, victim = [process.pid], "controller"
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
    return {"signal": signum.name, "victim": victim}


def _end(process: subprocess.Popen[bytes], within_s: float) -> list[str]:
    """Wait for the controller, and end it if it goes on; says so if it does not end."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
        return []
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
        return []
    process.kill()
    process.wait()
    return [f"the controller, {within_s:g} s after SIGTERM"]


def _left(own: Path, within_s: float) -> list[str]:
    """Processes and files that are still there after so long; the processes are then ended."""
    end = time.monotonic() + within_s
    while (_of_run(own) or _listing(own)) and time.monotonic() < end:
        time.sleep(0.05)
    alive = _of_run(own)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"process {name}" for name in alive.values()] + sorted(_listing(own))


def _of_run(own: Path) -> dict[int, str]:
    return _processes.with_entry(f"TMPDIR={own}".encode())


def _listing(folder: Path) -> set[str]:
    # Unlike rglob, it passes over folders that go while it looks.
    walked = os.walk(folder)
    found = {os.path.join(at, name) for at, folders, files in walked for name in folders + files}
    return {path for path in found if "/warren-history-" not in path}  # tests run beside this


if __name__ == "__main__":
    main()
