"""Draw kinds of jobs for generators: Hare's domains, searches, and recurring jobs.

*Domains.* The four of Hare's Table 2: their models, and limits of their jobs' rounds.

*Searches* are jobs that try the same thing with other settings. *Ours*; HLAS's section V-A only
says that these groups exist and that jobs of them are stopped when they fall behind. A search is
eight jobs that arrive one after another and are alike; one of them, the leader, keeps its rounds,
and the others are stopped at 20 to 60 % of these, evenly drawn.

*Recurring jobs* are runs of a few kinds, alike in all that a cluster knows of them, and about as
long. *Ours*, for policies that use the past. A kind fixes model, scale, user and the median of its
jobs' rounds; the kind of a job is drawn evenly. A run has the median times a lognormal factor:
twice the median is as likely as half of it. The kinds have a seed of their own, so that a history
and a workload of different seeds are runs of the same kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warren.workload.generators.cluster_shapes import parts_of
from warren.workload.generators.draws import BELOW, integers, lognormal, shuffled, uniform

# The share, in parts, of a domain that is not named.
_SHARE: Final = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDomain:
    """One domain: its models, and the least and most rounds of its jobs."""

    models: tuple[str, ...]
    rounds: tuple[int, int]

    def drawn_rounds(self, part: int) -> int:
        """Return rounds between the limits, both included; ``part`` is drawn evenly below 2**31."""
        least, most = self.rounds
        # Whole numbers throughout: floor(part / 2**31 * number of values) without rounding.
        return least + part * (most - least + 1) // 2**31


DOMAINS: Final[Mapping[str, JobDomain]] = {
    "cv": JobDomain(models=("vgg19", "resnet50", "inception-v3"), rounds=(300, 900)),
    "nlp": JobDomain(models=("bert-base", "transformer"), rounds=(500, 1500)),
    "speech": JobDomain(models=("deepspeech",), rounds=(300, 900)),
    "rec": JobDomain(models=("fastgcn", "graphsage"), rounds=(200, 600)),
}
"""Domains by the names that shares use."""


def places(count: int, shares: Mapping[str, float]) -> list[tuple[JobDomain, str]]:
    """Return domain and model of ``count`` jobs, by domain as shares say; models take turns.

    Raises ValueError if the shares add up to nothing.
    """
    parts = parts_of(count, {name: shares.get(name, _SHARE) for name in DOMAINS})
    return [
        (domain, domain.models[turn % len(domain.models)])
        for domain, number in zip(DOMAINS.values(), parts.values(), strict=True)
        for turn in range(number)
    ]


# Jobs of a search; streams of the draws; the least and most part of the leader's rounds.
SIZE: Final = 8
_BLOCKS, _LEADERS, _PARTS = range(16, 19)
_LEAST, _MOST = 0.2, 0.6


@dataclass(frozen=True, slots=True)
class JobSearch:
    """A search; job ``first + i`` runs ``parts[i]`` of the leader's rounds, 1 for the leader."""

    name: str
    first: int
    parts: tuple[float, ...]


def searches(jobs: int, percent: float, seed: int) -> Iterator[JobSearch]:
    """Yield as many searches as hold this part of the jobs, rounded; in order of arrival."""
    # Jobs in order of arrival are cut into blocks of eight; drawn blocks are searches.
    blocks = jobs // SIZE
    count = min(blocks, round(jobs * percent / 100 / SIZE))
    leaders = integers(seed, _LEADERS, count, SIZE)
    drawn = uniform(seed, _PARTS, count * SIZE).tolist()
    for number, block in enumerate(sorted(shuffled(seed, _BLOCKS, blocks)[:count])):
        parts = [_LEAST + (_MOST - _LEAST) * one for one in drawn[number * SIZE :][:SIZE]]
        parts[leaders[number]] = 1.0
        yield JobSearch(f"search-{number}", block * SIZE, tuple(parts))


# Streams of recurring kinds: numbers that no generator draws from for itself.
KINDS_A_USER: Final = 4
_SCALES, _MEDIANS, _TURNS, _FACTORS = range(9, 13)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of jobs: ``stem`` is common to their names, ``rounds`` is the median of theirs."""

    stem: str
    user: str
    model: str
    scale: int
    rounds: int


def kinds(
    count: int, seed: int, shares: Mapping[str, float], scales: Sequence[int]
) -> list[JobKind]:
    """Draw ``count`` kinds, divided among domains as the shares say; a user has four of them.

    Raises ValueError if the shares add up to nothing.
    """
    of_scales = integers(seed, _SCALES, count, len(scales))
    parts = integers(seed, _MEDIANS, count, BELOW)
    return [
        JobKind(
            stem=f"{model}-k{number}",
            user=f"user{number // KINDS_A_USER}",
            model=model,
            scale=scales[of_scales[number]],
            rounds=domain.drawn_rounds(parts[number]),
        )
        for number, (domain, model) in enumerate(places(count, shares))
    ]


def turns(seed: int, jobs: int, count: int) -> list[int]:
    """Draw the number of each job's kind, evenly from ``count`` kinds."""
    return integers(seed, _TURNS, jobs, count)


def factors(seed: int, jobs: int, spread: float) -> list[float]:
    """Draw each job's rounds over the median of its kind: e ** (spread * z), z a normal draw."""
    return lognormal(seed, _FACTORS, jobs, spread)
