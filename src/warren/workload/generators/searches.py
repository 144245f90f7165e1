"""Searches in a generated workload: jobs that try the same thing with other settings.

*Ours*; HLAS's section V-A only says that such groups exist and that jobs of them are stopped when
they fall behind. A search is eight jobs that arrive one after another and are alike; one of them,
the leader, keeps its rounds, and the others are stopped at 20 to 60 % of these, evenly drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.workload.generators.draws import integers, shuffled, uniform

SIZE: Final = 8
_BLOCKS, _LEADERS, _PARTS = range(16, 19)
_LEAST, _MOST = 0.2, 0.6


@dataclass(frozen=True, slots=True)
class Search:
    """``parts[i]``: what job ``first + i`` runs of the leader's rounds; 1 for the leader."""

    name: str
    first: int
    parts: tuple[float, ...]


def searches(jobs: int, percent: float, seed: int) -> Iterator[Search]:
    """As many searches as hold this part of the jobs, rounded; in order of arrival."""
    blocks = jobs // SIZE
    count = min(blocks, round(jobs * percent / 100 / SIZE))
    leaders = integers(seed, _LEADERS, count, SIZE)
    drawn = uniform(seed, _PARTS, count * SIZE).tolist()
    for number, block in enumerate(sorted(shuffled(seed, _BLOCKS, blocks)[:count])):
        parts = [_LEAST + (_MOST - _LEAST) * one for one in drawn[number * SIZE :][:SIZE]]
        parts[leaders[number]] = 1.0
        yield Search(f"search-{number}", block * SIZE, tuple(parts))
