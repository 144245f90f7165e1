"""What a process a device and job costs: memory, the first task on a device, going to and fro.

*Memory*: what a trainer and the parent it is forked by have for themselves (``Private_Dirty``),
after a task of a model of one number. *First task*: a job trains on one device and gets a task on
another, where nothing of it is yet: from the assignment to the task's start. *To and fro*: two jobs
take turns on one device, a task each without work; the time a task, beside that of one job alone,
whose next task has to wait for its barrier.

Medians of ``RUNS`` runs in this process, on the real engine. Nothing is computed again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from _ranges import RUNS, report

from warren.live.control.local_engine import LivePort
from warren.live.measure.task_times import nothing_costs
from warren.live.process.specs import TrainerRole
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.decision import Assignment
from warren.model.events import TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run

ROUNDS: Final = 200
FOLDER: Final = Path(__file__).parent


def main() -> None:
    """Measure and print; stop with an error where a figure leaves its range."""
    memory, parents, first_s = zip(*(first_task() for _ in range(RUNS)), strict=True)
    alone = [task_s(1) for _ in range(RUNS)]
    in_turn = [task_s(2) for _ in range(RUNS)]
    report(
        {
            "trainer_private_bytes": median(memory),
            "trainer_parent_private_bytes": median(parents),
            "first_task_on_a_device_s": median(first_s),
            "task_of_one_job_ms": 1000 * median(alone),
            "task_of_two_jobs_in_turn_ms": 1000 * median(in_turn),
        }
    )


def first_task() -> tuple[int, int, float]:
    """Private bytes of a trainer and of its parent; seconds to a first task on a device."""
    with tempfile.TemporaryDirectory() as folder, port(1, 2, folder) as live:
        live.submit(stretch(0, 0, range(20)))
        starts, asked_ns, memory = {}, 0, (0, 0)
        while events := live.next_events():
            for event in events:
                if isinstance(event, TasksDone):
                    starts[event.round] = event.start_ns
                    if event.round == 10 and not asked_ns:
                        memory = memory_of(live)
                        asked_ns = event.time_ns
                        live.submit(stretch(0, 1, range(20, 22)))
    return *memory, (starts[20] - max(asked_ns, starts[19])) / 1e9


def memory_of(live: LivePort) -> tuple[int, int]:
    """Private bytes of the first trainer, and of the process it was forked by."""
    for pid, role in live.processes().items():
        if isinstance(role, TrainerRole):
            stat = Path(f"/proc/{pid}/stat").read_text()
            return private_bytes(pid), private_bytes(int(stat.rpartition(")")[2].split()[1]))
    raise RuntimeError("no trainer is here")


def private_bytes(pid: int) -> int:
    """What a process has written to and shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(one.split()[1]) for one in lines if one.startswith("Private_Dirty:"))


def task_s(jobs: int) -> float:
    """Seconds a task of so many jobs that take turns on one device."""
    with tempfile.TemporaryDirectory() as folder, port(jobs, 1, folder) as live:
        for round_no in range(ROUNDS):
            for job in range(jobs):
                live.submit(stretch(job, 0, [round_no]))
        starts = []
        while events := live.next_events():
            starts += [event.start_ns for event in events if isinstance(event, TasksDone)]
    begun = sorted(starts)[10 * jobs :]
    return (begun[-1] - begun[0]) / 1e9 / (len(begun) - 1)


def stretch(job: int, device: int, rounds: Iterable[int]) -> tuple[Assignment, ...]:
    """Assignments of single rounds of one task."""
    return tuple(Assignment(device, job, round_no, 1, (0,)) for round_no in rounds)


def port(jobs: int, devices: int, folder: str) -> LivePort:
    """The engine, with jobs of one user that compute nothing; apps are built before time zero."""
    work = tuple(
        Job(
            index=index, name=f"job-{index}", app="_apps.py:Nothing", scale=1,
            rounds=ROUNDS if jobs > 1 or devices == 1 else 22, batch=16, seed=1, user="ana",
        )
        for index in range(jobs)
    )  # fmt: skip
    names = tuple(f"h/CPU-{index}" for index in range(devices))
    cluster = Cluster(
        hosts=(Host(name="h", devices=names),),
        devices=tuple(
            Device(index=index, name=name, type="CPU", host="h") for index, name in enumerate(names)
        ),
        types=(DeviceType(name="CPU"),),
    )
    run = Run(name="trainers", cluster=cluster, workload=Workload(jobs=work), base=str(FOLDER))
    warm = 0 if devices > 1 else 512
    return LivePort(replace(run, verify=0.0), nothing_costs(run), folder, warm_limit=warm)


if __name__ == "__main__":
    main()
