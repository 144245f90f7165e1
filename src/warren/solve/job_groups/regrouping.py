"""Harmony's regrouping: the changes when a job comes or ends, as few as possible.

*A job comes.* It is handled only where no other job waits: it joins the group in which U becomes
largest, or waits where none makes U larger. The first job of all takes all machines.

*A job ends.* In this order:

1. A waiting job that is similar takes its place: iteration times (T_cpu + T_net, at the group's
   DoP) and ratios of COMP to COMM differ by ``SIMILAR`` at most. Of several the nearest of those
   whose data fit.
2. Else a bundle of waiting jobs whose sums are similar.
3. Else Algorithm 1 regroups the group of the ended job with other groups, and the jobs that wait.
   A tried regrouping with more jobs is taken only if U is larger by ``WORTH`` of it than with
   fewer; and that only if U is larger by ``WORTH`` than without it.

*Source.* Harmony (dissertation 2020), 4.3.2, "Dynamic Job Regrouping".

*Symbols.* J, Algorithm 1's line 2: the waiting jobs (profiled and paused), then J_running, those of
the groups chosen, each in their order.

*Left open*, and how it is read here:

- Which jobs of J come first, which counts where Algorithm 1 ends early: as line 2 prints it, those
  that wait; ``waiting_first`` False: those that run.
- The reference of "a difference within 5 %": the ended job's figure.
- How bundles are searched for: of 2 and then of 3 jobs, among the ``_LOOKED_AT`` waiting jobs whose
  iteration times are longest of those not longer than the ended job's. The nearest.
- Which combinations of groups are tried: all, of up to ``all_of`` groups beside the ended job's; of
  more, one combination for each number of groups, those with the fewest jobs. At least one other
  group, if there is one; else the group alone.

"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.job_groups.problem import (
    NOT_RUN,
    WHOLE,
    JobGrouping,
    JobGroupingProblem,
    grouping_of,
)

SIMILAR: Final = 0.05
"""Largest difference of iteration times and of ratios of similar jobs, as a part."""
WORTH: Final = 0.05
"""Least gain of a regrouping in U, also of a regrouping of more jobs over one of fewer."""
_LOOKED_AT: Final = 40
"""Waiting jobs among which bundles are searched for."""
ALL_OF: Final = 8
"""Most groups of which all combinations are tried."""

Grouper = Callable[[JobGroupingProblem, IntArray], JobGrouping]
"""Groups the jobs of a part of a problem, given their places in the whole: Algorithm 1, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedMember:
    """A job that has ended: its COMP (s) on one machine, its COMM (s), its group's number."""

    comp_machine_s: float
    net_s: float
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGroups:
    """The group of each job (J,), ``NOT_RUN`` if it waits, and machines by group (G,).

    A group may have no job any more: its machines are idle.
    """

    group_J: IntArray
    machine_G: IntArray

    @classmethod
    def of(cls, found: JobGrouping) -> RunningGroups:
        """Return the groups of an answer."""
        return cls(group_J=found.group_J, machine_G=found.machine_G)


def utilization_of(problem: JobGroupingProblem, running: RunningGroups) -> float:
    """Compute the value of some groups, U as one number; machines of empty groups are idle."""
    if not (running.group_J != NOT_RUN).any():
        return 0.0
    return grouping_of(problem, running.group_J, running.machine_G).value


def with_new_job(problem: JobGroupingProblem, running: RunningGroups, job: int) -> RunningGroups:
    """Return the groups when a job has come that waits.

    Parameters
    ----------
    problem
        All jobs that are there, the new one included.
    """
    others = np.delete(running.group_J, job)
    if not (others != NOT_RUN).any():
        # If no job runs, the first waiting job has all machines.
        group_J = np.full_like(running.group_J, NOT_RUN)
        group_J[job] = 0
        return RunningGroups(group_J=group_J, machine_G=np.array([problem.machines]))
    if (others == NOT_RUN).any():
        return running
    best, most = running, utilization_of(problem, running)
    for group in range(len(running.machine_G)):
        joined = running.group_J.copy()
        joined[job] = group
        one = replace(running, group_J=joined)
        value = utilization_of(problem, one)
        if value > most:
            best, most = one, value
    return best


def with_waiting(problem: JobGroupingProblem, running: RunningGroups) -> RunningGroups:
    """Return the groups with jobs that wait wherever that gains, and none that runs moved (ours).

    Again and again the job that gains most: it joins a group, or has 1, 2, 4, ... or all machines
    that no job is on for itself. Of many waiting jobs the ``_LOOKED_AT`` are looked at that are
    worth most for their time.
    """
    while True:
        waiting = np.flatnonzero(running.group_J == NOT_RUN)
        dense_J = problem.worths_J[waiting] / problem.alone_s_J(problem.all_machines)[waiting]
        waiting = waiting[np.argsort(-dense_J, kind="stable")][:_LOOKED_AT]
        best, most = None, utilization_of(problem, running)
        for job in waiting.tolist():
            for one in _places(problem, running, job):
                value = utilization_of(problem, one)
                if value > most:
                    best, most = one, value
        if best is None:
            return running
        running = best


def _places(
    problem: JobGroupingProblem, running: RunningGroups, job: int
) -> Iterator[RunningGroups]:
    """Yield the groups with a job in each of them, then with it on machines that no job is on."""
    taken = [group for group in np.unique(running.group_J).tolist() if group != NOT_RUN]
    free = problem.all_machines - int(running.machine_G[taken].sum())
    for group in taken:
        group_J = running.group_J.copy()
        group_J[job] = group
        yield replace(running, group_J=group_J)
    for count in problem.some_of(free):
        # Only groups with jobs stay: the machines of others are those that are free.
        number_G = np.full(len(running.machine_G) + 1, NOT_RUN, np.int64)
        number_G[taken] = np.arange(len(taken))
        group_J = number_G[running.group_J]
        group_J[job] = len(taken)
        yield RunningGroups(group_J=group_J, machine_G=np.append(running.machine_G[taken], count))


def without_job(
    problem: JobGroupingProblem,
    running: RunningGroups,
    ended: EndedMember,
    group: Grouper,
    all_of: int = ALL_OF,
    *,
    waiting_first: bool = True,
) -> RunningGroups:
    """Return the groups after a job has ended.

    Parameters
    ----------
    problem
        The jobs that are left.
    running
        Their groups; the group that the job was in may be empty now.
    ended
        The job that has ended.
    group
        Groups the jobs of a part of the problem, on its machines: Algorithm 1.
    all_of
        Most groups of which all combinations are tried.
    waiting_first
        The jobs that ``group`` is given first.
    """
    waiting = np.flatnonzero(running.group_J == NOT_RUN)
    found = _replacement(problem, running, ended, waiting)
    if found:
        group_J = running.group_J.copy()
        group_J[list(found)] = ended.group
        return replace(running, group_J=group_J)
    sets = list(_combinations(running, ended.group, all_of))

    def regrouped(involved: tuple[int, ...]) -> RunningGroups | None:
        return _with_regrouped(problem, running, involved, waiting, group, waiting_first)

    return _best_of(problem, running, sets, regrouped)


def _replacement(
    problem: JobGroupingProblem, running: RunningGroups, ended: EndedMember, waiting: IntArray
) -> tuple[int, ...]:
    """Return one job that is similar to the ended one, else a bundle; empty if there is none."""
    machines = int(running.machine_G[ended.group])
    comp_J, net_J = problem.comp_machine_s_J / machines, problem.net_s_J
    comp_s, net_s = ended.comp_machine_s / machines, ended.net_s
    filled = float(problem.memories_J[running.group_J == ended.group].sum())
    free = machines * (1 + WHOLE) - filled
    limit_s = (comp_s + net_s) * (1 + SIMILAR)
    short = waiting[(comp_J + net_J)[waiting] <= limit_s]
    longest = short[np.argsort(-(comp_J + net_J)[short], kind="stable")]
    for size, among in ((1, longest), (2, longest[:_LOOKED_AT]), (3, longest[:_LOOKED_AT])):
        sets = list(combinations(among.tolist(), size))
        if not sets:
            continue
        chosen = np.array(sets)
        chosen = chosen[problem.memories_J[chosen].sum(axis=1) <= free]
        if not len(chosen):
            continue
        apart = _apart(comp_J[chosen].sum(axis=1), net_J[chosen].sum(axis=1), comp_s, net_s)
        nearest = int(np.argmin(apart))
        if apart[nearest] <= SIMILAR:
            return tuple(chosen[nearest].tolist())
    return ()


def _apart(comp_s_S: FloatArray, net_s_S: FloatArray, comp_s: float, net_s: float) -> FloatArray:
    """Return the difference of sets of jobs from a job: in length, or in the ratio, if larger."""
    length_S = np.abs((comp_s_S + net_s_S) / (comp_s + net_s) - 1)
    # |x / y - 1| of ratios x and y, without a division by a COMM of nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_S = np.abs(comp_s_S * net_s / (net_s_S * comp_s) - 1)
    ratio_S[(net_s_S == 0) & (net_s == 0)] = 0.0
    apart_S: FloatArray = np.maximum(length_S, np.nan_to_num(ratio_S, nan=np.inf))
    return apart_S


def _best_of(
    problem: JobGroupingProblem,
    running: RunningGroups,
    sets: Sequence[tuple[int, ...]],
    regrouped: Callable[[tuple[int, ...]], RunningGroups | None],
) -> RunningGroups:
    """Regroup each of these sets of groups; return the best, as far as more jobs are worth it."""
    # The best for each number of jobs that take part.
    by_jobs: dict[int, tuple[float, RunningGroups]] = {}
    for involved in sets:
        one = regrouped(involved)
        if one is None:
            continue
        count = int(np.isin(running.group_J, involved).sum())
        value = utilization_of(problem, one)
        if count not in by_jobs or value > by_jobs[count][0]:
            by_jobs[count] = value, one
    chosen, most = running, -np.inf
    for _, (value, one) in sorted(by_jobs.items(), key=lambda pair: pair[0]):
        if most == -np.inf or value > most * (1 + WORTH):
            chosen, most = one, value
    return chosen if most > utilization_of(problem, running) * (1 + WORTH) else running


def _combinations(running: RunningGroups, broken: int, all_of: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups to be regrouped with the broken one, which is alone if there are no others.

    If there are many only the sets of groups with the fewest jobs.
    """
    jobs_G = np.bincount(
        running.group_J[running.group_J != NOT_RUN], minlength=len(running.machine_G)
    )
    others = [one for one in np.argsort(jobs_G, kind="stable").tolist() if one != broken]
    if not others:
        yield (broken,)
    for count in range(1, len(others) + 1):
        if len(others) > all_of:
            yield (broken, *others[:count])
        else:
            yield from ((broken, *some) for some in combinations(others, count))


def _with_regrouped(
    problem: JobGroupingProblem,
    running: RunningGroups,
    involved: Sequence[int],
    waiting: IntArray,
    group: Grouper,
    waiting_first: bool,
) -> RunningGroups | None:
    """Return the groups once those involved have been formed again; None if no job is left."""
    inside = np.isin(running.group_J, involved)
    parts = [waiting, np.flatnonzero(inside)]
    jobs = np.concatenate(parts if waiting_first else parts[::-1])
    if not len(jobs):
        return None
    part = replace(problem.part(jobs), machines=int(running.machine_G[list(involved)].sum()))
    found = group(part, jobs)
    stay = [one for one in range(len(running.machine_G)) if one not in involved]
    number_G = {old: new for new, old in enumerate(stay)}
    group_J = np.array([number_G.get(one, NOT_RUN) for one in running.group_J.tolist()], np.int64)
    group_J[jobs] = np.where(found.group_J == NOT_RUN, NOT_RUN, found.group_J + len(stay))
    return RunningGroups(
        group_J=group_J, machine_G=np.concatenate([running.machine_G[stay], found.machine_G])
    )
