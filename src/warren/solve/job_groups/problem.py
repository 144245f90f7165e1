"""Job grouping of Harmony: the question, its answer, and the value of a grouping.

Each job has an iteration of COMP and then COMM. Jobs of a group share the group's machines: one
COMP and one COMM at a time. Which jobs run, how they are grouped, and how many of M machines each
group gets shall make the value largest. With w_j the COMP of an iteration on one machine and
n_j(m) its COMM on m, W and N(m) their sums over a group S of m machines::

    (4.1, 4.2)  T(S, m) = max(W / m, N(m), max over j in S of alone_j(m))
    (4.3, 4.4)  value of the group = (u (a W + (1 - a) m N(m)) + V) / T - e m |S|
                utilization of the cluster = sum of values / M, where u = 1, V = 0

a is the weight of CPU; e is so small that it decides between equals: fewer jobs that share a
machine are better. V is the sum of v_j, the worth of an iteration of a job beside the machines it
keeps busy, and u the worth of keeping busy then.

*As published* COMM is the same on any number of machines, n_j(m) = n_j, and a job alone takes
alone_j(m) = w_j / m + n_j. Every machine is in a group then, which loses nothing but e: as m grows
T does not, so neither W / T nor m N / T falls.

*Rounds of tasks* (``RoundTerms``). A round is whole tasks of c_j seconds, and each machine works
and serves: it pulls the state once and pushes an update a task, except for the part that stays on
it. Let p_j be the time of a link for a state of every device of a machine, q_j its time for the
updates of all tasks. If its bytes pass links, a round takes d_j longer::

    pull_j(m) = p_j (1 - 1/m)         push_j(m) = q_j (1 - 1/m) / m
    rest_j(m) = n_j + d_j if m > 1, else n_j
    n_j(m) = rest_j(m) + pull_j(m) + push_j(m)
    alone_j(m) = rest_j(m) + pull_j(m) + max(k c_j + pull_j(m), c_j + push_j(m)),
                 k = ceil(w_j / (m c_j))

the last as ``warren.solve.shapes.task_rounds`` has it for equal machines that work and serve, where
tasks come out even (else some machine sends more). If c_j is 0, tasks can be cut at will and
nothing is sent while a job computes.

*Machines of several kinds* (``kinds``) are unequal, and numbers of machines are codes:
``machine_kinds`` has the times of rounds on them. What is as published counts all as alike.

*Memory.* A group with fewer machines than one of its jobs needs, or than the data of all of its
jobs fill together, is worth nothing.

*Source.* Harmony (dissertation 2020), 4.3.2, (4.1) to (4.4); v_j, u and rounds of tasks are ours.
``warren.cost.job_groups`` has the same closed forms, group by group, and says how the vector U of
(4.4) became one number.

*Symbols.* j: axis J (jobs); g: axis G (groups); S is a set of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeVar

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray
from warren.solve.flows.queued_steps import Sends, iteration_s
from warren.solve.job_groups.machine_kinds import (
    UnequalMachines,
    digits,
    measure_groups,
    measure_jobs,
    parts_of,
)

Column = TypeVar("Column", FloatArray, IntArray)
NOT_RUN: Final = -1
"""The group of a job that does not run."""
WHOLE: Final = 1e-9
"""Largest excess, by rounding of quotients and sums, at which tasks still count as whole and as
fitting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTerms:
    """Terms of a round of each job of whole tasks (J,), in seconds: p, q, c, d."""

    pull_s_J: FloatArray
    push_s_J: FloatArray
    task_s_J: FloatArray
    step_s_J: FloatArray


# Without slots: ``cached_property`` keeps its values in ``__dict__``.
@dataclass(frozen=True, kw_only=True)
class JobGroupingProblem:
    """The jobs, the number of equal machines, and the weights of the objective.

    ``comp_machine_s_J`` (J,): COMP (s) of an iteration on one machine, above 0. ``net_s_J`` (J,):
    its COMM (s) on any number of machines, at least 0. ``rounds``: terms that change with the
    machines; None: nothing. ``worth_J``: v; None: 0. ``least_J``: the machines that each needs;
    None: one. ``memory_J``: the machines that the data of each fill, in parts of a machine; None:
    0. ``kinds``: of machines, where they are not equal; the columns of times are those of mean
    machines then. ``sends``: how pulls and pushes of a group share the network. If not in turns, T
    of groups comes from ``warren.solve.flows.queued_steps``; a search still goes by (4.1).
    ``cpu_weight``: a; ``job_weight``: e; ``busy_weight``: u. ``all_run``: each job must be in a
    group, where none can be made to wait.

    Raises
    ------
    ValueError
        If there is no job or no machine, a time is not allowed, or a weight is not within 0 and 1.
    """

    comp_machine_s_J: FloatArray
    net_s_J: FloatArray
    machines: int
    rounds: RoundTerms | None = None
    worth_J: FloatArray | None = None
    least_J: IntArray | None = None
    memory_J: FloatArray | None = None
    kinds: UnequalMachines | None = None
    sends: Sends = "turns"
    cpu_weight: float = 2 / 3
    job_weight: float = 1e-9
    busy_weight: float = 1.0
    all_run: bool = False

    def __post_init__(self) -> None:
        if self.comp_machine_s_J.shape != self.net_s_J.shape or self.net_s_J.ndim != 1:
            raise ValueError("the columns of the jobs are not of one length")
        if not len(self.net_s_J) or self.machines < 1:
            raise ValueError("there is no job or no machine")
        terms = self.terms
        parts = [
            self.net_s_J, terms.pull_s_J, terms.push_s_J, terms.task_s_J, terms.step_s_J,
            self.worths_J, self.leasts_J, self.memories_J,
        ]  # fmt: skip
        if any(part.shape != self.net_s_J.shape for part in parts):
            raise ValueError("the columns of the jobs are not of one length")
        if not (np.isfinite(self.comp_machine_s_J).all() and (self.comp_machine_s_J > 0).all()):
            raise ValueError("a time is not finite, or a COMP is not above 0")
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("a time is not finite, or a COMP is not above 0")
        if any((part < 0).any() for part in parts):
            raise ValueError("a COMM, a task, a worth or a memory is negative")
        weights = self.cpu_weight, self.job_weight, self.busy_weight
        if not all(0 <= one <= 1 for one in weights):
            raise ValueError("a weight is not within 0 and 1")

    @cached_property
    def terms(self) -> RoundTerms:
        """Return p, q, c and d of each job; zeros as published."""
        if self.rounds is not None:
            return self.rounds
        none_J = np.zeros(len(self.net_s_J))
        return RoundTerms(pull_s_J=none_J, push_s_J=none_J, task_s_J=none_J, step_s_J=none_J)

    @cached_property
    def worths_J(self) -> FloatArray:
        """Return v of each job."""
        return np.zeros(len(self.net_s_J)) if self.worth_J is None else self.worth_J

    @cached_property
    def leasts_J(self) -> IntArray:
        """Return the machines that each job needs."""
        return np.ones(len(self.net_s_J), np.int64) if self.least_J is None else self.least_J

    @cached_property
    def memories_J(self) -> FloatArray:
        """Return the machines that the data of each job fill."""
        return np.zeros(len(self.net_s_J)) if self.memory_J is None else self.memory_J

    @property
    def alike(self) -> JobGroupingProblem:
        """Return the problem with machines that all count as the mean of all."""
        return self if self.kinds is None else replace(self, kinds=None)

    @property
    def all_machines(self) -> int:
        """Return all machines: their number, or its code where there are kinds."""
        return self.machines if self.kinds is None else self.kinds.all_code

    def sizes(self, machine_G: IntArray) -> IntArray:
        """Return how many machines groups have, which may be codes."""
        if self.kinds is None:
            return machine_G
        stride_K = self.kinds.stride_K
        counts = [sum(digits(code, stride_K)) for code in machine_G.ravel().tolist()]
        return np.array(counts, np.int64).reshape(machine_G.shape)

    def some_of(self, machines: int) -> list[int]:
        """Return numbers of machines up to some, or codes: 1, 2, 4, ..., and all of them."""
        if self.kinds is None:
            counts = {*(1 << power for power in range(machines.bit_length())), machines} - {0}
            return sorted(counts)
        return list(parts_of(machines, self.kinds.stride_K)) if machines else []

    def part(self, jobs: IntArray) -> JobGroupingProblem:
        """Return the problem of some of the jobs, by index, on all machines."""

        def some(column: Column | None) -> Column | None:
            return None if column is None else column[jobs]

        rounds = self.rounds
        if rounds is not None:
            rounds = RoundTerms(
                pull_s_J=rounds.pull_s_J[jobs],
                push_s_J=rounds.push_s_J[jobs],
                task_s_J=rounds.task_s_J[jobs],
                step_s_J=rounds.step_s_J[jobs],
            )
        return replace(
            self,
            comp_machine_s_J=self.comp_machine_s_J[jobs],
            net_s_J=self.net_s_J[jobs],
            rounds=rounds,
            worth_J=some(self.worth_J),
            least_J=some(self.least_J),
            memory_J=some(self.memory_J),
            kinds=None if self.kinds is None else self.kinds.part(jobs),
        )

    def fits(self, group_J: IntArray, machine_G: IntArray) -> bool:
        """Tell whether each group's machines hold the data of all of its jobs."""
        return bool(self.holds_G(group_J, machine_G).all())

    def holds_G(self, group_J: IntArray, machine_G: IntArray) -> BoolArray:
        """Return for each group whether its machines hold the data of all of its jobs."""
        runs_J = group_J != NOT_RUN
        filled_G = sums(self.memories_J[runs_J], group_J[runs_J], len(machine_G))
        held_G: BoolArray = filled_G <= self.sizes(machine_G) * (1 + WHOLE)
        return held_G

    def comp_s_J(self, machine_J: IntArray | int) -> FloatArray:
        """Compute COMP of each job alone, on as many machines as stand for it."""
        if self.kinds is None:
            comp_J: FloatArray = self.comp_machine_s_J / machine_J
            return comp_J
        code_J = np.full(len(self.net_s_J), machine_J, np.int64)
        return _comp_on_kinds_G(self.kinds, np.arange(len(code_J)), code_J)

    def comm_s_J(self, machine_J: IntArray | int) -> FloatArray:
        """Compute n_j(m) of each job, on as many machines as stand for it."""
        pull_J, push_J = self._sent_s_J(machine_J)
        comm_J: FloatArray = self._rest_s_J(machine_J) + pull_J + push_J
        return comm_J

    def pull_s_J(self, machine_J: IntArray | int) -> FloatArray:
        """Compute pull_j(m) of each job, on as many machines as stand for it."""
        return self._sent_s_J(machine_J)[0]

    def alone_s_J(self, machine_J: IntArray | int) -> FloatArray:
        """Compute alone_j(m) of each job, on as many machines as stand for it."""
        if self.kinds is not None:
            return self._on_kinds(machine_J)[2] + self._rest_s_J(machine_J)
        comp_J, task_J = self.comp_machine_s_J / machine_J, self.terms.task_s_J
        pull_J, push_J = self._sent_s_J(machine_J)
        cut_J = task_J == 0
        waves_J = np.ceil(comp_J / np.where(cut_J, 1.0, task_J) - WHOLE)
        whole_J = np.maximum(waves_J * task_J + pull_J, task_J + push_J)
        rest_J = self._rest_s_J(machine_J) + pull_J
        alone_J: FloatArray = rest_J + np.where(cut_J, comp_J + push_J, whole_J)
        return alone_J

    def _on_kinds(self, machine_J: IntArray | int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute pull_j, push_j and alone_j less rest_j on machines of several kinds."""
        assert self.kinds is not None
        code_J = np.full(len(self.net_s_J), machine_J, np.int64)
        times_J3 = np.zeros((len(code_J), 3))
        measure_jobs(self.kinds.columns(), code_J, times_J3)
        return times_J3[:, 0], times_J3[:, 1], times_J3[:, 2]

    def _rest_s_J(self, machine_J: IntArray | int) -> FloatArray:
        size_J = self.sizes(np.asarray(machine_J))
        rest_J: FloatArray = self.net_s_J + self.terms.step_s_J * (size_J > 1)
        return rest_J

    def _sent_s_J(self, machine_J: IntArray | int) -> tuple[FloatArray, FloatArray]:
        if self.kinds is not None:
            return self._on_kinds(machine_J)[:2]
        part_J = 1 / np.asarray(machine_J, float)
        terms = self.terms
        return terms.pull_s_J * (1 - part_J), terms.push_s_J * (1 - part_J) * part_J


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGrouping:
    """An answer: the group of each job (J,), ``NOT_RUN`` for none, and machines by group (G,).

    Groups are numbered in the order of their first jobs. ``cpu``, ``net``: (4.4) in its two parts;
    ``utilization``: both as one number; ``value``: all that counts, over M.
    """

    group_J: IntArray
    machine_G: IntArray
    cpu: float
    net: float
    utilization: float
    value: float


def grouping_of(problem: JobGroupingProblem, group_J: IntArray, machine_G: IntArray) -> JobGrouping:
    """Make the answer of some groups, numbered in any way; a group without jobs is left out.

    Raises ValueError if a group with jobs has no machine, or all have more than there are.
    """
    there_G, first_G = np.unique(group_J[group_J != NOT_RUN], return_index=True)
    there_G = there_G[np.argsort(first_G)]
    number_G = np.full(len(machine_G) + 1, NOT_RUN, np.int64)
    number_G[there_G] = np.arange(len(there_G))
    # The last entry stands for jobs that do not run: their group is -1.
    group_J, machine_G = number_G[group_J], np.asarray(machine_G, np.int64)[there_G]
    size_G = problem.sizes(machine_G)
    if (machine_G < 1).any() or size_G.sum() > problem.machines:
        raise ValueError("a group has no machine, or there are too few machines")
    runs_J, total = group_J != NOT_RUN, problem.machines
    member_J, groups = group_J[runs_J], len(machine_G)
    comp_G, net_G, time_G = iterations_s_G(problem, group_J, machine_G)
    cpu, net = (float((size_G * part / time_G).sum()) / total for part in (comp_G, net_G))
    sharing = float((size_G * np.bincount(member_J, minlength=groups)).sum()) / total
    worth = float((sums(problem.worths_J[runs_J], member_J, groups) / time_G).sum()) / total
    used = problem.cpu_weight * cpu + (1 - problem.cpu_weight) * net
    return JobGrouping(
        group_J=group_J, machine_G=machine_G, cpu=cpu, net=net, utilization=used,
        value=problem.busy_weight * used + worth - problem.job_weight * sharing,
    )  # fmt: skip


def iterations_s_G(
    problem: JobGroupingProblem, group_J: IntArray, machine_G: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute COMP, COMM and T of each group (G,), in seconds.

    T is infinite where a group may not run: it keeps nothing busy, and is worth nothing.
    """
    runs_J = group_J != NOT_RUN
    member_J, groups = group_J[runs_J], len(machine_G)
    on_J = np.ones(len(group_J), np.int64)
    on_J[runs_J] = machine_G[member_J]
    if problem.kinds is None:
        comp_G = sums((problem.comp_machine_s_J / on_J)[runs_J], member_J, groups)
    else:
        comp_G = _comp_on_kinds_G(problem.kinds, group_J, machine_G)
    net_G = sums(problem.comm_s_J(on_J)[runs_J], member_J, groups)
    time_G = np.maximum(comp_G, net_G)
    np.maximum.at(time_G, member_J, problem.alone_s_J(on_J)[runs_J])
    if problem.sends != "turns":
        time_G = np.maximum(time_G, _queued_s_G(problem, group_J, on_J, groups))
    least_G = np.ones(groups, np.int64)
    np.maximum.at(least_G, member_J, problem.leasts_J[runs_J])
    size_G = problem.sizes(machine_G)
    time_G[(size_G < least_G) | ~problem.holds_G(group_J, machine_G)] = np.inf
    return comp_G, net_G, time_G


def _queued_s_G(
    problem: JobGroupingProblem, group_J: IntArray, on_J: IntArray, groups: int
) -> FloatArray:
    """Compute the iteration of each group whose pulls and pushes are steps of their own."""
    pull_J, comm_J, alone_J = (
        problem.pull_s_J(on_J),
        problem.comm_s_J(on_J),
        problem.alone_s_J(on_J),
    )
    due_J = np.maximum(alone_J - comm_J, 0.0)
    comp_J, time_G = problem.comp_s_J(on_J), np.zeros(groups)
    for group in range(groups):
        some = np.flatnonzero(group_J == group)
        if len(some) > 1:
            push_J = (comm_J - pull_J)[some]
            steps = pull_J[some], comp_J[some], due_J[some], push_J
            time_G[group] = iteration_s(*steps, problem.sends)
    return time_G


def _comp_on_kinds_G(kinds: UnequalMachines, group_J: IntArray, machine_G: IntArray) -> FloatArray:
    """Compute the COMP of each group on the devices of the type on which it is longest."""
    comp_G = np.zeros(len(machine_G))
    code_G = np.ascontiguousarray(machine_G, np.int64)
    measure_groups(kinds.columns(), np.ascontiguousarray(group_J, np.int64), code_G, comp_G)
    return comp_G


def sums(value_J: FloatArray, group_J: IntArray, groups: int) -> FloatArray:
    """Compute the sum of each group's values; shape (G,)."""
    sum_G = np.zeros(groups)
    np.add.at(sum_G, group_J, value_J)
    return sum_G
