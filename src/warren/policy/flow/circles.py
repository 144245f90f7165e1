"""The jobs that share links, and a place for each on the circle of its link's other jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.model.units import NS_PER_S
from warren.policy.common.round_phases import RoundPhases
from warren.solve.flows.rotations import best_rotations
from warren.solve.flows.whole_periods import WholePeriods, whole_periods

_LEAST_GAIN: Final = 0.1
"""Part of all traffic by which overlaps must shrink for the starts of rounds to matter."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A job's place on its circle, which has the number of its first job.

    Its rounds begin every ``period_ns``, ``offset_ns`` after those of a job without offset.
    """

    circle: int
    period_ns: int
    offset_ns: int


def turns_of(
    phases: Mapping[int, RoundPhases], lengths_ns: Mapping[int, int], slices: int, tolerance: float
) -> dict[int, Turn]:
    """Give each job that shares links its turn; none if turns would change little.

    Parameters
    ----------
    phases
        The times at which each job sends.
    lengths_ns
        The time of a round of each job alone. If the load of a link exceeds its rate, rounds are
        taken to be longer, so that it is busy all the time.
    slices
        Of the shortest period.
    tolerance
        The part by which a period may be longer than its round, to be a whole number of units. Jobs
        without such a ratio of lengths have no turn, those that send least first.
    """
    found: dict[int, Turn] = {}
    lengths_ns = _stretched(phases, lengths_ns)
    for meeting in _meetings(phases):
        jobs, periods = _in_step(phases, lengths_ns, meeting, tolerance)
        if periods is None:
            continue
        each = max(1, round(slices / min(periods.counts)))
        met_L = np.sum([phases[job].load_s_L > 0 for job in jobs], axis=0) > 1
        demands_LS = [
            phases[job].demand_Ln(
                lengths_ns[job] / NS_PER_S, count * periods.unit / NS_PER_S, count * each
            )[met_L]
            for job, count in zip(jobs, periods.counts, strict=True)
        ]
        rotations = best_rotations(demands_LS)
        sent = sum(float(one.mean(axis=1).sum()) for one in demands_LS)
        if rotations.turned - rotations.excess < _LEAST_GAIN * sent:
            continue
        for job, count, turn in zip(jobs, periods.counts, rotations.slices, strict=True):
            offset_ns = round(turn * periods.unit / each)
            found[job] = Turn(jobs[0], round(count * periods.unit), offset_ns)
    return found


def _stretched(phases: Mapping[int, RoundPhases], lengths_ns: Mapping[int, int]) -> dict[int, int]:
    """Return lengths that all links have time for: each grows by its busiest link's overload."""
    busy_L = sum(
        (one.load_s_L / (lengths_ns[job] / NS_PER_S) for job, one in phases.items()), np.zeros(1)
    )
    return {
        job: round(lengths_ns[job] * max(1.0, float((busy_L * (one.load_s_L > 0)).max())))
        for job, one in phases.items()
    }


def _in_step(
    phases: Mapping[int, RoundPhases],
    lengths_ns: Mapping[int, int],
    jobs: Sequence[int],
    tolerance: float,
) -> tuple[list[int], WholePeriods | None]:
    """Return the jobs whose periods are whole numbers of a unit, and these; None: there are none.

    Jobs that ask for least are left out until there is one.
    """
    left = sorted(jobs)
    while len(left) > 1:
        periods = whole_periods([lengths_ns[job] for job in left], tolerance)
        if periods is not None:
            return left, periods
        left.remove(min(left, key=lambda job: (phases[job].load_s_L.sum(), -job)))
    return left, None


def _meetings(phases: Mapping[int, RoundPhases]) -> Iterator[list[int]]:
    """Yield the jobs that are tied by links, two or more together."""
    left = sorted(phases)
    while left:
        group = [left.pop(0)]
        # An added job may share links with others still.
        for job in group:
            uses_L = phases[job].load_s_L > 0
            met = [one for one in left if (uses_L & (phases[one].load_s_L > 0)).any()]
            group += met
            left = [one for one in left if one not in met]
        if len(group) > 1:
            yield group
