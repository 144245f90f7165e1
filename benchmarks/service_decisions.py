"""What decisions of the service cost: a queue that is full, one that is long, and its fold.

*Decisions*: 1,000 jobs of 20 users wait for 1 to 8 devices each, with time limits of 1 to 48 h, on
1,000 GPUs in 125 hosts of two types. One running job after another ends, another job comes, and the
decision that follows is timed. *Long*: 50,000 jobs wait and no device is free. *Fold*: the events
of 50,000 jobs, from submission to end, are applied.
"""

from __future__ import annotations

from statistics import fmean, median
from time import perf_counter
from typing import Final

import numpy as np
from _ranges import report

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import AgentJoined, CommandEnded
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import submit
from warren.serve.queue.state import Queue
from warren.serve.queue.views import row
from warren.serve.records.events import (
    AnyEvent,
    AttemptBegun,
    AttemptEnded,
    AttemptStarted,
    JobEnded,
    JobSubmitted,
)
from warren.serve.records.jobs import CommandSpec, JobState, Submission, attempt_id
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import Order, decide

HOSTS: Final = 125
GPUS: Final = 8
USERS: Final = 20
WAITING: Final = 1_000
STEPS: Final = 300
LONG: Final = 50_000
HOUR_NS: Final = 3600 * NS_PER_S


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {}
    for order in ("strict", "backfill"):
        taken_s = decisions_s(order)
        middle_ms, mean_ms = 1000 * median(taken_s), 1000 * fmean(taken_s)
        print(
            f"{order}: median {middle_ms:.2f} ms, mean {mean_ms:.2f} ms, most {max(taken_s):.3f} s"
        )
        figures[f"service_{order}_decision_ms"] = middle_ms
    figures.update(long_queue())
    figures["service_200000_events_s"] = fold_s()
    report(figures)


def decisions_s(order: Order) -> list[float]:
    """Seconds of each decision after the first, which fills the cluster."""
    draw = np.random.default_rng(1)
    queue = cluster()
    for _ in range(WAITING + 300):
        come(queue, draw, 0)
    begin = perf_counter()
    begun = decide(queue, 1, order)
    print(f"{order}: {len(begun)} first starts in {1000 * (perf_counter() - begin):.1f} ms")
    fold(queue, begun)
    taken_s, now_ns = [], NS_PER_S
    for _ in range(STEPS):
        now_ns += 60 * NS_PER_S
        running = list(queue.running)
        job = queue.jobs[running[int(draw.integers(len(running)))]]
        end(queue, job.id, now_ns)
        while len(queue.waiting) < WAITING:
            come(queue, draw, now_ns)
        begin = perf_counter()
        begun = decide(queue, now_ns, order)
        taken_s.append(perf_counter() - begin)
        fold(queue, begun)
    print(f"{order}: {len(queue.running)} run, {len(queue.waiting)} wait")
    return taken_s


def long_queue() -> dict[str, float]:
    """A queue of 50,000 jobs with no free device: a submission, a decision, a list."""
    queue = cluster()
    draw = np.random.default_rng(2)
    while not queue.waiting.groups:
        come(queue, draw, 0)
        fold(queue, decide(queue, 1, "strict"))
    spec = CommandSpec(command=("train",), folder="/", devices=1, device_type="gpu")
    while len(queue.waiting) < LONG:
        fold(queue, submit(queue, [Submission(spec, array=(0, 999))], Caller("u1"), 2).events)
    fold(queue, decide(queue, 3, "backfill"))
    taken_s = []
    for _ in range(STEPS):
        begin = perf_counter()
        fold(queue, submit(queue, [Submission(spec)], Caller("u2"), 4).events)
        fold(queue, decide(queue, 5, "backfill"))
        taken_s.append(perf_counter() - begin)
    print(f"{LONG} wait: submission and decision median {1000 * median(taken_s):.3f} ms")
    begin = perf_counter()
    rows = [row(queue, job, 6, "backfill") for job in queue.jobs.values()]
    rows_s = perf_counter() - begin
    print(f"{len(rows)} rows in {rows_s:.3f} s")
    return {"service_queue_submit_ms": 1000 * median(taken_s), "service_50000_rows_s": rows_s}


def fold_s() -> float:
    """Seconds to apply 200,000 events."""
    queue = cluster()
    environment = {f"VARIABLE_{k}": "value" * 5 for k in range(50)}
    events: list[AnyEvent] = []
    for k in range(LONG):
        spec = CommandSpec(command=("true",), folder="/", environment=dict(environment))
        name, host, device = str(k + 1), f"h{k % HOSTS}", f"h{k % HOSTS}/0"
        events += [
            JobSubmitted(time_ns=k, job=name, user=f"u{k % USERS}", spec=spec),
            AttemptBegun(time_ns=k, job=name, attempt=1, host=host, devices=(device,)),
            AttemptStarted(time_ns=k, job=name, attempt=1),
            AttemptEnded(time_ns=k, job=name, attempt=1, cause="exit", exit_code=0),
            JobEnded(time_ns=k, job=name, state=JobState.FINISHED),
        ]
    events = events[:200_000]
    begin = perf_counter()
    fold(queue, events)
    return perf_counter() - begin


def cluster() -> Queue:
    """A queue with 125 hosts of 8 GPUs, of two types."""
    queue = Queue()
    for k in range(HOSTS):
        kind, memory = ("A100", 40 << 30) if k % 2 else ("H100", 80 << 30)
        devices = tuple(HostDevice(f"h{k}/{d}", "gpu", kind, memory) for d in range(GPUS))
        machine = Machine(f"h{k}", devices, "boot", 64, 1 << 40, "cgroup", "1")
        fold(queue, events_of(queue, AgentJoined(machine, ()), 0))
    return queue


def come(queue: Queue, draw: np.random.Generator, now_ns: int) -> None:
    """Submit a drawn job."""
    spec = CommandSpec(
        command=("train",),
        folder="/",
        devices=int(draw.choice([1, 1, 1, 2, 4, 8])),
        device_type=(None, "gpu", "H100", "A100")[int(draw.integers(4))],
        time_limit_s=float(draw.integers(1, 49)) * 3600,
        priority=int(draw.choice([0, 0, 0, 1])),
    )
    user = Caller(f"u{draw.integers(USERS)}")
    fold(queue, submit(queue, [Submission(spec)], user, now_ns).events)


def end(queue: Queue, job: str, now_ns: int) -> None:
    """End the attempt of a job."""
    attempt = queue.jobs[job].attempts[-1]
    name = attempt_id(job, attempt.number)
    fold(queue, events_of(queue, CommandEnded(attempt.host, name, now_ns, "exit", 0), now_ns))


def fold(queue: Queue, events: list[AnyEvent] | list[AttemptBegun]) -> None:
    """Apply events."""
    for event in events:
        queue.apply(event)


if __name__ == "__main__":
    main()
