"""Harmony as published: Algorithms 1 and 2 for the largest utilization, and its regrouping.

What
    The first jobs are grouped by Algorithm 1. A job that comes later joins the group in which
    utilization becomes largest, or waits; when one ends, similar jobs take its place, or groups are
    formed again as far as that gains 5 %.
Source
    Harmony (dissertation 2020), 4.3.2, Algorithms 1 and 2 and "Dynamic Job Regrouping";
    ``warren.solve.job_groups`` names each slip of the print and each open point.
Differs
    Hosts count as alike, as in the paper, each as fast as their mean. COMP of a job is known before
    it runs; with ``costs: measured`` it is profiled, as the paper has it (``naive_start``,
    ``job_profiles``), for a number of rounds that is ours. COMM counts as the same on any number of
    hosts, as in (4.2): its time on all of them. The primary and the secondary COMM of two jobs are
    ``flow: turns``; without it they share links alike. ``patience`` 1 is as printed; ``intensity``
    and ``waiting_first`` are readings of open points of the paper; see
    ``warren.solve.job_groups.published`` and ``regrouping``. A group must hold the data of its jobs
    (4.4.4) where memory or ``least`` is stated: a grouping that does not is no better one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from warren.model.decision import Decision, Question
from warren.model.events import Event
from warren.model.view import View
from warren.policy.joint.group_rounds import check_groupable, grouping_problem, within_memory
from warren.policy.joint.host_groups import (
    ANSWERS,
    TRIGGERS,
    HostGroups,
    alike_H,
    decided,
    ended_jobs,
    explanation,
)
from warren.policy.joint.job_profiles import profiles_of
from warren.solve.common.arrays import IntArray
from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem
from warren.solve.job_groups.published import (
    AS_PRINTED,
    INTENSITIES,
    Intensity,
    published_grouping,
)
from warren.solve.job_groups.regrouping import (
    EndedMember,
    RunningGroups,
    with_new_job,
    without_job,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonyPublished:
    """Group jobs by Algorithm 1; ``patience``: how many worse numbers of jobs end it.

    ``intensity``: to which group machines go first, by COMP over COMM or COMP less COMM;
    ``waiting_first``: which jobs come first where some wait and some run. ``least``: hosts that the
    data of each job fill, if more than one; jobs that share hosts need the sum.
    ``costs``: ``stated``, of each job before it runs, or ``measured`` while it runs.
    """

    patience: int = AS_PRINTED
    intensity: Intensity = "ratio"
    waiting_first: bool = True
    least: int = 1
    costs: str = "stated"

    name: ClassVar[str] = "harmony-published"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.3.2, Algorithms 1 and 2"
    offline: ClassVar[bool] = False
    # It does not use rounds. But a policy that needs none sees no job before it arrives, and jobs
    # that cannot be grouped are to be refused before time begins.
    needs_rounds: ClassVar[bool] = True
    checks_all_jobs: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = ANSWERS
    triggers: ClassVar[frozenset[type[Event]]] = TRIGGERS

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.patience < 1:
            raise ValueError(f"patience is {self.patience}; allowed: 1 and more")
        if self.least < 1:
            raise ValueError(f"least is {self.least}; allowed: 1 and more")
        if self.intensity not in INTENSITIES:
            allowed = ", ".join(INTENSITIES)
            raise ValueError(f"intensity is {self.intensity!r}; allowed: {allowed}")
        profiles_of(self.costs)

    @property
    def measures_costs(self) -> bool:
        """Tell whether no cost has to be known before jobs run."""
        return self.costs == "measured"

    def initial(self, view: View) -> HostGroups:
        """Return a memory of no groups."""
        check_groupable(view, self.name)
        return HostGroups(profiles=profiles_of(self.costs))

    def decide(self, view: View, memory: HostGroups) -> tuple[Decision, HostGroups]:
        """Regroup if a job has come or ended; start the rounds whose barrier has passed."""
        return decided(view, memory, self._choose, least=self.least)

    def explain(self, view: View, memory: HostGroups, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        waits = "waits: no group would use CPUs and links better with it"
        return explanation(view, memory, job, waits)

    def _choose(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        """Return the groups after jobs have come and ended, one after another."""
        running = memory.running(jobs, alike_H(view))
        if not (running.group_J != NOT_RUN).any():
            grouping = self._grouped(self._problem(view, memory, jobs), np.arange(len(jobs)))
            return RunningGroups.of(grouping)
        came = [job for job in jobs if job not in memory.grouped]
        present = [job for job in jobs if job not in came]
        running = self._without_ended(view, memory, present)
        for job in came:
            # One after another, each beside those before it alone.
            present = sorted([*present, job])
            place = present.index(job)
            group_J = np.insert(running.group_J, place, NOT_RUN)
            one = RunningGroups(group_J=group_J, machine_G=running.machine_G)
            running = with_new_job(self._problem(view, memory, present), one, place)
        return running

    def _without_ended(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        """Return the groups after jobs have ended, each group repaired once."""
        running = memory.running(jobs, alike_H(view))
        problem = self._problem(view, memory, jobs)
        members = [
            frozenset(np.flatnonzero(running.group_J == at).tolist())
            for at in range(len(running.machine_G))
        ]
        for ended in _ended(view, memory):
            # Groups formed again for an earlier ended job have other numbers, and need no repair.
            now = [
                at
                for at in range(len(running.machine_G))
                if members[ended.group] == frozenset(np.flatnonzero(running.group_J == at).tolist())
            ]
            if now:
                one = replace(ended, group=now[0])
                running = without_job(
                    problem, running, one, self._grouped, waiting_first=self.waiting_first
                )
        return running

    def _problem(self, view: View, memory: HostGroups, jobs: list[int]) -> JobGroupingProblem:
        """Return the problem of these jobs, whose data groups hold."""
        return within_memory(_constant_problem(view, memory, jobs), view, jobs, self.least)

    def _grouped(self, problem: JobGroupingProblem, _: IntArray) -> JobGrouping:
        return published_grouping(problem, self.patience, self.intensity)


def _constant_problem(view: View, memory: HostGroups, jobs: list[int]) -> JobGroupingProblem:
    """Return the problem of these jobs, with a COMM that does not depend on the hosts."""
    some = [view.jobs[job] for job in jobs]
    costs, late_s = memory.seen(view).costs, memory.late_s
    problem = grouping_problem(view.cluster, costs, some, memory.longer, late_s).alike
    return replace(problem, net_s_J=problem.comm_s_J(problem.machines), rounds=None)


def _ended(view: View, memory: HostGroups) -> list[EndedMember]:
    """Return the jobs of groups that have ended at this instant."""
    number = {job: at for at, group in enumerate(memory.groups) for job in group.jobs}
    jobs = [job for job in ended_jobs(view) if job in number]
    if not jobs:
        return []
    problem = _constant_problem(view, memory, jobs)
    times_s = zip(problem.comp_machine_s_J.tolist(), problem.net_s_J.tolist(), strict=True)
    return [
        EndedMember(comp_machine_s=comp_s, net_s=net_s, group=number[job])
        for job, (comp_s, net_s) in zip(jobs, times_s, strict=True)
    ]
