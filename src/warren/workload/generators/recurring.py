"""Recurring jobs: runs of a few kinds, alike in all that a cluster is told and about as long.

*Ours*, for policies that use what the past tells. A kind fixes model, scale, user and the median
of its jobs' rounds; which kind a job is of is drawn evenly. A run has the median times a lognormal
factor: twice the median is as likely as half of it.

The kinds have a seed of their own, so that a history and a workload of different seeds are runs of
the same kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.workload.generators.domains import places
from warren.workload.generators.draws import integers, lognormal

KINDS_A_USER: Final = 4
_SCALES, _MEDIANS, _TURNS, _FACTORS = range(9, 13)
_BELOW: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``stem``: what the names of its jobs have alike. ``rounds``: the median of theirs."""

    stem: str
    user: str
    model: str
    scale: int
    rounds: int


def kinds(count: int, seed: int, shares: Mapping[str, float], scales: Sequence[int]) -> list[Kind]:
    """So many kinds, in parts of the domains as the shares say; a user has four of them.

    Raises
    ------
    ValueError
        If the shares add up to nothing.
    """
    of_scales = integers(seed, _SCALES, count, len(scales))
    parts = integers(seed, _MEDIANS, count, _BELOW)
    return [
        Kind(
            stem=f"{model}-k{number}",
            user=f"user{number // KINDS_A_USER}",
            model=model,
            scale=scales[of_scales[number]],
            rounds=domain.drawn_rounds(parts[number]),
        )
        for number, (domain, model) in enumerate(places(count, shares))
    ]


def turns(seed: int, jobs: int, count: int) -> list[int]:
    """The number of each job's kind, drawn evenly from ``count`` kinds."""
    return integers(seed, _TURNS, jobs, count)


def factors(seed: int, jobs: int, spread: float) -> list[float]:
    """For each job what its rounds are over the median: e to the ``spread`` times a normal draw."""
    return lognormal(seed, _FACTORS, jobs, spread)
