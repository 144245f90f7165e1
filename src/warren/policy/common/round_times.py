"""Shared parts of policies: triggers, times of rounds, gangs and their assignments, the problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.decision import Assignment
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.units import NEVER_NS
from warren.model.view import View


def gang_sizes_J(view: View) -> IntArray:
    """Count the devices of a gang of each job: its scale, or all that fit it if they are fewer."""
    return _gang_sizes_J(view.costs, view.type_D, view.scale_J)


def _gang_sizes_J(costs: CostTable, type_D: IntArray, scale_J: IntArray) -> IntArray:
    """Count the devices of a gang of each job; no view is needed."""
    count_T = np.bincount(type_D, minlength=costs.fits_JT.shape[1])
    return np.minimum(scale_J, costs.fits_JT @ count_T).astype(np.int64)


ROUND_TRIGGERS: Final[frozenset[type[Event]]] = frozenset(
    {JobArrived, RoundsDone, RolledBack, JobFailed, JobCancelled}
)
"""What triggers a policy that looks at jobs between their rounds."""
TASK_TRIGGERS: Final = ROUND_TRIGGERS | {CompDone}
"""What triggers a policy that looks at each device that becomes free, too."""
MAKES_READY: Final = (RoundsDone, JobArrived, RolledBack)
"""Events after which a round of their job may start that could not before."""


def may_start(view: View, job: int) -> bool:
    """Tell whether a round of the job may start of which some task has no device."""
    # The first round with an unassigned task is the round after the last barrier passed, so it may
    # start.
    return view.open_J.item(job) and view.next_round_J.item(job) == view.round_J.item(job)


def made_ready(view: View) -> Iterator[int]:
    """Yield the jobs whose next round may start since the last decision."""
    for event in view.changes:
        if isinstance(event, MAKES_READY) and may_start(view, event.job):
            yield event.job


def gang_size(view: View, job: int) -> int:
    """Count the devices of a gang of one job, as ``gang_sizes_J`` does of all."""
    fitting_D = view.costs.fits_JT[job, view.type_D]
    return min(view.scale_J.item(job), int(np.count_nonzero(fitting_D)))


def cluster_speed(costs: CostTable, job: int, count_T: Sequence[int]) -> float:
    """Return how many tasks of a job ``count_T`` devices of each type complete in a nanosecond.

    The sum of s_nm = 1 / (T^c + T^s) over devices (HLAS, TCC'24, IV-C).
    """
    speed = 0.0
    for kind, count in enumerate(count_T):
        if count and costs.fits_JT.item(job, kind):
            turn_ns = costs.comp_ns_JT.item(job, kind) + costs.sync_ns_JT.item(job, kind)
            speed += count / max(1, turn_ns)
    return speed


def counts_T(view: View) -> tuple[int, ...]:
    """Count the devices of each type."""
    return tuple(np.bincount(view.type_D, minlength=view.costs.fits_JT.shape[1]).tolist())


def round_ns_J(view: View) -> IntArray:
    """Return the time of one round of each job alone, on its fastest devices, in nanoseconds."""
    return rounds_alone_ns_J(view.costs, view.type_D, view.scale_J)


def rounds_alone_ns_J(costs: CostTable, type_D: IntArray, scale_J: IntArray) -> IntArray:
    """Return the time of one round of each job alone on a cluster, in nanoseconds.

    On the job's fastest devices; the slowest of them sets the pace: its share of the tasks one
    after the other, then one synchronization. ``NEVER_NS`` where no device fits the job.

    Parameters
    ----------
    costs
        T^c and T^s of the jobs by device type.
    type_D
        The type of each device of the cluster, an index.
    scale_J
        The tasks a round of each job.
    """
    gang_J = _gang_sizes_J(costs, type_D, scale_J)
    comp_JT, sync_JT = costs.comp_ns_JT, costs.sync_ns_JT
    cost_JT = np.where(costs.fits_JT, comp_JT + sync_JT, NEVER_NS)
    # Types from the fastest on; a type is in the gang if the types before it do not fill it.
    order_JT = np.argsort(cost_JT, axis=1, kind="stable")
    count_JT = np.bincount(type_D, minlength=comp_JT.shape[1])[order_JT]
    before_JT = np.cumsum(count_JT, axis=1) - count_JT
    in_gang_JT = (count_JT > 0) & (before_JT < gang_J[:, None])
    # The largest share of a member: the tasks of a round over the gang, rounded up.
    tasks_J = -(-scale_J // np.maximum(gang_J, 1))
    turn_JT = tasks_J[:, None] * np.take_along_axis(comp_JT, order_JT, axis=1)
    turn_JT += np.take_along_axis(sync_JT, order_JT, axis=1)
    round_J = np.where(in_gang_JT, turn_JT, 0).max(axis=1, initial=0)
    return np.asarray(np.where(gang_J > 0, round_J, NEVER_NS), dtype=np.int64)


def paid_rounds_J(view: View, switches: int) -> IntArray:
    """Count the rounds of each job alone that last as long as ``switches`` switches to it.

    At most all rounds of the job. Only where switching is charged.
    """
    assert view.costs.switch_ns_JT is not None, "nothing is charged"
    switch_ns_J = view.costs.switch_ns_JT.max(axis=1)
    rounds_J = switches * (switch_ns_J / np.maximum(round_ns_J(view), 1))
    return np.asarray(np.ceil(np.minimum(rounds_J, view.rounds_J)), dtype=np.int64)


def fastest(view: View, job: int, devices: IntArray, count: int) -> list[int]:
    """Choose up to ``count`` of ``devices`` that fit the job, the least T^c + T^s first.

    Equal devices go by index.
    """
    devices, cost_D = _priced(view, job, devices)
    if len(devices) > 1:
        devices = devices[cost_D.argsort(kind="stable")]
    chosen: list[int] = devices[:count].tolist()
    return chosen


def no_faster(view: View, job: int, devices: IntArray, count: int) -> list[int]:
    """Choose up to ``count`` of ``devices`` that fit the job and end its round soonest.

    They are listed slowest first.

    The slowest member sets the pace of a round, so a device faster than it is left to other jobs if
    an equally slow device is free. Speed is T^c + T^s; equal devices go by index.
    """
    devices, cost_D = _priced(view, job, devices)
    if count == 1 and len(devices):
        return [int(devices[cost_D.argmin()])]
    # From the fastest pace on until there are enough: the last pace looked at is that of the
    # round, and its devices stand first, so that of those faster as few as possible are taken.
    chosen: list[int] = []
    cost_T = view.costs.comp_ns_JT[job] + view.costs.sync_ns_JT[job]
    for pace in sorted({*cost_T.tolist()}):
        chosen = devices[cost_D == pace][:count].tolist() + chosen
        if len(chosen) >= count:
            break
    return chosen[:count]


def _priced(view: View, job: int, devices: IntArray) -> tuple[IntArray, IntArray]:
    """Return the devices that fit and that the job may have, and T^c + T^s of the job on each."""
    bound = view.task_hosts(job)
    if bound is not None:
        devices = devices[np.isin(view.hosts.host_D[devices], list(bound))]
    kind_D = view.type_D[devices]
    fits_T = view.costs.fits_JT[job]
    if not all(fits_T.tolist()):
        fits_D = fits_T[kind_D]
        devices, kind_D = devices[fits_D], kind_D[fits_D]
    cost_T = view.costs.comp_ns_JT[job] + view.costs.sync_ns_JT[job]
    return devices, cost_T[kind_D]


def gang_round_ns(view: View, job: int, gang: list[int]) -> int:
    """Return the expected time of a round on this gang: its slowest member sets the pace.

    In nanoseconds: max over members of tasks T^c + T^s.
    """
    comp_ns_JT = view.costs.comp_ns_JT
    sync_ns_JT = view.costs.sync_ns_JT
    type_D = view.type_D
    round_ns = 0
    for device, shards in zip(gang, shares(view.scale_J.item(job), len(gang)), strict=True):
        place = job, type_D.item(device)
        turn_ns = len(shards) * comp_ns_JT.item(place) + sync_ns_JT.item(place)
        round_ns = max(round_ns, turn_ns)
    return round_ns


@lru_cache(maxsize=256)
def shares(scale: int, gang: int) -> tuple[tuple[int, ...], ...]:
    """Cut shards 0..scale-1 into ``gang`` runs of nearly equal length, in order."""
    cuts = [i * scale // gang for i in range(gang + 1)]
    return tuple(tuple(range(begin, end)) for begin, end in pairwise(cuts))


def tasks_on(view: View, job: int, shard: int, devices: Sequence[int]) -> list[Assignment]:
    """Assign a job's next tasks of one round, from a shard on, one to each device."""
    first = view.next_round_J.item(job)
    return [Assignment(device, job, first, 1, (shard + i,)) for i, device in enumerate(devices)]


def stretch_on(view: View, job: int, rounds: int, gang: Sequence[int]) -> list[Assignment]:
    """Assign a job's next ``rounds`` rounds to a gang, the tasks of each shared evenly."""
    first, cut = view.next_round_J.item(job), shares(view.scale_J.item(job), len(gang))
    return [
        Assignment(device, job, first, rounds, shards)
        for device, shards in zip(gang, cut, strict=True)
    ]


def next_tasks(
    view: View, job: int, free: IntArray, *, gang: int, round_ns: int, remaining: int
) -> list[Assignment]:
    """Assign the next tasks of a ready job to free devices: single tasks, or a stretch of a gang.

    Empty where a stretch finds fewer free devices than its gang needs.

    Parameters
    ----------
    free
        Indices of the devices that have no task.
    gang
        Number of devices of a stretch (``gang_sizes_J``).
    round_ns
        Time of one round of the job alone (``round_ns_J``).
    remaining
        Rounds without a device; ``ENDLESS`` where the policy may not know them.
    """
    shard, scale = view.next_shard_J.item(job), view.scale_J.item(job)
    # Single rounds: tasks need not start together, so as many go as there are devices. A round
    # that has begun this way is finished this way.
    if shard > 0 or view.grain.rounds_for(round_ns, remaining) == 1:
        return tasks_on(view, job, shard, no_faster(view, job, free, scale - shard))
    # A stretch needs its whole gang, and its length is counted with this gang's own time.
    if view.task_hosts(job) is not None:
        gang = min(gang, len(no_faster(view, job, np.arange(len(view.type_D)), scale)))
    chosen = no_faster(view, job, free, gang)
    if len(chosen) < gang:
        return []
    rounds = view.grain.rounds_for(gang_round_ns(view, job, chosen), remaining)
    return stretch_on(view, job, rounds, chosen)


def columns(view: View) -> dict[str, Any]:
    """Return the planning problem of all jobs as ``solve`` takes it, by names of columns."""
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
