"""Tasks in the order in which they came, with limited multiplexing: FIFO-LM.

What
    Jobs send in order of arrival. A job that has sent more than most (a heavy one) shares its class
    with the jobs behind it, so that a long job does not hold up all later ones.
Source
    Baraat (SIGCOMM'14), 3.3 and 4 (FIFO-LM, heavy tasks above the 80th percentile of sizes). A task
    is a whole job with all its flows, as JPAS (JNCA'20) 5.1 runs it.
Differs
    A task's size is the traffic that all its rounds so far may have sent. The percentile is of jobs
    that have ended in this run; until one has, no job is heavy. Baraat takes it from history, and
    ``heavy_bytes`` states what history says. A flow has one class on both its links, at most seven
    (``warren.solve.flows.class_order``); Baraat's rate control in switches is not modeled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from warren.model.decision import NOTHING, Decision, Question
from warren.model.events import Event
from warren.model.view import View
from warren.policy.common.job_traffic import TOLD, JobTraffic
from warren.policy.flow.changed import (
    MOST,
    UNKNOWN,
    checked_classes,
    in_turns,
    known_jobs,
)


@dataclass(frozen=True, slots=True)
class _Memory:
    """``asked``: the jobs that were ordered, and which of them were heavy."""

    traffic: JobTraffic = field(default_factory=JobTraffic)
    asked: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Baraat:
    """First come, first served; those above the ``heavy`` percentile of sizes share.

    ``heavy_bytes``: the size above which a job is heavy, in bytes; 0: by ended jobs.
    """

    heavy: float = 80.0
    heavy_bytes: float = 0.0
    classes: int = MOST

    name: ClassVar[str] = "baraat"
    source: ClassVar[str] = "Baraat (SIGCOMM'14) 3.3"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = TOLD

    def __post_init__(self) -> None:
        """Refuse options out of their ranges."""
        checked_classes(self.classes)
        if not 0 <= self.heavy <= 100:
            raise ValueError(f"heavy must be 0 to 100, got {self.heavy:g}")
        if not (math.isfinite(self.heavy_bytes) and self.heavy_bytes >= 0):
            raise ValueError(f"heavy_bytes must be 0 or more, got {self.heavy_bytes:g}")

    def initial(self, view: View) -> _Memory:
        """Return a memory of nothing."""
        return _Memory()

    def decide(self, view: View, memory: _Memory) -> tuple[Decision, _Memory]:
        """Order the jobs again if one has come, has gone or has become heavy."""
        traffic = memory.traffic.after(view)
        sent_J = view.round_J * np.maximum(view.round_bytes_J, 0)
        ended = sent_J[view.done_J]
        limit = self.heavy_bytes or (np.percentile(ended, self.heavy) if len(ended) else np.inf)
        known = sorted(known_jobs(view, traffic), key=lambda one: (view.arrival_ns_J[one], one))
        asked = tuple((job, bool(sent_J[job] > limit)) for job in known)
        if asked == memory.asked:
            return NOTHING, _Memory(traffic, asked)
        turns: list[list[int]] = []
        shared = False
        for job, heavy in asked:
            # Behind a heavy one the next begins no turn of its own.
            if shared:
                turns[-1].append(job)
            else:
                turns.append([job])
            shared = heavy
        return in_turns(view, traffic, turns, self.classes), _Memory(traffic, asked)

    def explain(self, view: View, memory: _Memory, job: int) -> str:
        """Say in one sentence why the job has its class."""
        order = [one for one, _ in memory.asked]
        if job not in order:
            return UNKNOWN
        heavy = " and has sent more than most" if dict(memory.asked)[job] else ""
        return f"{order.index(job)} jobs that send came before it{heavy}"
