"""Rotations of periodic bursts on a circle, so that they ask for more than links have least.

*Source.* CASSINI (NSDI'24), 3 and 4: the pattern of a job's link demand is rolled around a circle
whose perimeter is the least common multiple of all periods; the rotations of the patterns are
chosen so that the demand beyond the link's capacity is least. Its score is 1 less the mean excess.

*Differs.* There each link is optimized alone, and a graph of jobs and links, which must have no
loops, is walked to give each job one shift. Here a job has one rotation from the beginning and the
excess is summed over all links, so loops do no harm. The walk along shared links gives the order in
which jobs are placed, each best beside those before it; then each is placed again beside all others
until that gains nothing. Few rotations are all tried. A circle is cut into equal slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

_ALL_TRIED: Final = 2000
"""Most sets of rotations of which all are tried."""
_SWEEPS: Final = 20
_ALIKE: Final = 1e-9


class Rotations(NamedTuple):
    """``slices``: rotation of each pattern; ``excess``: over the links, in whole links.

    1 is the capacity of one link over the whole circle. ``turned``: the most that it would be if
    one of the patterns were turned otherwise.
    """

    slices: tuple[int, ...]
    excess: float
    turned: float


def best_rotations(demands_LS: Sequence[Floats]) -> Rotations:
    """Find a rotation for each pattern; the first, and all where nothing is gained, stay at 0.

    Parameters
    ----------
    demands_LS
        For each job its demand as a part of each link, by link and slice of its own period. All
        have the same links and slices of the same length.
    """
    perimeter = math.lcm(*(one.shape[1] for one in demands_LS))
    whole_LS = [np.tile(one, perimeter // one.shape[1]) for one in demands_LS]
    turns = [one.shape[1] for one in demands_LS]
    order = _walk(whole_LS)
    found = dict.fromkeys(order, 0)
    free = [range(turns[job]) for job in order[1:]]
    if math.prod(map(len, free)) <= _ALL_TRIED:
        each = (dict(zip(order, (0, *one), strict=True)) for one in product(*free))
        found = min(each, key=lambda one: round(_excess(whole_LS, one), 9))
    else:
        placed = {order[0]: 0}
        for job in order[1:]:
            placed[job] = _best(_excesses(whole_LS, placed, job, turns[job]), None)
        found = _swept(whole_LS, placed, turns)
    # The middle of equally good rotations leaves most room for bytes that come early or late.
    for job in order[1:]:
        found[job] = _best(_excesses(whole_LS, found, job, turns[job]), None)
    found = _swept(whole_LS, found, turns)
    # All together turned back, so that the first job stays where it is.
    back = found[0]
    slices = tuple((found[job] - back) % turns[job] for job in range(len(turns)))
    placed = dict(enumerate(slices))
    turned = max(max(_excesses(whole_LS, placed, job, turns[job])) for job in placed)
    return Rotations(slices, _excess(whole_LS, placed), turned)


def excess_of(demands_LS: Sequence[Floats], slices: Sequence[int]) -> float:
    """Compute the demand beyond the links' capacity under rotations; see ``Rotations``."""
    perimeter = math.lcm(*(one.shape[1] for one in demands_LS))
    whole_LS = [np.tile(one, perimeter // one.shape[1]) for one in demands_LS]
    return _excess(whole_LS, dict(enumerate(slices)))


def _walk(whole_LS: Sequence[Floats]) -> list[int]:
    """Order jobs along the links that they share, the job with the largest demand first."""
    asks_JL = np.array([one.sum(axis=1) for one in whole_LS])
    left = list(range(len(whole_LS)))
    order = [max(left, key=lambda job: (asks_JL[job].sum(), -job))]
    left.remove(order[0])
    while left:
        met_L = asks_JL[order].sum(axis=0)
        after = max(left, key=lambda job: (float(asks_JL[job] @ met_L), -job))
        order.append(after)
        left.remove(after)
    return order


def _swept(
    whole_LS: Sequence[Floats], placed: dict[int, int], turns: Sequence[int]
) -> dict[int, int]:
    """Place each job again beside all others until that gains nothing."""
    # Kept up to date: with many jobs most of the time would go into adding it up.
    total_LS = sum(np.roll(whole_LS[job], turn, axis=1) for job, turn in placed.items())
    for _ in range(_SWEEPS):
        before = dict(placed)
        for job, turn in before.items():
            rest_LS = total_LS - np.roll(whole_LS[job], turn, axis=1)
            placed[job] = _best(_beside(rest_LS, whole_LS[job], turns[job]), turn)
            total_LS = rest_LS + np.roll(whole_LS[job], placed[job], axis=1)
        if placed == before:
            break
    return placed


def _excess(whole_LS: Sequence[Floats], placed: dict[int, int]) -> float:
    """Compute the excess of patterns that are turned so."""
    total_LS = sum(np.roll(whole_LS[job], turn, axis=1) for job, turn in placed.items())
    return float(np.maximum(0.0, total_LS - 1.0).sum() / whole_LS[0].shape[1])


def _excesses(
    whole_LS: Sequence[Floats], placed: dict[int, int], job: int, turns: int
) -> list[float]:
    """Compute the excess at each rotation of a job beside the others."""
    others = [np.roll(whole_LS[one], turn, axis=1) for one, turn in placed.items() if one != job]
    return _beside(sum(others, np.zeros_like(whole_LS[job])), whole_LS[job], turns)


def _beside(rest_LS: Floats, own_LS: Floats, turns: int) -> list[float]:
    """Compute the excess at each rotation of a pattern beside the demand of the others."""
    perimeter = own_LS.shape[1]
    # Turned by t, the slice s holds the demand of slice s - t.
    from_TS = (np.arange(perimeter) - np.arange(turns)[:, None]) % perimeter
    # On links that it does not use nothing depends on it.
    used_L = own_LS.any(axis=1)
    others = np.maximum(0.0, rest_LS[~used_L] - 1.0).sum()
    over_LTS = np.maximum(0.0, rest_LS[used_L, None] + own_LS[used_L][:, from_TS] - 1.0)
    found: list[float] = ((over_LTS.sum(axis=(0, 2)) + others) / perimeter).tolist()
    return found


def _best(excesses: Sequence[float], now: int | None) -> int:
    """Return where the excess is least: ``now`` if there, else the middle of the longest run."""
    least = min(excesses) + _ALIKE
    if now is not None and excesses[now] <= least:
        return now
    first, length = max(_runs([one <= least for one in excesses]), key=lambda run: run[1])
    return (first + (length - 1) // 2) % len(excesses)


def _runs(good: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the runs on a circle of places that are good: the first place, and how many."""
    if all(good):
        yield 0, 1
        return
    for first, one in enumerate(good):
        # The place before the first is the last: a run may go over the end.
        if one and not good[first - 1]:
            length = 1
            while good[(first + length) % len(good)]:
                length += 1
            yield first, length
