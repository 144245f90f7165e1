"""Groups of jobs as the local search has them, and the worth of a change of one or two groups.

A group is a slot; slots without jobs have no machines. One more list has the jobs that do not run.
Kernels change their arguments and allocate nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel
from warren.solve.job_groups.machine_kinds import (
    KindColumns,
    add_round,
    begin_group,
    longest_comp,
    machines_of,
    no_kinds,
)
from warren.solve.job_groups.problem import NOT_RUN, WHOLE, JobGroupingProblem

NOBODY: Final = -1
"""Stands for no job in the place of a job that leaves or comes."""
ALL_SPLITS: Final = 16
"""Most machines of two groups at which every split is tried; of more, some (``best_split``)."""
ALL_SPLITS_OF_KINDS: Final = 64
"""Most splits of the machines of two groups, of several kinds, of which every one is tried."""
_SUMS: Final = 7


class GroupColumns(NamedTuple):
    """The jobs J, slots G of groups, and scratch.

    ``comp_J`` to ``worth_J``: w, n, p, q, c, d and v of ``problem``; ``least_J``: the machines that
    each needs; ``memory_J``: those that its data fill; ``weights``: a, e and u. ``next_J``,
    ``before_J``, ``head_G``: the jobs of each slot as lists; the last head is that of the jobs that
    do not run. ``job_2J``, ``count_2``, ``sum_2S``: the two groups of a change as they would be,
    and their sums of w, n, p, q, v, memory and d. ``work``: number of jobs looked at. ``kinds``: of
    machines, where there are several; machines are codes then.
    """

    comp_J: FloatArray
    net_J: FloatArray
    pull_J: FloatArray
    push_J: FloatArray
    task_J: FloatArray
    step_J: FloatArray
    worth_J: FloatArray
    least_J: IntArray
    memory_J: FloatArray
    weights: FloatArray
    group_J: IntArray
    next_J: IntArray
    before_J: IntArray
    head_G: IntArray
    count_G: IntArray
    machine_G: IntArray
    value_G: FloatArray
    job_2J: IntArray
    count_2: IntArray
    sum_2S: FloatArray
    work: IntArray
    kinds: KindColumns


def new_columns(problem: JobGroupingProblem) -> GroupColumns:
    """Make room for every grouping of a problem; ``load`` puts one there."""
    jobs = len(problem.net_s_J)
    # One more than there can be groups, so that one is always empty.
    slots = min(jobs, problem.machines) + 1
    terms = problem.terms
    return GroupColumns(
        _floats(problem.comp_machine_s_J),
        _floats(problem.net_s_J),
        _floats(terms.pull_s_J),
        _floats(terms.push_s_J),
        _floats(terms.task_s_J),
        _floats(terms.step_s_J),
        _floats(problem.worths_J),
        np.ascontiguousarray(problem.leasts_J, np.int64),
        _floats(problem.memories_J),
        np.array([problem.cpu_weight, problem.job_weight, problem.busy_weight]),
        np.zeros(jobs, np.int64),
        np.zeros(jobs, np.int64),
        np.zeros(jobs, np.int64),
        np.zeros(slots + 1, np.int64),
        np.zeros(slots + 1, np.int64),
        np.zeros(slots, np.int64),
        np.zeros(slots),
        np.zeros((2, jobs), np.int64),
        np.zeros(2, np.int64),
        np.zeros((2, _SUMS)),
        np.zeros(1, np.int64),
        no_kinds() if problem.kinds is None else problem.kinds.columns(),
    )


def _floats(column: FloatArray) -> FloatArray:
    return np.ascontiguousarray(column, np.float64)


@kernel
def load(columns: GroupColumns, group_J: IntArray, machine_G: IntArray) -> None:
    """Take a grouping over: the slot of each job or ``NOT_RUN``, and machines of each slot."""
    idle = len(columns.machine_G)
    for slot in range(idle + 1):
        columns.head_G[slot] = -1
        columns.count_G[slot] = 0
    # From the last to the first: lists are in the order of jobs.
    for job in range(len(group_J) - 1, -1, -1):
        link(columns, job, group_J[job] if group_J[job] != NOT_RUN else idle)
    for slot in range(idle):
        columns.machine_G[slot] = machine_G[slot] if slot < len(machine_G) else 0
        gather(columns, 0, slot, NOBODY, NOBODY)
        columns.value_G[slot] = gathered_value(columns, 0, columns.machine_G[slot])


@kernel
def link(columns: GroupColumns, job: Int, slot: Int) -> None:
    """Put a job that is in no list into a slot's list."""
    follower = columns.head_G[slot]
    columns.head_G[slot] = job
    columns.next_J[job] = follower
    columns.before_J[job] = -1
    if follower >= 0:
        columns.before_J[follower] = job
    columns.count_G[slot] += 1
    columns.group_J[job] = slot if slot < len(columns.machine_G) else NOT_RUN


@kernel
def unlink(columns: GroupColumns, job: Int) -> None:
    """Remove a job from its list."""
    slot = columns.group_J[job]
    if slot == NOT_RUN:
        slot = len(columns.machine_G)
    before, follower = columns.before_J[job], columns.next_J[job]
    if before >= 0:
        columns.next_J[before] = follower
    else:
        columns.head_G[slot] = follower
    if follower >= 0:
        columns.before_J[follower] = before
    columns.count_G[slot] -= 1


@kernel
def gather(columns: GroupColumns, side: Int, slot: Int, leaves: Int, comes: Int) -> None:
    """Write a group as it would be without one job and with another into scratch."""
    clear(columns, side)
    job = columns.head_G[slot]
    while job >= 0:
        if job != leaves:
            add(columns, side, job)
        job = columns.next_J[job]
    if comes >= 0:
        add(columns, side, comes)
    columns.work[0] += columns.count_2[side]


@kernel
def clear(columns: GroupColumns, side: Int) -> None:
    """Empty a group in scratch."""
    columns.count_2[side] = 0
    for kind in range(_SUMS):
        columns.sum_2S[side, kind] = 0.0


@kernel
def add(columns: GroupColumns, side: Int, job: Int) -> None:
    """Add a job to a group in scratch."""
    columns.job_2J[side, columns.count_2[side]] = job
    columns.count_2[side] += 1
    columns.sum_2S[side, 0] += columns.comp_J[job]
    columns.sum_2S[side, 1] += columns.net_J[job]
    columns.sum_2S[side, 2] += columns.pull_J[job]
    columns.sum_2S[side, 3] += columns.push_J[job]
    columns.sum_2S[side, 4] += columns.worth_J[job]
    columns.sum_2S[side, 5] += columns.memory_J[job]
    columns.sum_2S[side, 6] += columns.step_J[job]


@kernel
def take_back(columns: GroupColumns, side: Int) -> None:
    """Remove the job that came last from a group in scratch."""
    last = columns.count_2[side] - 1
    job = columns.job_2J[side, last]
    columns.count_2[side] = last
    columns.sum_2S[side, 0] -= columns.comp_J[job]
    columns.sum_2S[side, 1] -= columns.net_J[job]
    columns.sum_2S[side, 2] -= columns.pull_J[job]
    columns.sum_2S[side, 3] -= columns.push_J[job]
    columns.sum_2S[side, 4] -= columns.worth_J[job]
    columns.sum_2S[side, 5] -= columns.memory_J[job]
    columns.sum_2S[side, 6] -= columns.step_J[job]


@kernel
def gathered_value(columns: GroupColumns, side: Int, machines: Int) -> float:
    """Compute the worth of the group in scratch on ``machines`` machines; 0 without jobs."""
    count = columns.count_2[side]
    if count == 0 or machines == 0:
        return 0.0
    if len(columns.kinds.stride_K) > 0:
        return float(_value_on_kinds(columns, side, machines))
    part = 1.0 / machines
    comp = columns.sum_2S[side, 0]
    # N(m) = sum n + (1 - 1/m) (sum p + sum q / m), and sum d where m > 1
    sent = columns.sum_2S[side, 2] + columns.sum_2S[side, 3] * part
    net = columns.sum_2S[side, 1] + (1.0 - part) * sent
    if machines > 1:
        net += columns.sum_2S[side, 6]
    time = max(comp * part, net)
    columns.work[0] += count
    sharing = columns.weights[1] * machines * count
    if columns.sum_2S[side, 5] > machines * (1.0 + WHOLE):
        return float(-sharing)
    for place in range(count):
        job = columns.job_2J[side, place]
        if machines < columns.least_J[job]:
            return float(-sharing)
        time = max(time, _alone_s(columns, job, part))
    weight = columns.weights[0]
    busy = weight * comp + (1.0 - weight) * machines * net
    worth = columns.weights[2] * busy + columns.sum_2S[side, 4]
    return float(worth / time - sharing)


@kernel
def _value_on_kinds(columns: GroupColumns, side: Int, code: Int) -> float:
    """Compute the worth of the group in scratch on machines of several kinds."""
    count, kinds = columns.count_2[side], columns.kinds
    machines = machines_of(kinds, code)
    columns.work[0] += count
    sharing = columns.weights[1] * machines * count
    if columns.sum_2S[side, 5] > machines * (1.0 + WHOLE):
        return float(-sharing)
    begin_group(kinds)
    net, time = columns.sum_2S[side, 1], 0.0
    if machines > 1:
        net += columns.sum_2S[side, 6]
    for place in range(count):
        job = columns.job_2J[side, place]
        if machines < columns.least_J[job]:
            return float(-sharing)
        pull, push, alone = add_round(kinds, job, machines)
        net += pull + push
        alone += columns.net_J[job]
        if machines > 1:
            alone += columns.step_J[job]
        time = max(time, alone)
    comp = longest_comp(kinds)
    time = max(time, comp, net)
    weight = columns.weights[0]
    busy = machines * (weight * comp + (1.0 - weight) * net)
    worth = columns.weights[2] * busy + columns.sum_2S[side, 4]
    return float(worth / time - sharing)


@kernel
def _alone_s(columns: GroupColumns, job: Int, part: float) -> float:
    """Compute alone_j(m) of one job, with 1 / m given."""
    comp, task = columns.comp_J[job] * part, columns.task_J[job]
    pull = columns.pull_J[job] * (1.0 - part)
    push = columns.push_J[job] * (1.0 - part) * part
    if task == 0.0:
        rest = comp + push
    else:
        rest = max(np.ceil(comp / task - WHOLE) * task + pull, task + push)
    if part < 1.0:
        rest += columns.step_J[job]
    return float(columns.net_J[job] + pull + rest)


@kernel
def best_split(columns: GroupColumns, total: Int, now: Int, thorough: bool) -> tuple[Float, Int]:
    """Find how many of ``total`` machines the first group in scratch gets, and what both are worth.

    A group without jobs gets none. Of up to ``ALL_SPLITS`` machines every split is tried; of more,
    ``now``, and the numbers next to that of either group at which W / m is N(m), but for what falls
    as 1 / m: there it is busiest where it is not job-bound. ``thorough``: and 1, 2, 4, ...
    more or fewer than ``now``.
    """
    if columns.count_2[0] == 0:
        return gathered_value(columns, 1, total), 0
    if columns.count_2[1] == 0:
        return gathered_value(columns, 0, total), total
    if len(columns.kinds.stride_K) > 0:
        value, code = _best_split_of_kinds(columns, total, now)
        return value, code
    best: Float = -np.inf
    chosen: Int = np.int64(0)
    if total <= ALL_SPLITS:
        for machines in range(1, total):
            best, chosen = better_split(columns, total, machines, best, chosen)
        return best, chosen
    best, chosen = better_split(columns, total, now, best, chosen)
    for side in range(2):
        ratio = balanced_machines(columns, side, total)
        for more in range(2):
            first = ratio + more if side == 0 else total - ratio - more
            best, chosen = better_split(columns, total, first, best, chosen)
    step = 1
    while thorough and step < total:
        best, chosen = better_split(columns, total, now - step, best, chosen)
        best, chosen = better_split(columns, total, now + step, best, chosen)
        step *= 2
    return best, chosen


@kernel
def _best_split_of_kinds(columns: GroupColumns, total: Int, now: Int) -> tuple[Float, Int]:
    """Do as ``best_split`` with machines of several kinds.

    Of up to ``ALL_SPLITS_OF_KINDS`` splits every one is tried; of more, ``now``, and those that
    give the first group 1, 2, 4, ... machines more or fewer of one kind, or all or none of it.
    """
    best: Float = -np.inf
    chosen: Int = np.int64(0)
    stride_K, splits = columns.kinds.stride_K, 1
    rest = total
    for kind in range(len(stride_K) - 1, -1, -1):
        splits *= rest // stride_K[kind] + 1
        rest %= stride_K[kind]
    if splits <= ALL_SPLITS_OF_KINDS:
        for split in range(1, splits - 1):
            code, left, rest = np.int64(0), split, total
            for kind in range(len(stride_K) - 1, -1, -1):
                width = rest // stride_K[kind] + 1
                rest %= stride_K[kind]
                code += left % width * stride_K[kind]
                left //= width
            best, chosen = _better_split_of_kinds(columns, total, code, best, chosen)
        return best, chosen
    best, chosen = _better_split_of_kinds(columns, total, now, best, chosen)
    rest, rest_now = total, now
    for kind in range(len(stride_K) - 1, -1, -1):
        most, has = rest // stride_K[kind], rest_now // stride_K[kind]
        rest %= stride_K[kind]
        rest_now %= stride_K[kind]
        others = now - has * stride_K[kind]
        step = 1
        while step < 2 * most:
            fewer, more = max(0, has - step), min(most, has + step)
            for count in (fewer, more):
                code = others + count * stride_K[kind]
                best, chosen = _better_split_of_kinds(columns, total, code, best, chosen)
            step *= 2
    return best, chosen


@kernel
def _better_split_of_kinds(
    columns: GroupColumns, total: Int, code: Int, best: Float, chosen: Int
) -> tuple[Float, Int]:
    """Return the better of a split and the best before, if each group gets a machine."""
    if code <= 0 or code >= total:
        return best, chosen
    value = gathered_value(columns, 0, code) + gathered_value(columns, 1, total - code)
    if value > best:
        return value, code
    return best, chosen


@kernel
def balanced_machines(columns: GroupColumns, side: Int, most: Int) -> Int:
    """Return on how many machines COMP and COMM of a group take equally long, down; or ``most``.

    W / m = N + D + P (1 - 1/m) + Q (1 - 1/m) / m, where Q / m^2 is left out.
    """
    comp = columns.sum_2S[side, 0] + columns.sum_2S[side, 2] - columns.sum_2S[side, 3]
    net = columns.sum_2S[side, 1] + columns.sum_2S[side, 2] + columns.sum_2S[side, 6]
    if comp >= net * most:
        return np.int64(most)
    return np.int64(max(0.0, comp / net))


@kernel
def better_split(
    columns: GroupColumns, total: Int, machines: Int, best: Float, chosen: Int
) -> tuple[Float, Int]:
    """Return the better of a split and the best before; each group gets at least one machine."""
    machines = max(1, min(total - 1, machines))
    value = gathered_value(columns, 0, machines) + gathered_value(columns, 1, total - machines)
    if value > best:
        return value, machines
    return best, chosen
