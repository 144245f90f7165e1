"""The one call for job groups: construct, search, disturb, search again.

``problem`` states the question (Harmony, (4.1)-(4.4)), ``construction`` gives one grouping to begin
with; the others are Algorithm 2's, of all jobs, for numbers of groups near its own.
``local_search`` describes the exchanges. The budget ends the search among many jobs, the number of
disturbances that among few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from warren.solve.common.arrays import IntArray
from warren.solve.job_groups.construction import busiest_first
from warren.solve.job_groups.group_state import (
    NOBODY,
    GroupColumns,
    gather,
    gathered_value,
    load,
    new_columns,
)
from warren.solve.job_groups.local_search import descend, new_exchange, total_value
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
)
from warren.solve.job_groups.published import balanced_groups, grouping_in, grouping_of_first

WORK: Final = 15_000_000
"""Jobs looked at in all: some tenths of a second."""
KICKS: Final = 200
"""Disturbances of the best grouping."""
_ROUNDS: Final = 3
"""Times that the initial number of groups is computed, where COMM depends on it."""
_STARTS: Final = 8
"""Most numbers of groups to begin with."""


def grouped(
    problem: JobGroupingProblem, work: int = WORK, kicks: int = KICKS, seed: int = 0
) -> JobGrouping:
    """Find the best job grouping within the given work.

    Parameters
    ----------
    work
        How many times a job is looked at; steps that have begun are ended, so a little more.
    kicks
        How many times the best grouping is disturbed and improved again, as long as work is left.
    seed
        Seed of the draws.
    """
    search = _Search(problem, seed)
    alike = problem.alike
    columns = search.columns if alike is problem else new_columns(alike)
    for number, (group_J, machine_G) in enumerate(_starts(alike, columns)):
        if problem.kinds is not None:
            machine_G = problem.kinds.dealt(machine_G)
        search.consider(group_J, machine_G, work // 2 if number == 0 else work, few=number > 0)
        if search.columns.work[0] >= work:
            break
    for kick in range(kicks):
        if search.columns.work[0] >= work:
            break
        search.consider(*_disturbed(search), work, few=kick % 2 > 0)
    return grouping_of(problem, _that_run(problem, search), _trimmed(problem, search))


def _starts(
    problem: JobGroupingProblem, columns: GroupColumns
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the groupings to begin with."""
    most = min(len(problem.net_s_J), problem.machines)
    constant, balanced = problem, 1
    # COMM depends on the number of machines of a group, and the other way round.
    for _ in range(1 if problem.rounds is None else _ROUNDS):
        net_s_J = problem.comm_s_J(max(2, problem.machines // balanced))
        constant = replace(problem, net_s_J=net_s_J, rounds=None)
        balanced = balanced_groups(problem.comp_machine_s_J, net_s_J, problem.machines)
    if not problem.all_run:
        yield busiest_first(problem, columns, problem.machines / balanced)
        yield from _of_dearest(constant)
    near = range(max(1, balanced - _STARTS), min(most, balanced + _STARTS) + 1)
    for groups in sorted(near, key=lambda groups: abs(groups - balanced))[:_STARTS]:
        found = grouping_in(constant, len(net_s_J), groups, "difference")
        yield found.group_J, found.machine_G


def _of_dearest(problem: JobGroupingProblem) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield Algorithm 2's groups of the jobs that are worth most for their time, of 1, 2, 4, ..."""
    jobs = len(problem.net_s_J)
    if problem.worth_J is None:
        return
    order_J = np.argsort(-problem.worths_J / problem.alone_s_J(problem.machines), kind="stable")
    count = 1
    while count < jobs:
        some = np.sort(order_J[:count])
        part = JobGroupingProblem(
            comp_machine_s_J=problem.comp_machine_s_J[some],
            net_s_J=problem.net_s_J[some],
            machines=problem.machines,
        )
        found = grouping_of_first(part, count, "difference")
        group_J = np.full(jobs, NOT_RUN, np.int64)
        group_J[some] = found.group_J
        yield group_J, found.machine_G
        count *= 2


def _that_run(problem: JobGroupingProblem, search: _Search) -> IntArray:
    """Return the best grouping without groups that have too few machines: where work ends early."""
    group_J = search.group_J.copy()
    if problem.all_run:
        return group_J
    machine_G = search.machine_G
    runs_J = group_J != NOT_RUN
    least_G = np.zeros_like(machine_G)
    np.maximum.at(least_G, group_J[runs_J], problem.leasts_J[runs_J])
    enough_G = (least_G <= problem.sizes(machine_G)) & problem.holds_G(group_J, machine_G)
    group_J[runs_J] = np.where(enough_G[group_J[runs_J]], group_J[runs_J], NOT_RUN)
    return group_J


def _trimmed(problem: JobGroupingProblem, search: _Search) -> IntArray:
    """Return the machines of the best grouping, less those that make a group's round longer.

    COMM grows with machines where each works and serves, so fewer may be better.
    """
    machine_G = search.machine_G.copy()
    if problem.rounds is None:
        return machine_G
    load(search.columns, search.group_J, machine_G)
    for slot in np.flatnonzero(machine_G).tolist():
        gather(search.columns, 0, slot, NOBODY, NOBODY)
        counts: Sequence[int] = range(1, machine_G[slot] + 1)
        if problem.kinds is not None:
            counts = problem.some_of(int(machine_G[slot]))
        values = [gathered_value(search.columns, 0, count) for count in counts]
        machine_G[slot] = counts[int(np.argmax(values))]
    return machine_G


class _Search:
    """The best grouping found, by slots, and its value in machines.

    ``elsewhere``: where else than in a group a job may be.
    """

    def __init__(self, problem: JobGroupingProblem, seed: int) -> None:
        self.columns = new_columns(problem)
        self.random = np.random.default_rng([seed, 0x4A47])
        self.group_J = np.full(len(problem.net_s_J), NOT_RUN, np.int64)
        self.machine_G = np.zeros(len(self.columns.machine_G), np.int64)
        self.value = -np.inf
        self.elsewhere = [] if problem.all_run else [NOT_RUN]
        self._exchange = new_exchange()
        self._all_run = problem.all_run

    def consider(
        self, group_J: IntArray, machine_G: IntArray, work: int, *, few: bool = False
    ) -> None:
        """Improve a grouping, and keep it if it is better than the best.

        ``few``: first by exchanges in which no group begins. Else a large group that could become
        very good is torn apart for the first small gain.
        """
        load(self.columns, group_J, machine_G)
        for begins in (False, True) if few else (True,):
            key = np.uint64(self.random.integers(2**63))
            descend(self.columns, self._exchange, key, work, self._all_run, begins)
            value = total_value(self.columns)
            if value > self.value:
                self.value = value
                self.group_J = self.columns.group_J.copy()
                self.machine_G = self.columns.machine_G.copy()


def _disturbed(search: _Search) -> tuple[IntArray, IntArray]:
    """Return the best grouping, changed: some jobs moved, two groups joined, or two mixed."""
    group_J, machine_G, random = search.group_J.copy(), search.machine_G.copy(), search.random
    there = np.flatnonzero(machine_G)
    one, other = there[random.integers(len(there), size=2)]
    kind = random.integers(3)
    if kind == 0:
        places = [*search.elsewhere, *there.tolist()]
        for job in random.integers(len(group_J), size=random.integers(1, 4)).tolist():
            # As ``Generator.choice`` draws, which takes ten times as long.
            _move(group_J, machine_G, job, places[random.integers(len(places))])
    elif kind == 1 and one != other:
        group_J[group_J == other] = one
        machine_G[one] += machine_G[other]
        machine_G[other] = 0
    else:
        # The jobs of one or two groups and as many of no group, each to one of them or to none.
        jobs = np.flatnonzero((group_J == one) | (group_J == other))
        idle = np.flatnonzero(group_J == NOT_RUN)
        jobs = np.concatenate([jobs, random.permutation(idle)[: len(jobs)]])
        places = [*search.elsewhere, int(one), int(other)]
        for job in random.permutation(jobs).tolist():
            _move(group_J, machine_G, job, places[random.integers(len(places))])
    return group_J, machine_G


def _move(group_J: IntArray, machine_G: IntArray, job: int, to: int) -> None:
    """Move a job to a group, or out of all; the last job of the last group stays.

    A group that it leaves empty gives its machines to the group that it goes to, or to any.
    """
    left = group_J[job]
    if to != NOT_RUN and not machine_G[to]:
        return
    group_J[job] = to
    if left == NOT_RUN or (group_J == left).any():
        return
    heir = to if to != NOT_RUN else int(group_J.max())
    if heir == NOT_RUN:
        group_J[job] = left
        return
    machine_G[heir] += machine_G[left]
    machine_G[left] = 0
