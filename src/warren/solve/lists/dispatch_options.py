"""Options of the dispatch of stretches: which job comes first, and which devices it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.heaps import usable
from warren.solve.common.instance import Instance
from warren.solve.relaxation.rule_search import lengths_s

PATIENCES: Final = (1.2, 1.35, 1.5, 2.0, 3.0)
"""Ratios of the cost of a type to that of a job's cheapest: values tried at the start."""


class GangTimes(NamedTuple):
    """Times of jobs as gangs, and the longest stretches.

    A job takes ``gang_J`` devices; a round alone, on the fastest of them, takes ``round_ns_J``. A
    stretch has at most ``most_rounds``, and lasts at most ``most_ns`` unless a round is longer.
    """

    gang_J: IntArray
    round_ns_J: IntArray
    most_rounds: int
    most_ns: int


class TypePreferences(NamedTuple):
    """The preferences by which ``warren.solve.lists.shortest_remaining`` dispatches stretches.

    Jobs come in order of their remaining rounds, each counted as ``length_J`` (float64). The device
    time of a round costs ``price_s_JT``, float s, beside the time it takes. A type that costs a
    job more than ``patience`` times its cheapest one is left to others, unless its gang needs it.
    ``keeps``: a job that finds too few idle devices keeps those waiting for it.
    """

    gangs: GangTimes
    length_J: FloatArray
    price_s_JT: FloatArray
    patience: float
    keeps: bool


def first_preferences(
    instance: Instance, gangs: GangTimes, price_s_JT: FloatArray
) -> Iterator[TypePreferences]:
    """Yield the preferences to try first.

    SRTF, with weights if they differ; then, at the prices ``price_s_JT`` (float s), the least work
    left and the least time left, each with more and more patience.
    """
    # A weight of 0 must not divide by 0: a job without weight comes last.
    weight_J, types = np.maximum(instance.weight_J, 1e-300), instance.comp_ns_JT.shape[1]
    yield plain_srtf(gangs, gangs.round_ns_J, types)
    if weight_J.max() > weight_J.min():
        yield plain_srtf(gangs, gangs.round_ns_J / weight_J, types)
    rounds_J = np.maximum(instance.rounds_J, 1)
    for patience in PATIENCES:
        for length_s_J, keeps in zip(lengths_s(instance), (True, False), strict=True):
            yield TypePreferences(
                gangs, length_s_J / rounds_J / weight_J, price_s_JT, patience, keeps
            )


def plain_srtf(gangs: GangTimes, length_J: IntArray | FloatArray, types: int) -> TypePreferences:
    """Return SRTF: the least left to do first, on the fastest devices there are."""
    nothing_JT = np.zeros((len(length_J), types))
    return TypePreferences(gangs, np.asarray(length_J, np.float64), nothing_JT, np.inf, keeps=True)


def costs_ns_JT(instance: Instance, preferences: TypePreferences) -> FloatArray:
    """Return each job's cost of a round on each type, in float ns; infinite where it cannot run.

    That is T^c + T^s + price. It does not run where it does not fit, nor on a type dearer than its
    patience allows that its gang does not need.
    """
    usable_JT = usable(instance.fits_JT, instance.type_D)
    turn_ns_JT = np.where(usable_JT, instance.comp_ns_JT, 0) + instance.sync_ns_JT
    cost_JT = np.where(usable_JT, turn_ns_JT + 1e9 * preferences.price_s_JT, np.inf)
    # For each job the types from the cheapest to the dearest, and how many devices are cheaper.
    order_JT = np.argsort(cost_JT, axis=1, kind="stable")
    count_JT = np.bincount(instance.type_D, minlength=cost_JT.shape[1])[order_JT]
    cheaper_JT = np.cumsum(count_JT, axis=1) - count_JT
    sorted_JT = np.take_along_axis(cost_JT, order_JT, axis=1)
    limit_J = preferences.patience * sorted_JT[:, 0]
    # A type is taken within the patience, or where the cheaper ones have too few for the gang.
    runs_JT = (sorted_JT <= limit_J[:, None]) | (cheaper_JT < preferences.gangs.gang_J[:, None])
    np.put_along_axis(cost_JT, order_JT, np.where(runs_JT, sorted_JT, np.inf), axis=1)
    return cost_JT


def nearby(preferences: TypePreferences, random: np.random.Generator) -> TypePreferences:
    """Move away at random: one job's length or prices, the price of one type, or the patience.

    Factors are log-normal, so they stay positive and halve as often as they double.
    """
    jobs, types = preferences.price_s_JT.shape
    kind = random.random()
    job = int(random.integers(jobs))
    size = random.normal()
    if kind < 0.5 and jobs > 1:
        length_J = preferences.length_J.copy()
        length_J[job] *= np.exp(2 * size)
        return preferences._replace(length_J=length_J)
    if kind < 0.95:
        price_s_JT = preferences.price_s_JT.copy()
        if kind < 0.85:
            price_s_JT[job] *= np.exp(size)
        else:
            price_s_JT[:, int(random.integers(types))] *= np.exp(0.3 * size)
        return preferences._replace(price_s_JT=price_s_JT)
    # The part above 1 moves, so a patience stays above 1.
    return preferences._replace(patience=1 + (preferences.patience - 1) * np.exp(0.3 * size))
