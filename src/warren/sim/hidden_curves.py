"""Hidden curves: the values that the metric of a job's ``stop`` rule takes in a simulation.

No policy sees them; it sees one value after each evaluation. A job's curve without noise falls (or
rises) from a start to the target of its rule and is there at its last round, not before. With ``x =
rounds / s`` its distance from the target is ``span (g(x) - g(X)) / (1 - g(X))``, X at the last
round; g is one of four shapes, each as likely as the others::

    power        (1 + x)^-1/2, (1 + x)^-1, (1 + x)^-2
    exponential  (1 + x/64)^-64, nearly exp(-x)

A loss starts at 4 to 13 times its target, and where it would level out is 0.2 to 0.8 of the
target. A metric that rises starts at 0.1 to 0.7 of its target and bends as a loss does. With
``share_to_95`` curves bend so that an accuracy is at 95 % of its target, or another metric at 95 %
of its way, after that share of the rounds: jobs that are trained for longer than they learn.

Only sums, products, quotients and square roots: every machine agrees to the bit, as for times.

*Searches.* Of the jobs of one ``group`` the job with most rounds (of equals, the first) reaches its
target. Their user saw the others behind and stopped them: they have made only a part, 50 to 90 %,
of the progress that the leader had made after as many rounds, and end short of the target.

*Noise.* A value is off by ``noise`` times the span times a nearly normal draw. Until the end it is
mirrored at the target, at the leader's end it lies beyond: else the job would have ended at another
round than it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.model.draws import LOSS, LOSS_NOISE, draw_bits, more_bits, stream_key
from warren.model.job import Job, Stop
from warren.model.run import Losses
from warren.sim.task_durations import deviation

Metrics = tuple[tuple[str, float], ...]

_SHORT: Final = 2.0**-40
"""Before its end a curve is short of the target by at least this share of its span."""
_SD: Final = 65536
"""The standard deviation of ``task_durations.deviation``."""
_POWERS: Final = (0, 1, 2, 4)
"""Twice the powers of the shapes; 0: the exponential one."""
_NO_UNIT: Final = 1e-6
"""Least distance of a target from 0 at which it shows the size of the metric."""


@dataclass(frozen=True, slots=True)
class HiddenCurve:
    """The curve of one job: ``target + sign * excess``.

    ``end`` counts the rounds of the group's leader. ``pace`` is the part that the job makes of the
    leader's progress: 1 for the leader itself. ``power`` is twice the power of the shape, 0 for the
    exponential one; ``bend`` is s, in rounds.
    """

    target: float
    sign: float
    span: float
    end: int
    power: int
    bend: float
    pace: float = 1.0

    def value(self, rounds: int) -> float:
        """Return the metric without noise after ``rounds`` rounds."""
        return self.target + self.sign * self.excess(rounds)

    def excess(self, rounds: int) -> float:
        """Return how far it is short of the target, without noise; never negative or growing."""
        # ``left`` is (g(x) - g(X)) / (1 - g(X)): 1 at the start, 0 at the last round alone. A job
        # with a smaller pace has made that part of the progress 1 - left.
        if rounds >= self.end:
            left = 0.0
        else:
            last = self._at(self.end)
            left = max(_SHORT, (self._at(rounds) - last) / (1.0 - last))
        return self.span * (1.0 - self.pace * (1.0 - left))

    def shown(self, rounds: int, off: float) -> float:
        """Return the metric with noise, ``off`` spans from where the curve is.

        Before the end it stays short of the target, at the end it is there or beyond.
        """
        excess = self.excess(rounds)
        if excess == 0.0:
            return self.target - self.sign * abs(off) * self.span
        # Mirrored at the target (``abs``), and never quite there: a value that reached it would
        # have stopped the job in this round.
        short = max(_SHORT * self.span, abs(excess + off * self.span))
        return self.target + self.sign * short

    def _at(self, rounds: int) -> float:
        """Return g(x) at ``x = rounds / s``."""
        return _shape(self.power, rounds / self.bend)


class HiddenCurves:
    """The curves of all jobs, drawn by (seed, job) when they are first asked for."""

    __slots__ = ("_curves", "_jobs", "_leader", "_noise", "_seed", "_share_to_95")

    def __init__(self, jobs: Sequence[Job], losses: Losses, seed: int) -> None:
        self._jobs = jobs
        self._noise = losses.noise
        self._share_to_95 = losses.share_to_95
        self._seed = seed
        # The job with most rounds leads its group; of equals the first, so a later one must have
        # more.
        self._leader: dict[str, Job] = {}
        self._curves: dict[int, HiddenCurve] = {}
        for job in jobs:
            if job.group and job.stop is not None:
                known = self._leader.setdefault(job.group, job)
                if (job.rounds or 0) > (known.rounds or 0):
                    self._leader[job.group] = job

    def of(self, job: int) -> HiddenCurve | None:
        """Return the curve of a job; None if it has no ``stop``, so that no value can end it."""
        curve = self._curves.get(job)
        stop = self._jobs[job].stop
        if curve is None and stop is not None:
            curve = self._curves[job] = self._drawn(self._jobs[job], stop)
        return curve

    def metrics(self, job: int, first: int, rounds: int) -> Metrics:
        """Return the metric that the rounds from ``first`` on show at their last barrier.

        It is empty if the job has no curve, or none of its evaluations falls into these rounds.
        """
        curve, one = self.of(job), self._jobs[job]
        if curve is None or one.stop is None:
            return ()
        done = first + rounds
        # A stretch has an event at its last barrier alone, so an evaluation in it shows there. The
        # last round of a job is always evaluated.
        if one.evaluate is not None and done != one.rounds:
            every = one.evaluate.every
            if done // every == first // every:
                return ()
        # The noise belongs to (job, round): asked again it is the same.
        key = stream_key(self._seed, LOSS_NOISE, job)
        off = self._noise * deviation(key, done, 0) / _SD
        return ((one.stop.metric, curve.shown(done, off)),)

    def _drawn(self, job: Job, stop: Stop) -> HiddenCurve:
        """Draw the curve of a job that has a ``stop`` rule."""
        leader = self._leader.get(job.group, job)
        # All jobs of a group have the leader's curve, and differ in their pace alone.
        of_leader = stream_key(self._seed, LOSS, leader.index)
        shape, size, start, beyond = (_uniform(of_leader, counter) for counter in range(4))
        target = stop.reaches if stop.falls_to is None else stop.falls_to
        assert target is not None, "a stop rule has a target"
        unit = abs(target) if abs(target) > _NO_UNIT else 1.0
        end, power = leader.rounds or 0, _POWERS[int(shape * 4)]
        # In units of the target: the curve starts ``times`` above it, and tends to a level ``deep``
        # below. So g(X), the rest at the last round, is deep / (times + deep).
        times, deep = 3.0 + 9.0 * size, 0.2 + 0.6 * beyond
        span = times if stop.reaches is None else 0.3 + 0.6 * start
        if self._share_to_95 is None:
            last = _x_at(power, deep / (times + deep))
        else:
            # An accuracy of 95 % of the target is 5 % of the target short of it.
            left = 0.05 if stop.reaches is None else 0.05 / span
            last = _last_of_bent(power, self._share_to_95, left)
        own = _uniform(stream_key(self._seed, LOSS, job.index), 4)
        return HiddenCurve(
            target=target,
            sign=1.0 if stop.reaches is None else -1.0,
            span=unit * span,
            end=end,
            power=power,
            bend=end / last,
            pace=1.0 if leader is job else 0.5 + 0.4 * own,
        )


def _shape(power: int, x: float) -> float:
    """Return g(x)."""
    if power:
        # (1 + x)^(-power / 2) by roots and products: ``pow`` may differ in its last bit.
        return math.prod([math.sqrt(1.0 / (1.0 + x))] * power)
    # (1 + x/64)^-64: six squarings make the 64th power.
    result = 1.0 / (1.0 + x / 64.0)
    for _ in range(6):
        result *= result
    return result


def _last_of_bent(power: int, share: float, left: float) -> float:
    """Return X so that a curve from 0 to X has this part left of its way at ``share * X``."""

    def left_at(last: float) -> float:
        end = _shape(power, last)
        return (_shape(power, share * last) - end) / (1.0 - end)

    # A longer curve is bent more: less is left. The shortest is a straight line.
    low = high = 2.0**-10
    while left_at(high) > left:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if left_at(middle) > left else (low, middle)
    return high


def _x_at(power: int, left: float) -> float:
    """Return x with g(x) = ``left``."""
    if power:
        # (1 + x)^(-power / 2) = left, solved by quotients and roots.
        return {1: 1.0 / (left * left), 2: 1.0 / left, 4: math.sqrt(1.0 / left)}[power] - 1.0
    # (1 + x/64)^-64 = left: six roots make the 64th root.
    root = 1.0 / left
    for _ in range(6):
        root = math.sqrt(root)
    return 64.0 * (root - 1.0)


def _uniform(key: int, counter: int) -> float:
    """Draw a number in [0, 1), a multiple of 2**-53."""
    # A double holds exactly the upper 53 of 64 bits.
    return (more_bits(draw_bits(key, 0, 0), counter) >> 11) * 2.0**-53
