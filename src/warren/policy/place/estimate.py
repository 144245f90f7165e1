"""What policies read off a view alike: a round's time alone, gang sizes, columns for ``solve``."""

from __future__ import annotations

from typing import Any

import numpy as np

from warren.model.costs import IntArray
from warren.model.units import NEVER_NS
from warren.model.view import View


def gang_sizes_J(view: View) -> IntArray:
    """Devices a gang of each job needs: its scale, or all that fit it where they are fewer."""
    count_T = np.bincount(view.type_D, minlength=view.costs.fits_JT.shape[1])
    fitting_J = view.costs.fits_JT @ count_T
    return np.minimum(view.scale_J, fitting_J).astype(np.int64)


def round_ns_J(view: View) -> IntArray:
    """Time of one round of each job alone, a gang on its fastest devices, in nanoseconds.

    The slowest member sets the pace: its share of the tasks one after the other, then one
    synchronisation.
    """
    gang_J = gang_sizes_J(view)
    comp_JT, sync_JT = view.costs.comp_ns_JT, view.costs.sync_ns_JT
    cost_JT = np.where(view.costs.fits_JT, comp_JT + sync_JT, NEVER_NS)
    order_JT = np.argsort(cost_JT, axis=1, kind="stable")
    count_JT = np.bincount(view.type_D, minlength=comp_JT.shape[1])[order_JT]
    before_JT = np.cumsum(count_JT, axis=1) - count_JT
    in_gang_JT = (count_JT > 0) & (before_JT < gang_J[:, None])
    tasks_J = -(-view.scale_J // np.maximum(gang_J, 1))
    turn_JT = tasks_J[:, None] * np.take_along_axis(comp_JT, order_JT, axis=1)
    turn_JT += np.take_along_axis(sync_JT, order_JT, axis=1)
    round_J = np.where(in_gang_JT, turn_JT, 0).max(axis=1, initial=0)
    return np.asarray(np.where(gang_J > 0, round_J, NEVER_NS), dtype=np.int64)


def paid_rounds_J(view: View, switches: int) -> IntArray:
    """Rounds of each job alone that last as long as so many switches to it, at most all of it.

    Only where switching is charged.
    """
    assert view.costs.switch_ns_JT is not None, "nothing is charged"
    switch_ns_J = view.costs.switch_ns_JT.max(axis=1)
    rounds_J = switches * (switch_ns_J / np.maximum(round_ns_J(view), 1))
    return np.asarray(np.ceil(np.minimum(rounds_J, view.rounds_J)), dtype=np.int64)


def fastest(view: View, job: int, devices: IntArray, count: int) -> list[int]:
    """Up to ``count`` of ``devices`` that fit the job, least T^c + T^s first, then by index."""
    fits_T = view.costs.fits_JT[job]
    cost_T = view.costs.comp_ns_JT[job] + view.costs.sync_ns_JT[job]
    if not fits_T.all():
        devices = devices[fits_T[view.type_D[devices]]]
    if (cost_T != cost_T[0]).any():
        devices = devices[np.argsort(cost_T[view.type_D[devices]], kind="stable")]
    chosen: list[int] = devices[:count].tolist()
    return chosen


def no_faster(view: View, job: int, devices: IntArray, count: int) -> list[int]:
    """Up to ``count`` of ``devices`` that fit the job and end its round soonest, slowest first.

    The slowest member sets the pace of a round, so a device faster than it is left to others
    where one that is just as slow will do. Speed is T^c + T^s; equal devices go by index.
    """
    chosen = fastest(view, job, devices, count)
    cost_T = view.costs.comp_ns_JT[job] + view.costs.sync_ns_JT[job]
    cost_D = cost_T[view.type_D[chosen]]
    if not chosen or cost_D[0] == cost_D[-1]:
        return chosen
    usable_T = view.costs.fits_JT[job] & (cost_T <= cost_D[-1])
    devices = devices[usable_T[view.type_D[devices]]]
    slowest = np.argsort(-cost_T[view.type_D[devices]], kind="stable")
    kept: list[int] = devices[slowest[:count]].tolist()
    return kept


def gang_round_ns(view: View, job: int, gang: list[int]) -> int:
    """Expected time of a round on this gang: its slowest member sets the pace."""
    kinds = view.type_D[gang]
    tasks = np.array([len(part) for part in shares(int(view.scale_J[job]), len(gang))])
    turn = tasks * view.costs.comp_ns_JT[job, kinds] + view.costs.sync_ns_JT[job, kinds]
    return int(turn.max())


def shares(scale: int, gang: int) -> list[tuple[int, ...]]:
    """Shards 0..scale-1 cut into ``gang`` runs of nearly equal length, in order."""
    return [tuple(range(i * scale // gang, (i + 1) * scale // gang)) for i in range(gang)]


def columns(view: View) -> dict[str, Any]:
    """The planning problem of all jobs as ``solve`` takes it, by the names of its columns."""
    return {
        "arrival_ns_J": view.arrival_ns_J,
        "weight_J": view.weight_J,
        "scale_J": view.scale_J,
        "rounds_J": view.rounds_J,
        "comp_ns_JT": view.costs.comp_ns_JT,
        "sync_ns_JT": view.costs.sync_ns_JT,
        "fits_JT": view.costs.fits_JT,
        "type_D": view.type_D,
    }
