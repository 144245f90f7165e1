"""Optimus: workers and servers one by one, to whom more of them gains most by a fitted speed.

What
    A job is measured in a few small shapes, ``after`` rounds in each. To the times of its rounds
    the function of the source is fitted, with coefficients of at least 0; then from one worker and
    one server on, whichever more shortens a round the most is added, until neither does or no host
    is left. Each round of that shape is measured, too, and fitted again.
Source
    Optimus (Peng et al., EuroSys'18), 3.2 for the speed of synchronous training,
    ``f(p, w) = 1 / (a M / w + b + c w / p + d w + e p)`` with M the batch of a round, and 4.1 for
    the marginal gain.
Differs
    It is one job's part of Optimus: others do not bid for the same hosts, and a host has one worker
    or one server. The function knows no machines, so hosts count as equal: workers are the first of
    the cluster, servers the last. The paper measures before a job starts, on a sample of its data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
from immutables import Map
from scipy.optimize import nnls

from warren.model.costs import FloatArray
from warren.model.decision import NOTHING, Decision, Question, Shape
from warren.model.events import Event, JobArrived, RoundsDone, ServersMoved
from warren.model.view import View
from warren.policy.shape.all_hosts import hosts_of
from warren.policy.shape.measured import TOLD, Measured, still_moving

Counts = tuple[int, int]
"""Workers and servers."""
_SAMPLED: Final[tuple[Counts, ...]] = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2))
"""The shapes that are measured first: those for which there are hosts."""


@dataclass(frozen=True, slots=True)
class OptimusMemory:
    """Measurements; for each job its present shape, and the round's time by shape so far."""

    measured: Measured = field(default_factory=Measured)
    now: Map[int, Counts] = field(default_factory=Map)
    round_s: Map[tuple[int, Counts], float] = field(default_factory=Map)
    moving: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus:
    """Fit the speed of each job, and add workers and servers while that gains.

    ``after``: rounds that are measured in each shape.
    """

    after: int = 5

    name: ClassVar[str] = "optimus"
    source: ClassVar[str] = "Optimus (EuroSys'18) 3.2, 4.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.SHAPE})
    binds_workers: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = TOLD

    def __post_init__(self) -> None:
        """Refuse a number that means nothing."""
        if self.after < 1:
            raise ValueError("after counts rounds; allowed: 1 and more")

    def initial(self, view: View) -> OptimusMemory:
        """Return a memory of nothing."""
        return OptimusMemory()

    def decide(self, view: View, memory: OptimusMemory) -> tuple[Decision, OptimusMemory]:
        """Return the next shape to measure for each job, or the best by measurement."""
        measured, moving = memory.measured.after(view), still_moving(memory.moving, view)
        memory = replace(memory, measured=measured, moving=moving)
        shapes = dict[int, Shape]()
        for event in view.changes:
            if isinstance(event, ServersMoved) and event.reason and event.job in memory.now:
                # The next measurement is of the servers that stayed.
                stayed = memory.now[event.job][0], len(event.servers)
                memory = replace(memory, now=memory.now.set(event.job, stayed))
            if not isinstance(event, JobArrived | RoundsDone) or view.jobs[event.job].sync != "ps":
                continue
            job = event.job
            if isinstance(event, RoundsDone):
                # A job that may have one host alone has no shape to measure.
                if event.finished or job in memory.moving or job not in memory.now:
                    continue
                if memory.measured.rounds.get(job, 0) < self.after:
                    continue
                took_s = memory.measured.round_s[job]
                key = (job, memory.now[job])
                memory = replace(memory, round_s=memory.round_s.set(key, took_s))
            counts = self._next(view, memory, job)
            if counts is not None and counts != memory.now.get(job):
                shapes[job] = shape = _shape(hosts_of(view, job), counts)
                moves = job in memory.now and shape.servers != view.servers_J[job]
                memory = replace(
                    memory,
                    measured=memory.measured.anew(job),
                    now=memory.now.set(job, counts),
                    moving=memory.moving | ({job} if moves else set()),
                )
        return (Decision(shapes=shapes) if shapes else NOTHING), memory

    def explain(self, view: View, memory: OptimusMemory, job: int) -> str:
        """Say in one sentence why the job has its shape."""
        counts = memory.now.get(job)
        if counts is None:
            return "it has not arrived, or has no servers"
        seen = sum(one == job for one, _ in memory.round_s)
        return f"{counts[0]} workers and {counts[1]} servers, after {seen} shapes were measured"

    def _next(self, view: View, memory: OptimusMemory, job: int) -> Counts | None:
        """Return the next shape of a job; None: there are not two hosts."""
        hosts = len(hosts_of(view, job))
        sampled = [one for one in _SAMPLED if sum(one) <= hosts]
        left = [one for one in sampled if (job, one) not in memory.round_s]
        if left or not sampled:
            return left[0] if left else None
        seen = {counts: took_s for (one, counts), took_s in memory.round_s.items() if one == job}
        return grown(fitted(seen, int(view.scale_J[job])), int(view.scale_J[job]), hosts)


def fitted(round_s: dict[Counts, float], tasks: int) -> FloatArray:
    """Fit a, b, c, d, e of at least 0 to times of rounds by workers and servers."""
    terms = np.array([_terms(counts, tasks) for counts in round_s])
    coefficients: FloatArray = nnls(terms, np.array(list(round_s.values())))[0]
    return coefficients


def grown(coefficients: FloatArray, tasks: int, hosts: int) -> Counts:
    """Add workers and servers, whichever gains most, from one of each on while that gains."""
    counts = (1, 1)
    while sum(counts) < hosts:
        more = min(
            ((counts[0] + 1, counts[1]), (counts[0], counts[1] + 1)),
            key=lambda one: float(coefficients @ _terms(one, tasks)),
        )
        if coefficients @ _terms(more, tasks) >= coefficients @ _terms(counts, tasks):
            break
        counts = more
    return counts


def _terms(counts: Counts, tasks: int) -> FloatArray:
    """Return the factors of a, b, c, d and e."""
    workers, servers = counts
    return np.array([tasks / workers, 1.0, workers / servers, workers, servers], dtype=float)


def _shape(hosts: tuple[int, ...], counts: Counts) -> Shape:
    """Return the first hosts as workers and the last ones as servers."""
    workers, servers = counts
    return Shape(hosts[:workers], hosts[len(hosts) - servers :])
