"""Maximum accuracy improvement first: the job that will learn most in the next period sends first.

What
    Each period all jobs are ordered by the gain of their metric that is expected within the next
    one, if they had all links alone; the greatest gain has class 1 on its hosts. A job of which
    less than two values and one round's time are known stays in class 0, before all others.
Source
    JPAS (JNCA'20), 3.1, 3.2 with Pseudocode 1, and 4: equations (13), (21) and (22), with the
    engineering method of the speed, the shortest round seen, or the mathematical one, (14) to (20).
    ``warren.predict.accuracy_gain``, ``warren.policy.flow.modelled_speed``.
Differs
    A flow has one class, on the link that it leaves by and the link that it comes in by, where the
    paper's has a priority for each (``warren.solve.flows.class_order``); so one number of
    ``classes`` replaces its q and q'. It reads N.Job for N'.Job in GenerateLocalOrder; N' is meant.
    Class 0 is reserved, so of 8 queues 7 are left. ``gain: smoothed`` subtracts the curve's value
    in place of y_t, which has noise. ``gain: expected`` does so, too, and predicts by the job's
    statements about its curve: the metric of its stop rule, its ``schedule``
    (``warren.predict.curve_kind``). The others know neither, as (22) does not: a learning rate that
    will be cut makes no difference to them. A job without a metric has no gain, and is last. The
    paper's way out of starvation, weighted queues, is the network's: ``classes: {weights: ...}``.
    ``error`` spoils each gain by that part, up or down by chance, as the paper's Fig. 22 does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import msgspec
import numpy as np

from warren.model.decision import NOTHING, Decision, Question
from warren.model.events import Event, Woken
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.job_traffic import TOLD, JobTraffic
from warren.policy.flow.changed import MOST, checked_classes, in_turns, known_jobs
from warren.policy.flow.modelled_speed import modelled_step_s
from warren.predict.accuracy_gain import (
    accuracy_gain,
    expected_gain,
    smoothed_gain,
    steps_ahead,
)
from warren.predict.curve import LEAST_POINTS, Curve, curve_of
from warren.predict.curve_kind import kind_of

_GAINS: Final = ("published", "smoothed", "expected")
_SPEEDS: Final = ("engineering", "mathematical")


@dataclass(frozen=True, slots=True)
class _Memory:
    """``wake_ns``: when the period ends; ``gains`` of the jobs that were ordered, by job."""

    traffic: JobTraffic = field(default_factory=JobTraffic)
    wake_ns: int = 0
    gains: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maif:
    """Order jobs by their gain within ``period_s`` seconds, in ``classes`` classes."""

    period_s: float = 600.0
    classes: int = MOST
    gain: str = "published"
    error: float = 0.0
    speed: str = "engineering"

    name: ClassVar[str] = "maif"
    source: ClassVar[str] = "JPAS (JNCA'20) 3-4"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = TOLD | {Woken}

    def __post_init__(self) -> None:
        """Refuse options out of their ranges."""
        checked_classes(self.classes)
        if not (math.isfinite(self.period_s) and round(self.period_s * NS_PER_S) > 0):
            raise ValueError(f"period_s must be above 0, got {self.period_s:g}")
        if self.gain not in _GAINS:
            raise ValueError(f"gain must be one of {', '.join(_GAINS)}, got {self.gain[:60]!r}")
        if self.speed not in _SPEEDS:
            allowed = ", ".join(_SPEEDS)
            raise ValueError(f"speed must be one of {allowed}, got {self.speed[:60]!r}")
        if not 0 <= self.error <= 1:
            raise ValueError(f"error must be 0 to 1, got {self.error:g}")

    def initial(self, view: View) -> _Memory:
        """Return a memory of nothing."""
        return _Memory()

    def decide(self, view: View, memory: _Memory) -> tuple[Decision, _Memory]:
        """Order the jobs again if the period is over; otherwise note the events."""
        traffic = memory.traffic.after(view)
        if view.now_ns < memory.wake_ns:
            return NOTHING, _Memory(traffic, memory.wake_ns, memory.gains)
        if not (view.arrived_J & ~view.done_J).any():
            # No job is there: the next arrival begins a period.
            return NOTHING, _Memory(traffic)
        found = {job: self._gain(view, traffic, job) for job in known_jobs(view, traffic)}
        gains = {job: gain for job, gain in found.items() if gain is not None}
        turns = [(job,) for job in sorted(gains, key=lambda job: (-gains[job], job))]
        decision = in_turns(view, traffic, turns, self.classes)
        wake_ns = view.now_ns + round(self.period_s * NS_PER_S)
        return msgspec.structs.replace(decision, wake_ns=wake_ns), _Memory(traffic, wake_ns, gains)

    def explain(self, view: View, memory: _Memory, job: int) -> str:
        """Say in one sentence why the job has its class."""
        if job not in memory.gains:
            return "too little is known of its metric and its speed: class 0, before all others"
        ahead = sum(gain > memory.gains[job] for gain in memory.gains.values())
        return f"gains {memory.gains[job]:.3g} in the next period; {ahead} jobs gain more"

    def _gain(self, view: View, traffic: JobTraffic, job: int) -> float | None:
        """Eq. (21): return A_imp of a job; None: it is not known yet."""
        if view.jobs[job].stop is None:
            return 0.0
        seen = view.progress.of(job)
        finite = np.isfinite(seen.values_P)
        step_s = self._step_s(view, traffic, job)
        if finite.sum() < LEAST_POINTS or not step_s:
            return None
        steps = steps_ahead(self.period_s, 1 / step_s)
        curve = curve_of(seen.rounds_P[finite].tolist(), seen.values_P[finite].tolist())
        gain = self._predicted(view, job, curve, steps)
        if self.error:
            # By job and points, so that each period has draws of its own.
            random = np.random.Generator(np.random.PCG64([view.seed, job, len(seen)]))
            gain *= 1 + self.error * (1 if random.random() < 0.5 else -1)
        return gain

    def _step_s(self, view: View, traffic: JobTraffic, job: int) -> float | None:
        """Return the time of a round with all links to itself; None: it is not known yet."""
        if self.speed == "mathematical":
            step_s = modelled_step_s(view, traffic, job)
            if step_s is not None:
                return step_s
        fastest_ns = traffic.fastest_ns.get(job)
        return None if fastest_ns is None else fastest_ns / NS_PER_S

    def _predicted(self, view: View, job: int, curve: Curve, steps: float) -> float:
        """Return A_imp as the option ``gain`` has it."""
        seed = view.seed + job
        if self.gain == "published":
            return accuracy_gain(curve, steps, seed)
        if self.gain == "smoothed":
            return smoothed_gain(curve, steps, seed)
        return expected_gain(curve, steps, seed, kind_of(view.jobs[job]))
