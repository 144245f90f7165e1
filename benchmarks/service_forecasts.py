"""What looking ahead costs: why a job waits, and what a change would do.

1,000 jobs of 20 users wait for 1 to 8 devices each, with time limits of 1 to 48 h, on 200 GPUs in
25 hosts of two types, beside 50,000 jobs that have ended. *Why* is asked of 40 drawn jobs; nine of
ten take less than the time that counts. *What if* plays the queue with a change and without it.
Times are processor time: each is one thread that computes.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from time import process_time
from typing import Final

import numpy as np
from _ranges import median_s, report
from service_decisions import USERS, come, fold

from warren.model.units import NS_PER_S
from warren.serve.forecast.copies import copied
from warren.serve.forecast.forward import play_forward
from warren.serve.forecast.what_if import NewPriority, TriedChanges, WhatIf
from warren.serve.forecast.why import explained
from warren.serve.hosts.port import AgentJoined
from warren.serve.queue.reports import events_of
from warren.serve.queue.state import Queue
from warren.serve.records.events import (
    AttemptBegun,
    AttemptEnded,
    AttemptStarted,
    JobEnded,
    JobSubmitted,
)
from warren.serve.records.jobs import CommandSpec, JobState
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import Order, decide

HOSTS: Final = 25
GPUS: Final = 8
WAITING: Final = 1_000
ENDED: Final = 50_000
ASKED: Final = 40
NOW_NS: Final = 3600 * NS_PER_S


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    orders: tuple[Order, ...] = ("strict", "backfill")
    figures = {}
    for order in orders:
        queue = crowded(order)
        figures["service_copy_ms"] = 1000 * median_s(partial(copied, queue), process_time)
        figures[f"service_forward_{order}_s"] = median_s(
            partial(play_forward, queue, NOW_NS, order), process_time
        )
        figures[f"service_why_{order}_s"] = why_s(queue, order)
        figures[f"service_what_if_{order}_s"] = median_s(
            partial(what_if, queue, order), process_time
        )
    report(figures)


def crowded(order: Order) -> Queue:
    """A queue as above."""
    queue = Queue()
    for k in range(HOSTS):
        kind, memory = ("A100", 40 << 30) if k % 2 else ("H100", 80 << 30)
        devices = tuple(HostDevice(f"h{k}/{d}", "gpu", kind, memory) for d in range(GPUS))
        machine = Machine(f"h{k}", devices, "boot", 64, 1 << 40, "cgroup", "1")
        fold(queue, events_of(queue, AgentJoined(machine, ()), 0))
    spec = CommandSpec(command=("true",), folder="/")
    for k in range(ENDED):
        name, host, device = str(k + 1), f"h{k % HOSTS}", f"h{k % HOSTS}/0"
        fold(
            queue,
            [
                JobSubmitted(time_ns=k, job=name, user=f"u{k % USERS}", spec=spec),
                AttemptBegun(time_ns=k, job=name, attempt=1, host=host, devices=(device,)),
                AttemptStarted(time_ns=k, job=name, attempt=1),
                AttemptEnded(time_ns=k, job=name, attempt=1, cause="exit", exit_code=0),
                JobEnded(time_ns=k, job=name, state=JobState.FINISHED),
            ],
        )
    draw = np.random.default_rng(1)
    while len(queue.waiting) < WAITING:
        for _ in range(50):
            come(queue, draw, ENDED)
        fold(queue, decide(queue, ENDED, order))
    for job in queue.running:
        fold(queue, [AttemptStarted(time_ns=ENDED, job=job, attempt=1)])
    return queue


def why_s(queue: Queue, order: Order) -> float:
    """The time in which it is known of nine of ten drawn jobs why they wait."""
    jobs = [job for job in queue.jobs.values() if job.state is JobState.QUEUED]
    causes: Counter[str] = Counter()
    taken_s = []
    for place in np.random.default_rng(2).choice(len(jobs), ASKED, replace=False):
        begin = process_time()
        copy = copied(queue)
        found = explained(copy, copy.jobs[jobs[int(place)].id], NOW_NS, order)
        taken_s.append(process_time() - begin)
        causes["+".join((found.cause, *found.also))] += 1
    print(f"{order}: {dict(causes)}, at most {max(taken_s):.3f} s")
    return sorted(taken_s)[9 * ASKED // 10]


def what_if(queue: Queue, order: Order) -> None:
    """Give the last job the highest priority, in a copy."""
    job = next(reversed(queue.jobs))
    changes = TriedChanges(priority=(NewPriority(job, 1000),))
    WhatIf(queue, changes, Caller("u1"), NOW_NS, order).answer()


if __name__ == "__main__":
    main()
