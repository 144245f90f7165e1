"""Harmony: jobs share hosts in groups, so that while one sends another computes.

What
    When a job comes or ends, or rounds of one take other times than those it was grouped by, all
    jobs are grouped anew: which of them run, who shares hosts, and how many hosts each group gets,
    so that the weighed speed of all jobs is the largest (``warren.solve.job_groups.worth``). The
    new groups are taken if they are worth ``threshold`` more than those there are, with jobs that
    wait wherever that gains. Each job of a group has a server and its tasks on all of the group's
    hosts; rounds begin when their barrier has passed, so computation of one job goes on while
    others send.
Source
    Harmony (dissertation 2020), chapter 4: groups, the model (4.1)-(4.3) and its use.
Differs
    What is made largest is not utilisation but weighed speed, by a search of our own in place of
    Algorithms 1 and 2 (docs/decisions/0042): with the largest utilisation jobs end late. It knows
    how many rounds are left. COMM depends on the number of hosts, as it does with a server on each.
    COMP and COMM are known before a job runs; COMP follows what tasks take, of jobs that have not
    run as of others, COMM what a round of a job alone takes longer. There is no profiling phase.
    Which of two jobs that send is the secondary one is left to ``flow``: with ``turns`` who began
    later, else none. ``harmony-published`` stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from warren.model.decision import Decision, Question
from warren.model.events import Event
from warren.model.view import View
from warren.policy.joint.group_rounds import check_groupable, grouping_problem
from warren.policy.joint.host_groups import ANSWERS, TRIGGERS, HostGroups, decided, told
from warren.solve.job_groups.problem import JobGroupingProblem
from warren.solve.job_groups.regrouping import RunningGroups, utilization_of, with_waiting
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import iteration_worth_J

_WORK: Final = 1_000_000
"""Of the search, in jobs looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """Group all jobs for the largest weighed speed, if that gains more than ``threshold``.

    ``surprise``: by how large a part a round has to differ from what its job was grouped by, so
    that all are grouped anew before a job comes or ends. ``least``: the hosts that each job needs
    at least.
    """

    threshold: float = 0.05
    surprise: float = 0.2
    least: int = 1

    name: ClassVar[str] = "harmony"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.3; grouping ours"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = ANSWERS
    triggers: ClassVar[frozenset[type[Event]]] = TRIGGERS

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}; allowed: 0 up to 1")
        if not self.surprise > 0:
            raise ValueError(f"surprise is {self.surprise}; allowed: more than 0")
        if self.least < 1:
            raise ValueError(f"least is {self.least}; allowed: 1 and more")

    def initial(self, view: View) -> HostGroups:
        """Return a memory of no groups."""
        check_groupable(view, self.name)
        return HostGroups()

    def decide(self, view: View, memory: HostGroups) -> tuple[Decision, HostGroups]:
        """Regroup if that is due; start the rounds whose barrier has passed."""
        return decided(view, memory, self._choose, surprise=self.surprise)

    def explain(self, view: View, memory: HostGroups, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        waits = "waits: the groups that run are worth more, by what their jobs have left"
        return told(view, memory.groups, job, waits)

    def _choose(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        """Return the groups from now on: those before, or better ones."""
        problem = self._problem(view, memory, jobs)
        found = grouped(problem, work=_WORK, seed=view.seed)
        # Who waits begins where that gains, however little, as long as nobody has to move.
        running = with_waiting(problem, memory.running(jobs, len(view.cluster.hosts)))
        if found.value <= utilization_of(problem, running) * (1 + self.threshold):
            return running
        return RunningGroups(group_J=found.group_J, machine_G=found.machine_G)

    def _problem(self, view: View, memory: HostGroups, jobs: list[int]) -> JobGroupingProblem:
        """Return the problem of these jobs, by what they have left."""
        some, longer = [view.jobs[job] for job in jobs], memory.expected_longer(jobs)
        problem = grouping_problem(view.cluster, view.costs, some, longer, memory.late_s)
        if self.least > 1:
            least = min(self.least, problem.machines)
            problem = replace(problem, least_J=np.full(len(jobs), least, np.int64))
        left_J = np.maximum(view.rounds_J[jobs] - view.round_J[jobs], 1).astype(float)
        worth_J = iteration_worth_J(problem, left_J, view.weight_J[jobs])
        return replace(problem, worth_J=worth_J, busy_weight=0.0)
