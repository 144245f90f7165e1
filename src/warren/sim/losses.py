"""Hidden curves: what the metric of a job's ``stop`` rule comes to in a simulation.

No policy is told them; it sees one value after each evaluation. A job's curve without noise falls
(or rises) from a start to the target of its rule and is there at its last round, not before. With
``x = rounds / s`` its distance from the target is ``span (g(x) - g(X)) / (1 - g(X))``, X at the
last round, so that its asymptote lies beyond the target; g is one of two families::

    power        (1 + x)^(-k/4), k drawn of 1..8
    exponential  (1 + x/64)^-64, nearly exp(-x)

Only sums, products, quotients and square roots: every machine agrees to the bit, as for times.

*Searches.* Of the jobs of one ``group`` the one with most rounds (of equals, the first) reaches its
target. The others were stopped by their user, who saw them behind: they have made only a part, 50
to 90 %, of the progress that the leader had made after as many rounds, and end short of the target.

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
from warren.sim.truth import deviation

Metrics = tuple[tuple[str, float], ...]

_SHORT: Final = 2.0**-40
"""Of its span a curve is at least short of the target before its end."""
_SD: Final = 65536
_NO_UNIT: Final = 1e-6
"""A target nearer to 0 says nothing of the size of what is measured."""


@dataclass(frozen=True, slots=True)
class HiddenCurve:
    """One job's: ``target + sign * excess``. ``end`` counts the rounds of the group's leader.

    ``pace`` is what the job makes of the leader's progress: 1 for the leader itself. ``power`` is k
    of the power family, 0 for the exponential one; ``bend`` is s, in rounds.
    """

    target: float
    sign: float
    span: float
    end: int
    power: int
    bend: float
    pace: float = 1.0

    def value(self, rounds: int) -> float:
        """Without noise, after so many rounds."""
        return self.target + self.sign * self.excess(rounds)

    def excess(self, rounds: int) -> float:
        """How far it is short of the target, without noise; never negative, never growing."""
        if rounds >= self.end:
            left = 0.0
        else:
            last = self._shape(self.end)
            left = max(_SHORT, (self._shape(rounds) - last) / (1.0 - last))
        return self.span * (1.0 - self.pace * (1.0 - left))

    def shown(self, rounds: int, off: float) -> float:
        """With noise: ``off`` spans from where the curve is, and as the end demands."""
        excess = self.excess(rounds)
        if excess == 0.0:
            return self.target - self.sign * abs(off) * self.span
        short = max(_SHORT * self.span, abs(excess + off * self.span))
        return self.target + self.sign * short

    def _shape(self, rounds: int) -> float:
        x = rounds / self.bend
        if self.power:
            root = math.sqrt(math.sqrt(1.0 / (1.0 + x)))
            return math.prod([root] * self.power)
        result = 1.0 / (1.0 + x / 64.0)
        for _ in range(6):
            result *= result
        return result


class HiddenCurves:
    """Those of all jobs, drawn by (seed, job) when they are first asked for."""

    __slots__ = ("_curves", "_jobs", "_leader", "_noise", "_seed")

    def __init__(self, jobs: Sequence[Job], losses: Losses, seed: int) -> None:
        self._jobs, self._noise, self._seed = jobs, losses.noise, seed
        self._leader: dict[str, Job] = {}
        self._curves: dict[int, HiddenCurve] = {}
        for job in jobs:
            if job.group and job.stop is not None:
                known = self._leader.setdefault(job.group, job)
                if (job.rounds or 0) > (known.rounds or 0):
                    self._leader[job.group] = job

    def of(self, job: int) -> HiddenCurve | None:
        """That of one job; None if it has no ``stop``, so that nothing is evaluated to an end."""
        curve = self._curves.get(job)
        stop = self._jobs[job].stop
        if curve is None and stop is not None:
            curve = self._curves[job] = self._drawn(self._jobs[job], stop)
        return curve

    def metrics(self, job: int, first: int, rounds: int) -> Metrics:
        """What the rounds from ``first`` on show at their last barrier.

        Nothing if the job has no curve, or none of its evaluations falls into these rounds.
        """
        curve, one = self.of(job), self._jobs[job]
        if curve is None or one.stop is None:
            return ()
        done = first + rounds
        if one.evaluate is not None and done != one.rounds:
            every = one.evaluate.every
            if done // every == first // every:
                return ()
        key = stream_key(self._seed, LOSS_NOISE, job)
        off = self._noise * deviation(key, done, 0) / _SD
        return ((one.stop.metric, curve.shown(done, off)),)

    def _drawn(self, job: Job, stop: Stop) -> HiddenCurve:
        leader = self._leader.get(job.group, job)
        of_leader = stream_key(self._seed, LOSS, leader.index)
        family, bend, start = (_uniform(of_leader, counter) for counter in range(3))
        target = stop.reaches if stop.falls_to is None else stop.falls_to
        assert target is not None, "a stop rule has a target"
        end = leader.rounds or 0
        power = int(family * 16) % 16 - 7  # one half each: 1..8, or none
        unit = abs(target) if abs(target) > _NO_UNIT else 1.0
        own = _uniform(stream_key(self._seed, LOSS, job.index), 3)
        return HiddenCurve(
            target=target,
            sign=1.0 if stop.reaches is None else -1.0,
            span=unit * (4.0 + 36.0 * start if stop.reaches is None else 0.3 + 0.6 * start),
            end=end,
            power=max(0, power),
            bend=end * (_bend_of_power(bend) if power > 0 else 1.0 / (1.0 + 4.0 * bend)),
            pace=1.0 if leader is job else 0.5 + 0.4 * own,
        )


def _bend_of_power(drawn: float) -> float:
    """From 1/128 to 1/2 of all rounds, each of six halvings alike."""
    halvings = int(drawn * 6)
    return (0.25 + 0.25 * (drawn * 6 - halvings)) / (1 << halvings)


def _uniform(key: int, counter: int) -> float:
    """In [0, 1), a multiple of 2**-53."""
    return (more_bits(draw_bits(key, 0, 0), counter) >> 11) * 2.0**-53
