"""Policies that are shown a past and losses made up by a test, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import worlds

from warren.core.journal import Step
from warren.core.journal_reader import History, decode, read_history
from warren.core.loop import Core
from warren.model.costs import CostTable
from warren.model.decision import Decision
from warren.model.job import Job, Stop
from warren.model.past import NO_PAST, Past
from warren.model.run import Grain, Run
from warren.model.view import NO_PROGRESS, Progress, View
from warren.policy.registry import place_policy
from warren.sim.build import sim_port
from warren.sim.port import SimPort

S = 10**9
STOP = Stop(metric="loss", falls_to=0.1)
Curves = Mapping[int, Callable[[int], float]]
UNSEEN: Curves = {}
UNSET: Mapping[str, object] = {}


@dataclass
class Seen:
    """The losses of jobs by their rounds so far."""

    view: View
    losses: Curves

    def of(self, job: int) -> Progress:
        if job not in self.losses:
            return NO_PROGRESS
        rounds = np.arange(1, self.view.round_J.item(job) + 1)
        values = [self.losses[job](one) for one in rounds.tolist()]
        return Progress(rounds, np.array(values, dtype=float))


class Told:
    """A policy that is shown losses."""

    def __init__(self, name: str, losses: Curves, **options: object) -> None:
        self.policy = policy = place_policy(name, options)
        self.name, self.source, self.triggers = policy.name, policy.source, policy.triggers
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.losses = losses

    def told(self, view: View) -> View:
        """The view with the losses that a test has made up."""
        return msgspec.structs.replace(view, progress=Seen(view, self.losses))

    def initial(self, view: View) -> Any:
        return self.policy.initial(self.told(view))

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        return self.policy.decide(self.told(view), memory)

    def explain(self, view: View, memory: Any, job: int) -> str:
        return self.policy.explain(self.told(view), memory, job)


@dataclass
class Ran:
    """``ahead``: R^p of each job by R^r, ``said``: by job and R^r; as they were last."""

    jct_s: list[float]
    turns: list[int]
    ahead: list[dict[int, int]]
    said: dict[tuple[int, int], str]


def ran(
    run: Run,
    costs: CostTable,
    name: str,
    past: Past = NO_PAST,
    losses: Curves = UNSEEN,
    **options: object,
) -> Ran:
    """What came of a run, and what was predicted while it went on."""
    journal, ahead, said = bytearray(), [dict[int, int]() for _ in run.workload.jobs], {}
    policy = Told(name, losses, **options)

    def observe(state: Any, _: object) -> None:
        view = policy.told(state.view())
        for job in np.flatnonzero(view.arrived_J & ~view.done_J).tolist():
            rounds = view.round_J.item(job)
            ahead[job][rounds] = core.memory.foresight.ahead(view, job)  # type: ignore[attr-defined]
            said[job, rounds] = core.memory.foresight.said(view, job)  # type: ignore[attr-defined]

    core = Core(
        run=run, costs=costs, policy=policy, port=SimPort(run, costs), sink=journal.extend,
        past=past, world="sim", check=True, observe=observe,
    )  # fmt: skip
    core.execute()
    arrival = [job.arrival_ns for job in run.workload.jobs]
    jct_s = (read_history(bytes(journal)).finish_ns_J - arrival) / S
    steps = (one for one in decode(bytes(journal)) if isinstance(one, Step))
    turns = [one.job for step in steps for one in step.assign]
    return Ran(jct_s.tolist(), turns, ahead, said)


def journal_of(
    run: Run, costs: CostTable, name: str, options: Mapping[str, object] = UNSET
) -> bytes:
    """The journal of a checked simulation under a policy with these options."""
    journal = bytearray()
    core = Core(
        run=run, costs=costs, policy=place_policy(name, options), port=sim_port(run, costs),
        sink=journal.extend, world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return bytes(journal)


def played(run: Run, costs: CostTable, name: str, options: Mapping[str, object] = UNSET) -> History:
    """What came of it."""
    return read_history(journal_of(run, costs, name, options))


def past(**rounds_of: tuple[int, ...]) -> Past:
    """Jobs that have ended, by their names, whose tasks took a second each."""
    named = [(name, rounds) for name, all_ in rounds_of.items() for rounds in all_]
    jobs = [worlds.job(at, rounds=rounds) for at, (_, rounds) in enumerate(named)]
    return Past(
        jobs=tuple(replace(one, name=name) for one, (name, _) in zip(jobs, named, strict=True)),
        costs=worlds.costs([[1.0]] * len(jobs), [[0.0]] * len(jobs)),
    )


def alike(jobs: list[Job], devices: int = 1, grain: Grain | None = None) -> tuple[Run, CostTable]:
    """Jobs whose tasks take a second each, on devices of one type."""
    run = worlds.run(worlds.cluster(["A"] * devices), jobs, grain=grain)
    return run, worlds.costs([[1.0]] * len(jobs), [[0.0]] * len(jobs))
