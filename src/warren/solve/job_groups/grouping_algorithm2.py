"""Algorithm 2 of Harmony: jobs into a given number of groups, alike in length, opposite in use.

All groups have the same DoP. Jobs are sorted by their iteration T_cpu + T_net, the longest first.
*Lines 4 to 11:* a group after the other is filled with floor(|J| / n_G) jobs: the first that uses
the resource which the group lacks (T_diff S_diff <= 0), else the first. *Lines 12 to 22:* the
remaining jobs go, the most one-sided first, to the group that they balance best, |T_diff + S_diff|,
but not where it would be longer than all others and than their sums. *Text:* then jobs are swapped
between the most one-sided group and the group most opposite to it, the pair that leaves both most
balanced, until no pair is better.

*Source.* Harmony (dissertation 2020), 4.3.2, Algorithm 2 and the text around it.

*Symbols.* T_diff_j = T_cpu_j - T_net_j: ``diff_J``; S_diff_g, its sum over a group: ``sum_G``;
T_j_itr: ``alone_J``. P is the axis of places: jobs group by group.

*Mended:*

- Line 6 has ``|g| <= floor``, one job too many: four jobs in two groups became three and one, and
  then line 9 would take from an empty list. ``<`` follows the text.
- Line 9 ``pop()`` would take the shortest job; the text says the largest: the front.
- Lines 15 to 19 have an argmin over no group once each would be job-bound: the job then goes to the
  group that was first.
- Line 18's argmin again and again is one pass over the groups in the order of |T_diff + S_diff|.
- Swaps end when the one pair of groups has none that gains; "until there are no possible swap
  cases" may also mean going on to the next pair.
- The imbalance of both groups of a swap is the larger |S_diff| of both (their sum is the same for
  all swaps after which both have one sign). It must fall by more than rounding, else equal jobs
  would be swapped for ever. The text does not say so.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.job_groups.problem import NOT_RUN, sums

_LEAST_GAIN: Final = 1e-12
"""Least gain of a swap, as a part of the sum of all |T_diff|: sums round."""


def assign_jobs(comp_s_J: FloatArray, net_s_J: FloatArray, groups: int) -> IntArray:
    """Assign each job to one of ``groups`` groups, at most as many as jobs; shape (J,).

    ``comp_s_J``, ``net_s_J``: T_cpu at the common DoP and T_net, both in s.
    """
    alone_J, diff_J = comp_s_J + net_s_J, comp_s_J - net_s_J
    group_J = np.full(len(net_s_J), NOT_RUN, np.int64)
    _fill(np.argsort(-alone_J, kind="stable"), diff_J, group_J, groups)
    # Line 12; in the order of lengths where they are equally one-sided.
    left = np.flatnonzero(group_J == NOT_RUN)
    left = left[np.lexsort((-alone_J[left], -np.abs(diff_J[left])))]
    _place_left(left, comp_s_J, net_s_J, group_J, groups)
    job_P = np.argsort(group_J, kind="stable")
    first_G = np.searchsorted(group_J[job_P], np.arange(groups + 1))
    sum_G = sums(diff_J, group_J, groups)
    gain = _LEAST_GAIN * float(np.abs(diff_J).sum())
    _swap(job_P, first_G, diff_J, sum_G, gain)
    group_J[job_P] = np.repeat(np.arange(groups), np.diff(first_G))
    return group_J


@kernel
def _fill(order_J: IntArray, diff_J: FloatArray, group_J: IntArray, groups: Int) -> None:
    """Lines 4 to 11: fill each group with as many jobs as all can have."""
    size = len(order_J) // groups
    # Start of the search for the first job that computes more, or sends more.
    surplus_place = 0
    deficit_place = 0
    for group in range(groups):
        total = 0.0
        for _ in range(size):
            surplus_place = _next(order_J, diff_J, group_J, surplus_place, 1.0)
            deficit_place = _next(order_J, diff_J, group_J, deficit_place, -1.0)
            front = min(surplus_place, deficit_place)
            place = front
            if total > 0:
                place = deficit_place
            elif total < 0:
                place = surplus_place
            if place == len(order_J):
                place = front
            job = order_J[place]
            group_J[job] = group
            total += diff_J[job]


@kernel
def _next(order_J: IntArray, diff_J: FloatArray, group_J: IntArray, place: Int, sign: float) -> Int:
    """Return the place of the next job without a group whose T_diff has this sign, or is 0."""
    while place < len(order_J):
        job = order_J[place]
        if group_J[job] < 0 and sign * diff_J[job] >= 0:
            break
        place += 1
    return place


def _place_left(
    left: IntArray, comp_s_J: FloatArray, net_s_J: FloatArray, group_J: IntArray, groups: int
) -> None:
    """Lines 13 to 22: give each job that is left its group; written into ``group_J``."""
    filled = group_J != NOT_RUN
    comp_G = sums(comp_s_J[filled], group_J[filled], groups)
    net_G = sums(net_s_J[filled], group_J[filled], groups)
    longest_G = np.zeros(groups)
    np.maximum.at(longest_G, group_J[filled], (comp_s_J + net_s_J)[filled])
    for job in left.tolist():
        comp, net = float(comp_s_J[job]), float(net_s_J[job])
        off_G = np.abs(comp - net + comp_G - net_G)
        # Line 16: with it the group would be as long as it is alone (4.1).
        bound_G = (comp + net > longest_G) & (comp + net >= np.maximum(comp_G + comp, net_G + net))
        chosen = int(
            np.where(bound_G, np.inf, off_G).argmin() if not bound_G.all() else off_G.argmin()
        )
        group_J[job] = chosen
        comp_G[chosen] += comp
        net_G[chosen] += net
        longest_G[chosen] = max(longest_G[chosen], comp + net)


@kernel
def _swap(
    job_P: IntArray, first_G: IntArray, diff_J: FloatArray, sum_G: FloatArray, gain: float
) -> None:
    """Swap jobs between the most one-sided group and the most opposite one, while that gains."""
    while True:
        one = 0
        for group in range(len(sum_G)):
            if abs(sum_G[group]) > abs(sum_G[one]):
                one = group
        other = -1
        for group in range(len(sum_G)):
            further = other < 0 or abs(sum_G[one] - sum_G[group]) > abs(sum_G[one] - sum_G[other])
            if group != one and further:
                other = group
        if other < 0 or not _swap_best(job_P, first_G, diff_J, sum_G, one, other, gain):
            break


@kernel
def _swap_best(
    job_P: IntArray,
    first_G: IntArray,
    diff_J: FloatArray,
    sum_G: FloatArray,
    one: Int,
    other: Int,
    gain: float,
) -> bool:
    """Swap the two jobs of two groups that leave both most balanced; False if none gains."""
    least = max(abs(sum_G[one]), abs(sum_G[other])) - gain
    best_place = -1
    best_there = -1
    for place in range(first_G[one], first_G[one + 1]):
        for there in range(first_G[other], first_G[other + 1]):
            change = diff_J[job_P[there]] - diff_J[job_P[place]]
            off = max(abs(sum_G[one] + change), abs(sum_G[other] - change))
            if off < least:
                least = off
                best_place = place
                best_there = there
    if best_place < 0:
        return False
    change = diff_J[job_P[best_there]] - diff_J[job_P[best_place]]
    sum_G[one] += change
    sum_G[other] -= change
    job_P[best_place], job_P[best_there] = job_P[best_there], job_P[best_place]
    return True
