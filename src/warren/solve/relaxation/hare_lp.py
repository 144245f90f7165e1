"""Solve Hare's relaxed problem Hare_Sched_RL, constraints (4)-(7) and (9), on small instances.

(9) is bilinear: y (which GPU) times x (start time). For a fixed y it is linear in x, so the
relaxation is a linear program per y (HiGHS), and y is searched: all of them when there are at
most ``budget``, else coordinate descent over the rounds' device sets from a greedy start, with at
most ``budget`` programs solved. The count and whether the search was exhaustive are reported.

Axes: I tasks (in order of job, round, shard), J jobs, M devices. Times in float seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import comb, inf, prod
from typing import Any, Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray

_LINPROG: Final[Any] = linprog
"""``linprog`` without its stubs, which know no sparse constraint matrix."""
Y = tuple[tuple[int, ...], ...]
"""For each (job, round) the devices of its tasks, in shard order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedTimes:
    """A solution of the relaxation, for each task I. Times in float seconds.

    ``start_s_I`` is x-hat, ``middle_s_I`` is H (Algorithm 1), ``device_I`` is y, ``objective`` is
    sum w C. ``solves`` y were tried, by a linear program each; ``exhaustive``: every one there is.
    """

    start_s_I: FloatArray
    middle_s_I: FloatArray
    device_I: IntArray
    objective: float
    solves: int
    exhaustive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxationInstance:
    """The input of the relaxation: T^c and T^s of one task of each job on each device.

    Times in float seconds. ``fits_JM`` says on which devices a job's tasks may run.
    """

    arrival_s_J: FloatArray
    weight_J: FloatArray
    scale_J: IntArray
    rounds_J: IntArray
    comp_s_JM: FloatArray
    sync_s_JM: FloatArray
    fits_JM: BoolArray

    def groups(self) -> list[tuple[int, int]]:
        """Return all (job, round) pairs, in order."""
        return [(j, r) for j in range(len(self.rounds_J)) for r in range(int(self.rounds_J[j]))]

    def tasks(self) -> list[tuple[int, int, int]]:
        """Return all (job, round, shard) triples, in order: the axis I."""
        return [(j, r, k) for j, r in self.groups() for k in range(int(self.scale_J[j]))]


def solve_relaxed(
    instance: RelaxationInstance, *, every_subset: bool = False, budget: int = 500
) -> RelaxedTimes:
    """Minimize sum w C over (4)-(7), (9).

    Parameters
    ----------
    instance
        Jobs and devices.
    every_subset
        Impose (9) on every subset of a device's tasks (Queyranne 1993), found by separation, where
        the paper prints it for the set of all its tasks only.
    budget
        Most y that are tried, by a linear program each: all if there are no more.

    Returns
    -------
    RelaxedTimes
        The best solution found; the optimum if it is ``exhaustive``.
    """
    exhaustive = count_assignments(instance) <= budget
    search = _Search(instance, every_subset, budget)
    if exhaustive:
        for y in product(*_options(instance)):
            search.improves(y)
    else:
        _descend(search)
    value, start, y = search.best
    # H_i = max over m of x_i + T^c_im / 2: by the slowest device that the task fits.
    longest = np.where(instance.fits_JM, instance.comp_s_JM, -inf).max(axis=1)
    half = np.array([longest[j] / 2 for j, _, _ in instance.tasks()])
    device = np.array([d for devices in y for d in devices], dtype=np.int64)
    return RelaxedTimes(
        start_s_I=start,
        middle_s_I=start + half,
        device_I=device,
        objective=value,
        solves=search.solves,
        exhaustive=exhaustive,
    )


class _Search:
    """A search for y: the best found, and how many programs may still be solved."""

    def __init__(self, instance: RelaxationInstance, every_subset: bool, budget: int) -> None:
        self.instance = instance
        self.every_subset = every_subset
        self.budget = budget
        self.solves = 0
        self.best: tuple[float, FloatArray, Y] = (inf, np.zeros(0), ())

    @property
    def spent(self) -> bool:
        """Tell whether no more programs may be solved."""
        return self.solves >= self.budget

    def improves(self, y: Y) -> bool:
        """Solve the program of one y, and keep it if it is the best found."""
        self.solves += 1
        value, start = _solve_fixed(self.instance, y, self.every_subset)
        # A smaller gain may be the solver's rounding.
        if value >= self.best[0] - 1e-9:
            return False
        self.best = (value, start, y)
        return True


def _options(instance: RelaxationInstance) -> list[list[tuple[int, ...]]]:
    """Return for each (job, round) every multiset of devices that its tasks could take."""
    return [
        list(
            combinations_with_replacement(
                np.flatnonzero(instance.fits_JM[j]).tolist(), int(instance.scale_J[j])
            )
        )
        for j, _ in instance.groups()
    ]


def _descend(search: _Search) -> None:
    """Descend by coordinates, the groups of tasks, from the tasks spread by greedy load.

    Ends in a local optimum, or when the budget is spent.
    """
    search.improves(tuple(_greedy(search.instance)))
    options, changed = _options(search.instance), True
    while changed and not search.spent:
        changed = False
        for group, choices in enumerate(options):
            for choice in choices:
                current = search.best[2]
                if choice == current[group] or search.spent:
                    continue
                changed |= search.improves((*current[:group], choice, *current[group + 1 :]))


def _greedy(instance: RelaxationInstance) -> list[tuple[int, ...]]:
    """Return y where each task takes the device on which the load and its T^c end first."""
    load = np.zeros(instance.comp_s_JM.shape[1])
    result = []
    for j, _ in instance.groups():
        chosen = []
        for _ in range(int(instance.scale_J[j])):
            finish = np.where(instance.fits_JM[j], load + instance.comp_s_JM[j], inf)
            chosen.append(int(np.argmin(finish)))
            load[chosen[-1]] = finish[chosen[-1]]
        # Sorted as ``_options`` has it, so that a choice can be compared with the present one.
        result.append(tuple(sorted(chosen)))
    return result


class _Rows:
    """Constraints ``sum coefficient * variable >= bound``, in the form that linprog takes."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.bound: list[float] = []

    def add(self, terms: dict[int, float], at_least: float) -> None:
        """Add one constraint: coefficients by variable, and its bound."""
        # linprog takes upper bounds only, so both sides change sign.
        for column, value in terms.items():
            self.row.append(len(self.bound))
            self.column.append(column)
            self.value.append(-value)
        self.bound.append(-at_least)


def _solve_fixed(
    instance: RelaxationInstance, y: Y, every_subset: bool
) -> tuple[float, FloatArray]:
    """Solve the linear program of one y; return its objective and x.

    Its variables are x_I, then the barrier B of every group.
    """
    tasks, groups = instance.tasks(), instance.groups()
    number = {group: len(tasks) + g for g, group in enumerate(groups)}
    device = [d for devices in y for d in devices]
    comp = np.array([instance.comp_s_JM[j, d] for (j, _, _), d in zip(tasks, device, strict=True)])
    rows = _Rows()
    for i, (j, r, _) in enumerate(tasks):
        span = comp[i] + instance.sync_s_JM[j, device[i]]
        # (6) and (7) through the barriers: B_jr >= x_i + T^c + T^s, and x_i >= B_j,r-1.
        rows.add({number[j, r]: 1.0, i: -1.0}, span)
        if r > 0:
            rows.add({i: 1.0, number[j, r - 1]: -1.0}, 0.0)
    members = {m: [i for i, d in enumerate(device) if d == m] for m in sorted(set(device))}
    for group in members.values():
        _capacity(rows, comp, group)
    # C_j is the barrier of the last round.
    cost = np.zeros(len(tasks) + len(groups))
    for j, rounds in enumerate(instance.rounds_J.tolist()):
        cost[number[j, rounds - 1]] = instance.weight_J[j]
    # (4): no task starts before its job arrives.
    lower = [(float(instance.arrival_s_J[j]), None) for j, _, _ in tasks]
    bounds = lower + [(0.0, None)] * len(groups)
    while True:
        matrix = coo_array(
            (rows.value, (rows.row, rows.column)), shape=(len(rows.bound), len(cost))
        )
        result = _LINPROG(cost, A_ub=matrix, b_ub=rows.bound, bounds=bounds)
        if result.status != 0:
            raise ArithmeticError(f"relaxation for a fixed assignment: {result.message}")
        # With every subset, the program is solved again with the constraints that x violates, until
        # there are none.
        x = np.asarray(result.x[: len(tasks)])
        if not (every_subset and _separate(rows, comp, members, x)):
            return float(result.fun), x


def _capacity(rows: _Rows, comp: FloatArray, members: list[int]) -> None:
    """Add (9) for tasks of one device: sum T (x + T) >= 1/2 [(sum T)^2 + sum T^2]."""
    # Only x is variable, so sum T^2 of the left side goes to the right one.
    times = comp[members]
    right = 0.5 * (times.sum() ** 2 + (times**2).sum()) - (times**2).sum()
    rows.add({i: float(comp[i]) for i in members}, float(right))


def _separate(rows: _Rows, comp: FloatArray, members: dict[int, list[int]], x: FloatArray) -> bool:
    """Add (9) for the most violated prefix of each device's tasks; tell whether there was one.

    Prefixes in order of completion are enough: if any subset is violated, one of them is the most
    violated (Queyranne 1993).
    """
    found = False
    for group in members.values():
        order = sorted(group, key=lambda i: (x[i] + comp[i], i))
        times, ends = comp[order], x[order] + comp[order]
        left = np.cumsum(times * ends)
        right = 0.5 * (np.cumsum(times) ** 2 + np.cumsum(times**2))
        worst = int(np.argmax(right - left))
        # A violation within the solver's tolerance does not count.
        if right[worst] - left[worst] > 1e-7 * max(1.0, right[worst]):
            _capacity(rows, comp, order[: worst + 1])
            found = True
    return found


def count_assignments(instance: RelaxationInstance) -> int:
    """Count the y that there are, tasks of one round being interchangeable."""
    # n tasks on M devices: multisets, (M + n - 1) choose n of them, for each round.
    fitting = instance.fits_JM.sum(axis=1)
    return prod(
        comb(int(fitting[j]) + int(instance.scale_J[j]) - 1, int(instance.scale_J[j]))
        for j, _ in instance.groups()
    )
