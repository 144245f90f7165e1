"""How fast 100 MB of parameters travel: pull and push of a task against a bare ZeroMQ echo.

One job on one device of this machine; between the end of a task's computation and the start of the
next task, its update goes out, the server makes the step, the new state comes in. The step is
timed apart, in this process, and taken off. The echo sends the same bytes to another process and
back over the same kind of socket, without a copy of ours.

Medians: of the rounds of a run, of the echoes, of the steps; then of ``RUNS`` turns of all three.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
import pyarrow.parquet
import torch
import zmq
from _apps import Large
from _ranges import RUNS, report

from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import MARK_BYTES, TaskResult
from warren.model.job import Job

APPS: Final = Path(__file__).with_name("_apps.py")
MEGABYTES: Final = 100
MOVED_BYTES: Final = 2 * MEGABYTES * 1_000_000
ROUNDS: Final = 12
WARM: Final = 3


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        for number in range(RUNS):
            between_s = live_s(Path(folder), number)
            optimiser_s, echo_s = step_s(), bare_s(f"ipc://{folder}/echo-{number}")
            rows.append((between_s, optimiser_s, echo_s))
            print(
                f"between two tasks {1000 * between_s:.0f} ms, of it the server's step "
                f"{1000 * optimiser_s:.0f} ms; echo {1000 * echo_s:.0f} ms",
                flush=True,
            )
    moved = [MOVED_BYTES / (between - step) for between, step, _ in rows]
    echoed = [MOVED_BYTES / echo for _, _, echo in rows]
    figures = {
        "pull_and_push_bytes_per_s": median(moved),
        "echo_bytes_per_s": median(echoed),
        "pull_and_push_over_echo": median(a / b for a, b in zip(moved, echoed, strict=True)),
        "server_step_bytes_per_s": MEGABYTES * 1e6 / median(step for _, step, _ in rows),
    }
    report(figures)


def live_s(folder: Path, number: int) -> float:
    """Median seconds from the end of a task's computation to the start of the next task."""
    out, file = folder / f"out-{number}", folder / f"run-{number}.yaml"
    job = {"name": "large", "app": f"{APPS}:Large", "rounds": ROUNDS, "batch": 1, "cost": "row"}
    row = {"model": f"{MEGABYTES} MB", "comp": {"CPU": "100 ms"}}
    run = {
        "format": 1,
        "cluster": {"hosts": [{"name": "h", "devices": {"CPU": 1}}]},
        "workload": {"jobs": [job | {"params": {"megabytes": MEGABYTES}}]},
        "profiles": {"row": row},
    }
    file.write_text(json.dumps(run))
    command = [sys.executable, "-m", "warren", "run", str(file), "--out", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    table = pyarrow.parquet.read_table(out / "timeline.parquet")
    start_s, comp_end_s = (np.sort(table.column(name)) for name in ("start_s", "comp_end_s"))
    return float(np.median(start_s[WARM + 1 :] - comp_end_s[WARM:-1]))


def step_s() -> float:
    """Median seconds of a server's sum, step and packing of the new state."""
    torch.set_num_threads(1)
    job = Job(index=0, name="large", scale=1, rounds=ROUNDS, app="x", seed=1)
    store = ParameterStore(Large(megabytes=MEGABYTES), job)
    entries, params = len(store.layout.entries), len(store.layout.params)
    marks = bytes(MARK_BYTES * (1 + entries))
    update = tuple(memoryview(bytearray(end - begin)) for begin, end in store.ranges)
    times = []
    for _ in range(ROUNDS):
        result = TaskResult(loss=0.0, present=b"\x01" * params, marks=marks, update=update)
        store.add(0, result)
        begin = perf_counter()
        store.step()
        store.conclude()
        store.state()
        times.append(perf_counter() - begin)
        store.forget_previous()
    return median(times[WARM:])


def bare_s(address: str) -> float:
    """Median seconds for the bytes of one model to another process and back."""
    payload = memoryview(bytearray(MEGABYTES * 1_000_000))
    echo = subprocess.Popen([sys.executable, str(Path(__file__).with_name("_echo.py")), address])
    times = []
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(address)
        for _ in range(ROUNDS):
            begin = perf_counter()
            socket.send(payload, copy=False)
            socket.recv(copy=False)
            times.append(perf_counter() - begin)
        socket.send(b"")
    echo.wait(10)
    return median(times[WARM:])


if __name__ == "__main__":
    main()
