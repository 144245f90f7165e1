"""Harmony as published: Algorithms 1 and 2 for the largest utilisation, and its regrouping.

What
    The first jobs are grouped by Algorithm 1. A job that comes later joins the group in which
    utilisation becomes largest, or waits; when one ends, similar jobs take its place, or groups are
    made anew as far as that gains 5 %.
Source
    Harmony (dissertation 2020), 4.3.2, Algorithms 1 and 2 and "Dynamic Job Regrouping";
    ``warren.solve.job_groups`` names each slip of the print and what is left open.
Differs
    There is no profiling: COMP of a job is known before it runs. COMM counts as the same on any
    number of hosts, as (4.2) has it: what it takes on all of them. Two jobs that send share a link
    as flows do; none is a secondary one. ``patience`` 1 is as printed; see
    ``warren.solve.job_groups.published``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Question
from warren.model.events import Event, JobArrived
from warren.model.view import View
from warren.policy.joint.group_rounds import check_jobs, grouping_problem
from warren.policy.joint.host_groups import (
    ANSWERS,
    TRIGGERS,
    HostGroups,
    decided,
    ended_jobs,
    told,
)
from warren.solve.common.arrays import IntArray
from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem
from warren.solve.job_groups.published import published_grouping
from warren.solve.job_groups.regrouping import (
    EndedMember,
    RunningGroups,
    with_new_job,
    without_job,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonyPublished:
    """Group jobs by Algorithm 1; ``patience``: how many worse numbers of jobs end it."""

    patience: int = 1

    name: ClassVar[str] = "harmony-published"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.3.2, Algorithms 1 and 2"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = ANSWERS
    triggers: ClassVar[frozenset[type[Event]]] = TRIGGERS

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if self.patience < 1:
            raise ValueError(f"patience is {self.patience}; allowed: 1 and more")

    def initial(self, view: View) -> HostGroups:
        """Return a memory of no groups."""
        check_jobs(view.cluster, view.costs, view.jobs, self.name)
        return HostGroups()

    def decide(self, view: View, memory: HostGroups) -> tuple[Decision, HostGroups]:
        """Regroup if a job has come or ended; start the rounds whose barrier has passed."""
        return decided(view, memory, self._choose)

    def explain(self, view: View, memory: HostGroups, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        where = told(view, memory.groups, job)
        return where or "waits: no group would use CPUs and links better with it"

    def _choose(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        """Return the groups after jobs have come and ended, one after another."""
        running, problem = memory.running(jobs), _problem(view, memory, jobs)
        if not (running.group_J != NOT_RUN).any():
            found = self._grouped(problem, np.arange(len(jobs)))
            return RunningGroups(group_J=found.group_J, machine_G=found.machine_G)
        machine_G = running.machine_G
        for ended in _ended(view, memory):
            # Where groups have been made anew for the first of several, there is none to repair.
            if running.machine_G is machine_G:
                running = without_job(problem, running, ended, self._grouped)
        for event in view.changes:
            if isinstance(event, JobArrived):
                running = with_new_job(problem, running, jobs.index(event.job))
        return running

    def _grouped(self, problem: JobGroupingProblem, _: IntArray) -> JobGrouping:
        return published_grouping(problem, self.patience)


def _problem(view: View, memory: HostGroups, jobs: list[int]) -> JobGroupingProblem:
    """Return the problem of these jobs, with a COMM that does not depend on the hosts."""
    some = [view.jobs[job] for job in jobs]
    problem = grouping_problem(view.cluster, view.costs, some, memory.longer, memory.late_s)
    return replace(problem, net_s_J=problem.comm_s_J(problem.machines), rounds=None)


def _ended(view: View, memory: HostGroups) -> list[EndedMember]:
    """Return the jobs of groups that have ended at this instant."""
    number = {job: at for at, group in enumerate(memory.groups) for job in group.jobs}
    jobs = [job for job in ended_jobs(view) if job in number]
    problem = _problem(view, memory, jobs) if jobs else None
    return [
        EndedMember(
            comp_machine_s=float(problem.comp_machine_s_J[at]),
            net_s=float(problem.net_s_J[at]),
            group=number[job],
        )
        for at, job in enumerate(jobs)
        if problem is not None
    ]
