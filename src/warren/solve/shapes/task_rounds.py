"""Which machines work and which serve, so that a round of a given number of tasks is the shortest.

*What.* A round has a fixed number of tasks, K, spread over all workers as evenly in time as whole
tasks allow. A worker pulls the model once a round, computes its tasks one after another, and pushes
an update a task while the next one computes; then the barrier passes. A machine's link carries both
directions at once, and nothing of what passes between its own worker and server. Let the model have
M bytes. Machine i holds the share f_i, has a_i devices at work and n_i tasks on all of them, takes
c_i seconds a task, and has the link rate b_i. With W = sum a devices in all::

    pull  = max_i max(f_i (W - a_i), a_i (1 - f_i)) M / b_i
    busy  = max_i max(f_i (K - n_i), n_i (1 - f_i)) M / b_i
    round = pull + max(max_i c_i (n_i / a_i) + pull, min_i c_i + busy)

The last wave of updates is as long as the pulls, since all workers end at about one time. The other
term is that of links which are never free once the first update has come.

*Source.* Ours, for rounds as Warren has them, by the reading ``nic``: (3.4) of Cruise
(``shape_search``) has a mini-batch a worker, or cuts one evenly, and one push of it. With a task a
worker, and machines that either work or serve, both are one: pull, computation, push.

*How good.* Machines of one kind can be exchanged, and for each choice of workers the model is split
in the best way (``link_split``). So the best of all cases is the best there is, by this formula:
over the machines that do not work, or, where a machine may do both (``both``), over all of them.
Where several splits are equally good, machines that are to serve first hold the most, so that few
serve. A share below a byte is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.shapes.kinds import kinds_of
from warren.solve.shapes.link_split import LinkTimes, least_times, split_limits

MOST_CASES: Final = 20_000
_DIGITS: Final = 12
"""Decimal places of a share, beyond which it is rounding alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMachines:
    """TaskMachines one by one: seconds a task on a device, bytes a second of the link, devices.

    ``task_s_N`` is infinite where none has a device; a machine without one can only serve.
    """

    task_s_N: FloatArray
    rate_N: FloatArray
    devices_N: IntArray

    @property
    def able_N(self) -> BoolArray:
        """Return which machines can work."""
        able_N: BoolArray = np.isfinite(self.task_s_N)
        return able_N


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRound:
    """A round: the tasks of each machine, its share of the model, and the time that it takes.

    ``pull_s``: until the last state is there; ``comp_s``: the longest computation of a worker.
    """

    works_N: BoolArray
    share_N: FloatArray
    pull_s: float
    comp_s: float
    round_s: float


def task_round(
    machines: TaskMachines, works_N: BoolArray, share_N: FloatArray, model_bytes: float, tasks: int
) -> TaskRound:
    """Compute how long a round of ``tasks`` tasks takes where these machines may work.

    Raises ValueError if no machine that can work does, or no machine holds the model.
    """
    works_N = works_N & machines.able_N
    if not works_N.any() or not np.isclose(share_N.sum(), 1):
        raise ValueError("a round needs a machine that works, and servers that hold the model")
    comp_s, n_N = _spread(machines, works_N, tasks)
    at_work_N = np.minimum(machines.devices_N, n_N)
    at_work = int(at_work_N.sum())
    unit_s_N = model_bytes / machines.rate_N

    def passes_s(sent_N: IntArray, sent: int) -> float:
        """How long the busiest link takes for ``sent`` states, or updates, of all machines."""
        served_N, own_N = share_N * (sent - sent_N), (1 - share_N) * sent_N
        return float((np.maximum(served_N, own_N) * unit_s_N).max())

    pull_s, busy_s = passes_s(at_work_N, at_work), passes_s(n_N, tasks)
    first_s = float(machines.task_s_N[n_N > 0].min())
    round_s = pull_s + max(comp_s + pull_s, first_s + busy_s)
    return TaskRound(
        works_N=n_N > 0, share_N=share_N, pull_s=pull_s, comp_s=comp_s, round_s=round_s
    )


def best_task_round(
    machines: TaskMachines,
    model_bytes: float,
    tasks: int,
    *,
    both: bool = False,
    prefer: IntArray | None = None,
) -> TaskRound:
    """Find the working and serving machines of the shortest round; of equals the first.

    Parameters
    ----------
    both
        Whether a machine may do both.
    prefer
        All machines, in the order in which those of one kind are to serve; None: as they stand.

    Raises
    ------
    ValueError
        If no machine works beside a server, or there are more than ``MOST_CASES`` cases.
    """
    order = np.arange(len(machines.rate_N)) if prefer is None else prefer
    low_N, high_N = np.empty(len(order)), np.empty(len(order))
    found, round_s = None, np.inf
    unit_s_N = model_bytes / machines.rate_N
    for serves_N, works_N in _cases(machines, order, both):
        comp_s, tasks_N = _spread(machines, works_N, tasks)
        pulls_N = np.minimum(machines.devices_N, tasks_N)
        times = LinkTimes(
            unit_s_N=unit_s_N,
            pulls_N=pulls_N,
            tasks_N=tasks_N,
            serves_N=serves_N,
            all_pulls=int(pulls_N.sum()),
            all_tasks=tasks,
            most_s=tasks * float(unit_s_N.max()),
            comp_s=comp_s,
            first_s=float(machines.task_s_N[tasks_N > 0].min()),
        )
        pull_s, busy_s = least_times(times, round_s, low_N, high_N)
        takes_s = pull_s + max(comp_s + pull_s, times.first_s + busy_s)
        if takes_s < round_s * (1 - 1e-9):
            share_N = _filled(times, pull_s, busy_s, order, least=1 / model_bytes)
            found, round_s = (tasks_N > 0, share_N), takes_s
    if found is None:
        raise ValueError("a worker and a server need two machines, of which one computes")
    return task_round(machines, *found, model_bytes, tasks)


def _cases(
    machines: TaskMachines, order: IntArray, both: bool
) -> Iterator[tuple[BoolArray, BoolArray]]:
    """Yield which machines may serve and which work in each case."""
    kinds, kind_N = kinds_of(machines.task_s_N, machines.rate_N, machines.devices_N)
    if kinds.case_count > MOST_CASES:
        raise ValueError(f"{kinds.case_count} ways to serve; allowed: {MOST_CASES}")
    # Of each kind, its machines in the order in which they are to serve.
    of_K = [order[kind_N[order] == kind] for kind in range(len(kinds.count_K))]
    none_CK = np.zeros((int(both), len(of_K)), dtype=np.int64)
    for servers_K in np.concatenate([none_CK, kinds.servers_CK()]):
        serves_N = np.zeros(len(order), dtype=bool)
        for kind, count in enumerate(servers_K.tolist()):
            serves_N[of_K[kind][:count]] = True
        works_N = machines.able_N & ~serves_N
        if works_N.any():
            yield serves_N | both, works_N


def _filled(
    times: LinkTimes, pull_s: float, busy_s: float, order: IntArray, least: float
) -> FloatArray:
    """Return the share of each machine: its lower limit, and of the rest what it may, in order.

    Shares below ``least`` go to the largest one.
    """
    share_N, high_N = np.empty(len(order)), np.empty(len(order))
    split_limits(times, pull_s, busy_s, share_N, high_N)
    for at in order.tolist():
        share_N[at] += min(max(0.0, 1 - share_N.sum()), high_N[at] - share_N[at])
    share_N = share_N.round(_DIGITS)
    largest = int(share_N.argmax())
    share_N[(share_N < least) & (np.arange(len(order)) != largest)] = 0.0
    share_N[largest] += 1 - share_N.sum()
    return share_N


def _spread(machines: TaskMachines, works_N: BoolArray, tasks: int) -> tuple[float, IntArray]:
    """Return the least time in which workers do ``tasks`` tasks, and how many tasks each does.

    That time is a multiple of a task's: of those the least in which enough are done. If more could
    be done by then, machines have a task fewer: first those whose states come last, by their links,
    and of these the slower ones, then the last ones.
    """
    task_s, devices = machines.task_s_N[works_N], machines.devices_N[works_N]
    ends = np.unique(np.outer(np.unique(task_s), np.arange(1, tasks + 1)))
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if _done(task_s, ends[middle]) @ devices >= tasks:
            high = middle
        else:
            low = middle + 1
    comp_s = float(ends[low])
    done = _done(task_s, comp_s) * devices
    over = int(done.sum()) - tasks
    place, rate = np.arange(len(done)), machines.rate_N[works_N]
    for at in np.lexsort((-place, devices, -task_s, rate)).tolist():
        less = min(over, int(done[at]), int(devices[at]))
        done[at] -= less
        over -= less
    n_N = np.zeros(len(works_N), dtype=np.int64)
    n_N[works_N] = done
    return comp_s, n_N


def _done(task_s: FloatArray, end_s: float) -> IntArray:
    """Return how many tasks a device does until then; multiples count as reached."""
    return np.floor(end_s / task_s * (1 + 1e-12)).astype(np.int64)
