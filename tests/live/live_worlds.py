"""Small real runs: apps written to a folder, a run around them, and a driver for the port."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from live_apps import APPS as APPS
from live_apps import text_of

from warren.live.control import engine
from warren.live.control.engine import LiveEngine
from warren.live.control.plain_engine import PlainPort
from warren.live.gpu.discovery import Gpu
from warren.live.gpu.trainer_device import STAND_IN
from warren.model.cluster import Cluster, Device, DeviceType, Emulate, Host
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import (
    AnyEvent,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TasksDone,
)
from warren.model.job import Job, Workload
from warren.model.run import Run
from warren.model.units import seconds_to_ns


def job(index: int, app: str = "Tiny", **changes: object) -> Job:
    """A job of three rounds of two tasks."""
    fields: dict[str, object] = {
        "name": f"job-{index}", "scale": 2, "rounds": 3, "batch": 4, "seed": 5 + index,
        "user": "ana",
    }  # fmt: skip
    fields |= changes
    return Job(index=index, app=f"apps.py:{app}", **fields)  # type: ignore[arg-type]


def world(
    folder: Path,
    jobs: Sequence[Job],
    devices: int = 2,
    *,
    scale: float | None = None,
    comp_s: float = 0.0,
    sync_s: float = 0.0,
    servers: int = 1,
) -> tuple[Run, CostTable]:
    """A run whose apps are in ``folder``; without jobs, all apps are."""
    names = [str(one.app).rpartition(":")[2] for one in jobs]
    (folder / "apps.py").write_text(f"{text_of(names)}\n" if jobs else APPS)
    run, costs = virtual(jobs, devices, str(folder), scale=scale, comp_s=comp_s, sync_s=sync_s)
    return replace(run, scheduler=replace(run.scheduler, servers=servers)), costs


def treat_devices_as_gpus(monkeypatch: pytest.MonkeyPatch, kind: str = "cpu") -> None:
    """Let runs do all but the kernels as on GPUs, on all devices of a type."""
    stand_in = Gpu(STAND_IN, "stand-in", 1 << 30, "")

    def found(devices: Sequence[Device]) -> list[Gpu | None]:
        return [stand_in if one.type == kind else None for one in devices]

    monkeypatch.setattr(engine, "gpus_of", found)


def virtual(
    jobs: Sequence[Job],
    devices: int,
    base: str = "",
    *,
    scale: float | None = None,
    comp_s: float = 0.0,
    sync_s: float = 0.0,
) -> tuple[Run, CostTable]:
    """A run on one host with ``devices`` equal devices, emulated if ``scale`` is given."""
    names = tuple(f"h/cpu-{index}" for index in range(devices))
    cluster = Cluster(
        hosts=(Host(name="h", devices=names),),
        devices=tuple(
            Device(index=index, name=name, type="cpu", host="h") for index, name in enumerate(names)
        ),
        types=(DeviceType(name="cpu"),),
        emulate=None if scale is None else Emulate(time_scale=scale),
    )
    run = Run(name="test", cluster=cluster, workload=Workload(jobs=tuple(jobs)), base=base)
    shape = (len(jobs), 1)
    costs = CostTable(
        comp_ns_JT=np.full(shape, seconds_to_ns(comp_s)),
        sync_ns_JT=np.full(shape, seconds_to_ns(sync_s)),
        fits_JT=np.ones(shape, dtype=bool),
    )
    return run, costs


def shuffled(
    run: Run, seed: int, rounds_of: Mapping[int, int] = MappingProxyType({})
) -> list[Assignment]:
    """All tasks round by round, jobs and shards in random order on random devices.

    ``rounds_of`` says how many rounds to assign of a job that does not know.
    """
    draw = random.Random(seed)
    result: list[Assignment] = []
    jobs, devices = run.workload.jobs, len(run.cluster.devices)
    rounds = {one.index: one.rounds or rounds_of[one.index] for one in jobs}
    for round_no in range(max(rounds.values())):
        tasks = [
            (one.index, shard)
            for one in jobs
            if round_no < rounds[one.index]
            for shard in range(one.scale)
        ]
        draw.shuffle(tasks)
        result += [
            Assignment(draw.randrange(devices), index, round_no, 1, (shard,))
            for index, shard in tasks
        ]
    return result


def drive(
    port: LiveEngine,
    assignments: Sequence[Assignment],
    watch: Callable[[AnyEvent], object] = lambda event: None,
    *,
    held: bool = False,
) -> list[AnyEvent]:
    """Submit everything at once, then collect events until it is over; ``watch`` sees each.

    What a job that is rolled back has to run again is submitted again. ``held`` submits a job's
    first round when ``watch`` has seen it arrive, and each other when it has seen the one before:
    what is done at barriers is never late, however busy the machine is.
    """
    port.submit(() if held else tuple(assignments))
    seen: list[AnyEvent] = []
    while events := port.next_events():
        seen += events
        for event in events:
            watch(event)
            if isinstance(event, RolledBack):
                rest = again(assignments, event)
                port.submit(tuple(one for one in rest if not held or one.round == event.round))
            elif held and isinstance(event, JobArrived):
                port.submit(rows_of(assignments, event.job, 0))
            elif held and isinstance(event, RoundsDone) and not event.finished:
                port.submit(rows_of(assignments, event.job, event.round + event.rounds))
    return seen


def rows_of(assignments: Sequence[Assignment], job: int, first: int) -> tuple[Assignment, ...]:
    """A job's rows that begin with that round."""
    return tuple(one for one in assignments if (one.job, one.round) == (job, first))


def again(assignments: Sequence[Assignment], back: RolledBack) -> Iterator[Assignment]:
    """What of a job's assignments lies behind the round that it goes back to."""
    for one in assignments:
        first, end = max(one.round, back.round), one.round + one.rounds
        if one.job == back.job and first < end:
            yield Assignment(one.device, one.job, first, end - first, one.shards)


def accepted(events: Sequence[AnyEvent]) -> list[TasksDone]:
    """Rows that no rollback has taken back."""
    rows: list[TasksDone] = []
    for event in events:
        if isinstance(event, TasksDone):
            rows.append(event)
        elif isinstance(event, RolledBack):
            rows = [r for r in rows if r.job != event.job or r.round < event.round]
    return rows


def of(events: Sequence[AnyEvent], kind: type, job: int | None = None) -> list:  # type: ignore[type-arg]
    """Events of one type, of one job if named."""
    return [e for e in events if isinstance(e, kind) and (job is None or e.job == job)]


def ended(events: Sequence[AnyEvent]) -> dict[int, str]:
    """Each job's end: finished or failed."""
    result = {}
    for event in events:
        if isinstance(event, RoundsDone) and event.finished:
            result[event.job] = "finished"
        if isinstance(event, JobFailed):
            result[event.job] = "failed"
    return result


def session(pid: int) -> list[int]:
    """Living processes (no zombies) of one process session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == pid and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


def hashes(events: Sequence[AnyEvent]) -> dict[int, str]:
    """The hash of each job's parameters, by job."""
    return {event.job: event.sha256 for event in of(events, ParamsSaved)}


def plain_hashes(folder: Path, jobs: Sequence[Job]) -> dict[int, str]:
    """The hashes of jobs that the plain engine trains."""
    run, _ = world(folder, jobs, 1)
    whole = [Assignment(0, one.index, 0, one.rounds or 0, tuple(range(one.scale))) for one in jobs]
    with PlainPort(run, folder / "out") as port:
        return hashes(drive(port, whole))
