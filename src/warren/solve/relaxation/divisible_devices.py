"""Share devices, as if they could be divided, among the jobs present: by order and price.

The jobs present are served in order. Each takes the types one after the other, the cheapest first,
as far as devices are left and until it runs at full speed: a whole round on one type at a time, its
time shared between the types. A second on type t costs the job the time a round takes there, plus
the device time of the round at the job's price for it. Prices grow with the weight of the other
jobs present, all of which wait for the device time taken.

Symbols. A round of job j that has type t to itself takes q = ceil(n / D_t) T^c + T^s, and keeps n
T^c / q devices busy. T^s costs no device time, so the devices of a job that synchronizes serve
others: rounds of tasks, with barriers between them, come close to that.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import inlined
from warren.solve.common.heaps import SortedJobs, new_sorted_jobs, usable
from warren.solve.common.instance import Instance


class SharingRule(NamedTuple):
    """Sharing of devices: the order of jobs, and the prices. All arrays are float64.

    The job of the least ``priority_J`` is served first; ties go to the lower index. A second of a
    device of type t costs job j ``greed_J[j] * worth_T[t]`` per weight of the job and of the others
    present.
    """

    priority_J: FloatArray
    greed_J: FloatArray
    worth_T: FloatArray


class Shares(NamedTuple):
    """Tables of the jobs, and the shares that the last call of ``share`` gave them.

    Times in float s.
    """

    turn_s_JT: FloatArray  # q, infinite where a job cannot run
    use_JT: FloatArray  # devices busy at full speed
    price_s_JT: FloatArray  # price of a round's device time, per weight of others
    weight_J: FloatArray
    devices_T: FloatArray
    rank_J: IntArray
    present: SortedJobs  # in order of rank
    weight: FloatArray  # [0]: of those present
    rate_J: FloatArray  # rounds a second
    part_JT: FloatArray  # of it, on each type
    served_N: IntArray  # jobs with a rate
    count: Any  # [SERVED], [VISITS]; IntArray, but a tuple's method has this name
    free_T: FloatArray  # scratch
    cost_T: FloatArray  # scratch


SERVED, VISITS = range(2)
"""``count``: jobs with a rate, and how many times a job was served in all sharings."""
_NOTHING: Final = 1e-9
"""Number of devices, or part of a job's time, that counts as none: a rounding error is none."""


class Terms(NamedTuple):
    """The part of a round of each job on each type that no rule changes. Times in float s."""

    comp_s_JT: FloatArray  # T^c; of no meaning where a job cannot run
    turn_s_JT: FloatArray  # q, infinite where a job cannot run
    use_JT: FloatArray  # devices busy at full speed
    devices_T: FloatArray


def terms_of(instance: Instance) -> Terms:
    """Compute the terms of an instance, once for all the rules that are tried on it."""
    scale_J = instance.scale_J[:, None]
    devices_T = np.bincount(instance.type_D, minlength=instance.comp_ns_JT.shape[1])
    usable_JT = usable(instance.fits_JT, instance.type_D)
    comp_s_JT = np.where(usable_JT, np.maximum(instance.comp_ns_JT, 1), 1) / 1e9
    # q = ceil(n / D_t) T^c + T^s, which keeps n T^c / q devices busy.
    turn_s_JT = -(-scale_J // np.maximum(devices_T, 1)) * comp_s_JT
    turn_s_JT += np.where(usable_JT, instance.sync_ns_JT, 0) / 1e9
    return Terms(
        comp_s_JT=comp_s_JT,
        turn_s_JT=np.where(usable_JT, turn_s_JT, np.inf),
        use_JT=scale_J * comp_s_JT / turn_s_JT,
        devices_T=devices_T.astype(np.float64),
    )


def new_shares(instance: Instance, rule: SharingRule, terms: Terms) -> Shares:
    """Make the shares of an instance under a rule before any job is present."""
    jobs, types = terms.turn_s_JT.shape
    rank_J = np.empty(jobs, np.int64)
    rank_J[np.argsort(rule.priority_J, kind="stable")] = np.arange(jobs)
    return Shares(
        turn_s_JT=terms.turn_s_JT,
        use_JT=terms.use_JT,
        price_s_JT=prices_s_JT(instance, rule, terms),
        weight_J=np.array(instance.weight_J, dtype=np.float64),
        devices_T=terms.devices_T,
        rank_J=rank_J,
        present=new_sorted_jobs(jobs),
        weight=np.zeros(1),
        rate_J=np.zeros(jobs),
        part_JT=np.zeros((jobs, types)),
        served_N=np.zeros(jobs, np.int64),
        count=np.zeros(2, np.int64),
        free_T=np.zeros(types),
        cost_T=np.zeros(types),
    )


def prices_s_JT(instance: Instance, rule: SharingRule, terms: Terms) -> FloatArray:
    """Return the cost of the device time of a round on each type, in s per weight of others.

    That is greed / weight x worth x n T^c, float (J, T).
    """
    # A weight counts as a millionth of the largest one at least, so that all prices are finite.
    most = max(float(instance.weight_J.max(initial=0)), 1e-6)
    greed_J = rule.greed_J / np.maximum(instance.weight_J, 1e-6 * most)
    return (greed_J * instance.scale_J)[:, None] * rule.worth_T * terms.comp_s_JT


def others_at_half(instance: Instance, finish_s_J: FloatArray) -> FloatArray:
    """Return the weight of the other jobs present half way between a job's arrival and its finish.

    ``finish_s_J``: float s, below 0 for a job that does not run and is never counted.
    """
    arrival_s_J = instance.arrival_ns_J / 1e9
    half_s_J = (arrival_s_J + finish_s_J) / 2
    weight_J = np.where(finish_s_J >= 0, instance.weight_J, 0.0)
    # Arrived weight less departed weight is present, the job itself included.
    came_J = _weight_by(half_s_J, arrival_s_J, weight_J)
    left_J = _weight_by(half_s_J, finish_s_J, weight_J)
    others_J: FloatArray = np.maximum(came_J - left_J - weight_J, 0.0)
    return others_J


def _weight_by(at_s_N: FloatArray, time_s_J: FloatArray, weight_J: FloatArray) -> FloatArray:
    """Return for each point in time the weight of the jobs whose time is not after it."""
    order = np.argsort(time_s_J, kind="stable")
    sum_J = np.concatenate(([0.0], np.cumsum(weight_J[order])))
    weight_N: FloatArray = sum_J[np.searchsorted(time_s_J[order], at_s_N, side="right")]
    return weight_N


@inlined
def price_types(shares: Shares, job: int) -> int:
    """Fill ``cost_T`` with the job's cost of a round on each type; return the cheapest type."""
    # cost = q + price x weight of the others present.
    others = max(0.0, shares.weight[0] - shares.weight_J[job])
    best = 0
    for kind in range(len(shares.cost_T)):
        cost = shares.turn_s_JT[job, kind] + others * shares.price_s_JT[job, kind]
        shares.cost_T[kind] = cost
        if cost < shares.cost_T[best]:
            best = kind
    return best


@inlined
def share(shares: Shares) -> None:
    """Serve the jobs present, in order, until no device is left."""
    # The rates of the sharing before end here.
    for place in range(shares.count[SERVED]):
        shares.rate_J[shares.served_N[place]] = 0.0
    free, served = 0.0, 0
    for kind in range(len(shares.free_T)):
        shares.free_T[kind] = shares.devices_T[kind]
        free += shares.devices_T[kind]
    for place in range(shares.present.count[0]):
        if free < _NOTHING:
            break
        job = shares.present.job_N[place]
        free -= _serve(shares, job)
        shares.count[VISITS] += 1
        if shares.rate_J[job] > 0:
            shares.served_N[served] = job
            served += 1
    shares.count[SERVED] = served


@inlined
def _serve(shares: Shares, job: int) -> float:
    """Give a job its part of each type; return how many devices these are together."""
    kind = price_types(shares, job)
    time_left = 1.0
    taken = 0.0
    rate = 0.0
    for other in range(len(shares.free_T)):
        shares.part_JT[job, other] = 0.0
    for _ in range(len(shares.free_T)):
        if shares.cost_T[kind] == np.inf:
            break
        if shares.free_T[kind] > _NOTHING:
            # The job spends ``part`` of its time on this type, where it keeps ``use`` devices busy
            # and a round takes q: that is part x use devices, and part / q rounds a second.
            use = shares.use_JT[job, kind]
            part = min(time_left, shares.free_T[kind] / use)
            shares.free_T[kind] -= part * use
            taken += part * use
            shares.part_JT[job, kind] = part / shares.turn_s_JT[job, kind]
            rate += part / shares.turn_s_JT[job, kind]
            time_left -= part
            if time_left <= _NOTHING:
                break
        # The type is used up, for this job: on to the next cheapest.
        shares.cost_T[kind] = np.inf
        for other in range(len(shares.free_T)):
            if shares.cost_T[other] < shares.cost_T[kind]:
                kind = other
    shares.rate_J[job] = rate
    return taken
