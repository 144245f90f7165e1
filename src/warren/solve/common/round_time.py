"""The least time of one round of a job that has the cluster to itself."""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import BoolArray, IntArray

LATEST_NS: Final = 2**62
"""No schedule ends later: int64 has room for twice that."""


def least_round_ns(
    scale_J: IntArray,
    comp_ns_JT: IntArray,
    sync_ns_JT: IntArray,
    usable_JT: BoolArray,
    devices_T: IntArray,
    most_J: IntArray | None = None,
) -> IntArray:
    """Return each job's least time of a round in ns, with the cluster to itself.

    That is the ``scale``-th smallest of k T^c + T^s over all usable devices and k = 1, 2, ...
    A device that runs k tasks of the round needs that long, and by time x all devices together
    have done at most sum_t D_t floor((x - T^s_t) / T^c_t) tasks; the answer is the least x at
    which this reaches ``scale``, found by bisection in integers. Exact under the network
    ``constant``, a lower bound under ``lane``.

    Parameters
    ----------
    scale_J
        Tasks of a round.
    comp_ns_JT, sync_ns_JT
        T^c and T^s of one task on a device of each type.
    usable_JT
        The types that a job may use, at least one of them.
    devices_T
        Devices of each type.
    most_J
        Tasks of a round that a device may take at most, 1 for a gang; None: any number. If the
        tasks of a job do not all find a place under this limit, the job's result means nothing.
    """
    most_J = scale_J if most_J is None else most_J
    comp_JT = np.where(usable_JT, comp_ns_JT, 1)
    sync_JT = np.where(usable_JT, sync_ns_JT, 0)
    # All tasks on one device of any usable type is an upper limit; so is the range of times.
    each_JT = np.minimum(comp_JT, (LATEST_NS - sync_JT) // scale_J[:, None])
    high_J = np.where(usable_JT, scale_J[:, None] * each_JT + sync_JT, 0).max(axis=1)
    # Invariant: ``high_J`` is time enough for all tasks, and ``low_J`` is not.
    low_J = np.full(len(scale_J), -1, dtype=np.int64)
    while (high_J - low_J > 1).any():
        middle_J = low_J + (high_J - low_J) // 2
        enough_J = _done_by(middle_J, most_J, comp_JT, sync_JT, usable_JT, devices_T) >= scale_J
        high_J = np.where(enough_J, middle_J, high_J)
        low_J = np.where(enough_J, low_J, middle_J)
    result_J: IntArray = high_J
    return result_J


def _done_by(
    time_J: IntArray,
    most_J: IntArray,
    comp_JT: IntArray,
    sync_JT: IntArray,
    usable_JT: BoolArray,
    devices_T: IntArray,
) -> IntArray:
    """Return how many tasks all devices together have done by ``time_J``, capped as said above.

    A device does floor((x - T^s) / T^c) tasks, at most ``most_J``; where T^c is 0, it does
    ``most_J`` as soon as T^s has passed.
    """
    slack_JT = time_J[:, None] - sync_JT
    each_JT = np.minimum(slack_JT // np.maximum(comp_JT, 1), most_J[:, None])
    each_JT = np.where((comp_JT == 0) & (slack_JT >= 0), most_J[:, None], each_JT)
    done_J: IntArray = (np.where(usable_JT & (slack_JT >= 0), each_JT, 0) * devices_T).sum(axis=1)
    return done_J
