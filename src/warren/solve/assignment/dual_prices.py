"""Values of devices of each type at which about as many jobs ask for each as there are.

Jobs share devices of several types. Job j on type t is worth v_jt and keeps u_jt devices busy. Of
all ways to give each job at most one type::

    maximize  sum over j, t of v_jt y_jt
    where     sum over t of y_jt <= 1,   sum over j of u_jt y_jt <= D_t,   y >= 0

has the most value. Its dual asks for prices p_t >= 0 of a device::

    minimize  sum over t of D_t p_t  +  sum over j of max(0, max over t of (v_jt - u_jt p_t))

At the best prices a job needs no permission of another: the best choice for itself alone is its
place in the best matching, but for jobs that are indifferent. Of those at most one a type is
divided.

Prices are found type by type: with the others fixed, jobs bid their loss without this type, the
highest bids take its devices, and the first that finds none left sets the price. That is the exact
minimum over one price, so no turn makes the dual worse; as it has edges, turns can end above its
minimum. Prices of the last time are a good start: a turn or two will do.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray

NONE: Final = -1
"""No type."""
_ALIKE: Final = 1e-9
"""Gains this close, as parts of a job's largest value, are equal: differences round."""


def better_prices(
    value_JT: FloatArray, use_JT: FloatArray, devices_T: FloatArray, price_T: FloatArray, turns: int
) -> FloatArray:
    """Improve prices by at most ``turns`` turns over all types; stop where a turn changes none.

    ``value_JT`` (J, T) at least 0, 0 where a job cannot run; ``use_JT`` (J, T) above 0.
    """
    price_T = price_T.copy()
    for _ in range(turns):
        before_T = price_T.copy()
        for kind in range(len(price_T)):
            price_T[kind] = _price(value_JT, use_JT, float(devices_T[kind]), price_T, kind)
        if np.array_equal(price_T, before_T):
            break
    return price_T


def _price(
    value_JT: FloatArray, use_JT: FloatArray, devices: float, price_T: FloatArray, kind: int
) -> float:
    """Return the price of a type, the others fixed: the first bid that finds no device left.

    This minimizes the dual over one price; 0 where all bids find devices.
    """
    gain_JT = value_JT - price_T * use_JT
    gain_JT[:, kind] = 0.0
    # A job's loss without this type, per device: its value here less its gain by the best other
    # type, or by none.
    bid_J = (value_JT[:, kind] - gain_JT.max(axis=1, initial=0.0)) / use_JT[:, kind]
    order_J = np.argsort(-bid_J, kind="stable")
    asked_J = np.cumsum(use_JT[order_J, kind])
    first_without = int(np.searchsorted(asked_J, devices, side="right"))
    return max(0.0, float(bid_J[order_J[first_without]])) if first_without < len(bid_J) else 0.0


def matched(
    value_JT: FloatArray, use_JT: FloatArray, devices_T: FloatArray, price_T: FloatArray
) -> list[int]:
    """Choose the type that each job gains most by at these prices; ``NONE``: it gains by none.

    An indifferent job takes what others leave, in the order of the rows: jobs that are alike in all
    are indifferent together, and would all go to the same type else.
    """
    gain_JT = value_JT - price_T * use_JT
    nothing_J = _ALIKE * value_JT.max(axis=1)
    most_J, kind_J = gain_JT.max(axis=1), gain_JT.argmax(axis=1)
    # Types by which a job gains as much as by its best, within rounding. One equal type, and a gain
    # by it: the job is sure, and takes its devices first.
    alike_JT = (gain_JT >= (most_J - nothing_J)[:, None]) & (value_JT > 0)
    sure_J = (alike_JT.sum(axis=1) == 1) & (most_J > nothing_J)
    taken_J = np.where(sure_J, use_JT[np.arange(len(kind_J)), kind_J], 0.0)
    left_T = (devices_T - np.bincount(kind_J, taken_J, len(devices_T))).tolist()
    # The others take the rest, of their equal types the type with the most value; a job that gains
    # gets a type even if none has room, a job that gains nothing does not.
    found: list[int] = np.where(sure_J, kind_J, NONE).tolist()
    for job in np.flatnonzero(~sure_J & (most_J >= -nothing_J)).tolist():
        kinds = np.flatnonzero(alike_JT[job]).tolist()
        kinds.sort(key=lambda kind: -value_JT[job, kind])
        room = [kind for kind in kinds if use_JT[job, kind] <= left_T[kind]]
        if room or (kinds and most_J[job] > nothing_J[job]):
            found[job] = room[0] if room else max(kinds, key=left_T.__getitem__)
            left_T[found[job]] -= use_JT[job, found[job]]
    return found
