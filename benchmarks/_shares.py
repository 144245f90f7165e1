"""Whose processor time a task without computing takes, and what it would be in one warm process."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.job import Job

_LOOK_S: Final = 0.02
_WARM: Final = 200
_ROLES: Final = {"exec": "executors", "train": "trainers", "again": "trainers", "serve": "servers"}
_CONTROLLER: Final = "controller"


def shares_ms(short: Sequence[str], long: Sequence[str], tasks: int) -> Mapping[str, float]:
    """Processor milliseconds a task, by role, of two runs of which one has ``tasks`` tasks more.

    What starts and ends take is in both, and so in neither figure.
    """
    less, more = _processor_s(short), _processor_s(long)
    return {role: 1000 * (more[role] - less[role]) / tasks for role in sorted(more)}


def in_one_process_ms(app: str, tasks: int) -> tuple[float, float]:
    """Milliseconds of a trainer's and of a server's part of a task, in turns in this process.

    They call what trainers and servers call, without sockets, and nothing else runs in between.
    """
    numerics.pin()
    job = Job(index=0, name="job", app=app, scale=1, rounds=tasks + _WARM + 1, batch=16, seed=1)
    runner = TaskRunner(build_app(job, "."), job)
    store = ParameterStore(build_app(job, "."), job, part=0, parts=1)
    state, update = bytearray(store.total_bytes), bytearray(store.total_bytes)
    trainer_s = server_s = 0.0
    for round_no in range(tasks + _WARM):
        for (begin, end), piece in zip(store.ranges, store.state(), strict=True):
            state[begin:end] = piece
        begun_s = perf_counter()
        result = runner.run(state, round_no, 0, update)
        numerics.pin()
        runner.expect(round_no + 1, 0)
        computed_s = perf_counter()
        store.add(0, result)
        store.step()
        store.conclude()
        store.forget_previous()
        numerics.pin()
        store.seed()
        if round_no >= _WARM:
            trainer_s += computed_s - begun_s
            server_s += perf_counter() - computed_s
    return 1000 * trainer_s / tasks, 1000 * server_s / tasks


def _processor_s(command: Sequence[str]) -> Counter[str]:
    """Seconds of the processor that a run takes, by role; of the last moments not all is seen."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    spent: dict[int, tuple[str, float]] = {}
    while run.poll() is None:
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
            role = _CONTROLLER if pid == run.pid else _role(pid)
            if role is not None:
                spent[pid] = role, _on_processor_s(pid) or spent.get(pid, (role, 0.0))[1]
        sleep(_LOOK_S)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed")
    total: Counter[str] = Counter()
    for role, seconds in spent.values():
        total[role] += seconds  # type: ignore[assignment]
    return total


def _role(pid: int) -> str | None:
    """Of one of Warren's own processes, by the name it gives itself."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None
    begin, _, rest = name.partition("-")
    return _ROLES.get(rest.partition("-")[0]) if begin == "warren" else None


def _on_processor_s(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0
