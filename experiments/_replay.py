"""What a simulation says of a live run's own decisions: its tasks in its order, on its devices.

An error of predicted JCTs has two parts. The times may be wrong, and then the decisions: where two
jobs end nearly at once, a little decides who is placed first. Here the simulator is given the
decisions, each made on the events that it was made on live, so that what is left is the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from _without_contention import Planned

from warren.core.journal import PlanAdopted, Step, adopted_plan
from warren.core.journal_reader import decode, read_history
from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.costs import FloatArray
from warren.model.decision import Assignment, Decision
from warren.model.events import AnyEvent, CompDone, Event, JobArrived, RoundsDone
from warren.model.run import Run
from warren.model.timeline import Timeline
from warren.model.view import View
from warren.policy.protocol import AnyPolicy
from warren.profile.cost_table import cost_table
from warren.sim.build import sim_port

HEARD: Final = (JobArrived, CompDone, RoundsDone)
Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """Assignments, and the events on which they were made."""

    on: frozenset[Key]
    assign: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A policy that decides what was decided, in that order, once the same has happened."""

    made: Sequence[Made]
    name: ClassVar[str] = "replayed"
    source: ClassVar[str] = "Warren"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(HEARD)

    def initial(self, view: View) -> tuple[int, frozenset[Key]]:
        """Nothing is decided, nothing has happened."""
        return 0, frozenset()

    def decide(
        self, view: View, memory: tuple[int, frozenset[Key]]
    ) -> tuple[Decision, tuple[int, frozenset[Key]]]:
        """All that comes next and whose events are there."""
        at, happened = memory
        happened |= {key(event) for event in view.changes if isinstance(event, HEARD)}
        assign: list[Assignment] = []
        while at < len(self.made) and self.made[at].on <= happened:
            assign += [one for one in self.made[at].assign if not view.done_J[one.job]]
            at += 1
        return Decision(assign=tuple(assign)), (at, happened)

    def explain(self, view: View, memory: object, job: int) -> str:
        """As it was."""
        return "as it was decided"


def key(event: AnyEvent) -> Key:
    """An event without its times. Live, a stretch of rounds passes its barriers one by one."""
    match event:
        case RoundsDone():
            return "passed", event.job, event.round + event.rounds
        case CompDone():
            return "free", event.job, event.round + event.rounds, event.shards, event.device
        case _:
            return type(event).__name__, getattr(event, "job", None)


def made_by(journal: bytes) -> AnyPolicy:
    """What was decided in a run: its plan, or its assignments step by step."""
    steps, barriers = list[Made](), set[Key]()
    for record in decode(journal):
        if isinstance(record, PlanAdopted):
            return Planned(adopted_plan(record))
        if isinstance(record, Step) and record.assign:
            heard = {key(event) for event in record.events if isinstance(event, HEARD)}
            within = {one for one in heard if one[0] == "passed" and one not in barriers}
            there = {key(JobArrived(0, one.job)) for one in record.assign}
            steps.append(Made(frozenset(heard - within | there), record.assign))
            barriers |= {("passed", one.job, one.round + one.rounds) for one in record.assign}
    return Replayed(steps)


def replayed_ns_J(run: Run, live: Path) -> list[int]:
    """When each job would have ended with the decisions of a live run."""
    costs, journal = with_rings(run, cost_table(run)), bytearray()
    policy = made_by((live / "journal").read_bytes())
    Core(
        run=run, costs=costs, policy=policy, port=sim_port(run, costs), sink=journal.extend,
        world="sim",
    ).execute()  # fmt: skip
    ends_ns: list[int] = read_history(bytes(journal)).finish_ns_J.tolist()
    return ends_ns


def given_ratio_J(run: Run, live: Path) -> FloatArray:
    """JCTs with the decisions of a live run, over those of the live run."""
    arrival_J = np.array([job.arrival_ns for job in run.workload.jobs])
    live_J = read_history((live / "journal").read_bytes()).finish_ns_J - arrival_J
    ratio_J: FloatArray = (np.array(replayed_ns_J(run, live)) - arrival_J) / live_J
    return ratio_J


def errors(run: Run, live: Path, simulated: Path) -> dict[str, Any]:
    """The JCT error in its two parts, in percent of the live JCT, over jobs.

    ``given``: with the live run's decisions. ``moved``: what the simulation's own decisions change
    in its JCTs. ``otherwise``: jobs that they placed on other devices, or behind other jobs.
    """
    histories = [read_history((one / "journal").read_bytes()) for one in (live, simulated)]
    arrival_J = np.array([job.arrival_ns for job in run.workload.jobs])
    live_J, own_J = (one.finish_ns_J - arrival_J for one in histories)
    given_J = given_ratio_J(run, live) * live_J
    turns_of = [turns(one.timeline) for one in histories]
    return {
        "given_pct": float(np.mean(np.abs(given_J / live_J - 1)) * 100),
        "given_bias_pct": float(np.mean(given_J / live_J - 1) * 100),
        "moved_pct": float(np.mean(np.abs(own_J - given_J) / live_J) * 100),
        "otherwise": sum(one != other for one, other in zip(*turns_of, strict=True)),
    }


def turns(timeline: Timeline) -> list[set[tuple[int, int]]]:
    """Of each job, its devices, and the job that each of them had before (-1: none)."""
    found = [set[tuple[int, int]]() for _ in range(int(timeline.job_R.max(initial=-1)) + 1)]
    last = dict[int, int]()
    order = np.lexsort((timeline.shard_R, timeline.job_R, timeline.start_ns_R))
    rows = zip(timeline.job_R[order].tolist(), timeline.device_R[order].tolist(), strict=True)
    for job, device in rows:
        before = last.get(device, -1)
        if before != job:
            found[job].add((device, before))
        last[device] = job
    return found
