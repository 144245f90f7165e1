"""Jobs of real traces, played through the queue and the scheduler of the service."""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Final

import _common

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import AgentJoined, CommandEnded, CommandStarted
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import submit
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import CommandSpec, JobState, ServiceJob, Submission, attempt_id
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.records.users import Caller
from warren.serve.schedule.decide import Order, decide
from warren.workload.traces.registry import trace_format
from warren.workload.traces.rows import TraceRequest, TraceRow

HOUR_S: Final = 3600.0
CLASSES_S: Final = tuple(hours * HOUR_S for hours in (1, 4, 12, 24, 48, 168))
"""Usual time limits in seconds."""
HABITS: Final = (1.0, 2.0, 4.0, 8.0)
"""Factors by which users exceed the run time before they round up."""
SEED: Final = 1
NAMES: Final = {1: "one", 2: "two", 4: "four", 8: "eight"}


@dataclass(frozen=True, slots=True)
class World:
    """A part of a trace on a cluster, and its weeks.

    ``keep``: the trace is dealt out to this number of equal clusters, of which the first
    ``samples`` are replayed, each by itself. ``every``: of this number of waiting jobs one gets a
    forecast. ``begin``: the first job that is taken; the tuning week begins at ``tuning``, and the
    reported week follows it.
    """

    format: str
    file: str
    hosts: int
    begin: str
    tuning: str
    pools: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    keep: int = 1
    samples: int = 1
    every: int = 1
    gpus: int = 8
    order: Order = "strict"


PHILLY: Final = World(
    "philly",
    "traces/philly/philly_12vc.csv.gz",
    hosts=14,
    begin="2017-10-02",
    tuning="2017-10-16",
    leave_out=("11cb48",),
    keep=4,
    samples=4,
)
WORLDS: Final[Mapping[str, World]] = {
    "philly": PHILLY,
    "philly-backfill": World(
        **{name: getattr(PHILLY, name) for name in PHILLY.__slots__ if name != "order"},
        order="backfill",
    ),
    "philly-robot": World(
        "philly",
        "traces/philly/philly_12vc.csv.gz",
        hosts=1,
        begin="2017-09-25",
        tuning="2017-10-09",
        pools=("11cb48",),
    ),
    "helios": World(
        "helios",
        "traces/helios/cluster_log.csv",
        hosts=5,
        begin="2020-08-01",
        tuning="2020-08-17",
        pools=("vcWoR",),
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A job of the trace as it is submitted, and how long it runs."""

    at_ns: int
    user: str
    spec: CommandSpec
    run_s: float


def asked_of(world: World, sample: int) -> tuple[list[Asked], Counter[str]]:
    """Jobs of a world by the time they come, and how many were left out."""
    path = _common.DATA / world.file
    request = TraceRequest(file=world.file, content=path.read_bytes(), types=("GPU",), look=True)
    begin_ns = ns_of(world.begin)
    left_out = Counter({"too large": 0, "cut at the longest limit": 0})
    found = []
    for row in trace_format(world.format).read(request):
        if not isinstance(row, TraceRow) or not _is_taken(world, row, begin_ns, sample):
            continue
        if row.gpus > world.gpus:
            left_out["too large"] += 1
            continue
        run_s = max(1.0, (row.run_ns or 0) / NS_PER_S)
        left_out["cut at the longest limit"] += run_s > CLASSES_S[-1]
        run_s = min(run_s, CLASSES_S[-1])
        user = row.user or row.pool
        spec = CommandSpec(
            command=("train",),
            folder="/",
            name=f"train-{NAMES.get(row.gpus, 'some')}",
            devices=row.gpus,
            time_limit_s=limit_s(run_s, HABITS[zlib.crc32(user.encode()) % len(HABITS)]),
        )
        found.append(Asked(row.submitted_ns, user, spec, run_s))
    found.sort(key=lambda one: one.at_ns)
    return found, left_out


def _is_taken(world: World, row: TraceRow, begin_ns: int, sample: int) -> bool:
    return (
        row.gpus > 0
        and row.submitted_ns >= begin_ns
        and row.pool not in world.leave_out
        and (not world.pools or row.pool in world.pools)
        and zlib.crc32(f"{SEED} {row.line}".encode()) % world.keep == sample
    )


def limit_s(run_s: float, habit: float) -> float:
    """The time limit that a user states for a run."""
    return next((one for one in CLASSES_S if one >= run_s * habit), CLASSES_S[-1])


class Replay:
    """The queue of the service in played time; ``now_ns`` is the present."""

    def __init__(self, world: World, jobs: Sequence[Asked]) -> None:
        self.queue, self.order = Queue(), world.order
        self.now_ns = jobs[0].at_ns
        self.seen: list[Callable[[AnyEvent], None]] = []
        self._run_s: dict[str, float] = {}
        self._number = count()
        self._todo: list[tuple[int, int, Asked | str]] = [
            (one.at_ns, next(self._number), one) for one in jobs
        ]
        for index in range(world.hosts):
            devices = tuple(HostDevice(f"{index}/{k}", "gpu", "GPU", 16) for k in range(world.gpus))
            machine = Machine(f"h{index}", devices, "boot", 8, 64, "cgroup", "1")
            self._apply(events_of(self.queue, AgentJoined(machine, ()), self.now_ns))

    def steps(self) -> Iterator[ServiceJob | None]:
        """Play on; yields each job that has come and waits, and None after any other step."""
        while self._todo:
            self.now_ns, _, what = heapq.heappop(self._todo)
            come = None
            if isinstance(what, str):
                self._end(what)
            else:
                come = self._submit(what)
            self._start()
            yield come if come is not None and come.state is JobState.QUEUED else None

    def run_s(self, job: ServiceJob) -> float:
        """How long a job is to run, which forecasts do not know."""
        return self._run_s[job.id]

    def _submit(self, what: Asked) -> ServiceJob:
        done = submit(self.queue, [Submission(what.spec)], Caller(what.user), self.now_ns)
        self._apply(done.events)
        job = self.queue.jobs[done.answers[0].id]
        self._run_s[job.id] = what.run_s
        return job

    def _start(self) -> None:
        begun = decide(self.queue, self.now_ns, self.order)
        self._apply(begun)
        for one in begun:
            name = attempt_id(one.job, one.attempt)
            self._apply(
                events_of(self.queue, CommandStarted(one.host, name, self.now_ns), self.now_ns)
            )
            end_ns = self.now_ns + round(self._run_s[one.job] * NS_PER_S)
            heapq.heappush(self._todo, (end_ns, next(self._number), one.job))

    def _end(self, job: str) -> None:
        attempt = self.queue.jobs[job].attempts[-1]
        name = attempt_id(job, attempt.number)
        report = CommandEnded(attempt.host, name, self.now_ns, "exit", exit_code=0)
        self._apply(events_of(self.queue, report, self.now_ns))

    def _apply(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            self.queue.apply(event)
            for see in self.seen:
                see(event)


def ns_of(day: str) -> int:
    """A day as time in nanoseconds since 1970; traces state no time zone."""
    return round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * NS_PER_S
