"""Harmony: jobs share hosts in groups, so that while one sends another computes.

What
    When a job comes or ends, or rounds of a job take other times than it was grouped by, all jobs
    are grouped again: which of them run, which share hosts, and how many hosts each group gets. Of
    many jobs the weighed speed of all is made the largest (``solve.job_groups.worth``). Of few,
    groupings for several weights of early ends are compared by when all would end
    (``solve.job_groups.lookahead``). New groups are taken if they are better than the present ones
    by some part, and waiting jobs start wherever that gains weighed speed. Each job of a group has
    a server and its tasks on all of the group's hosts; rounds begin when their barrier has passed,
    so computation of one job goes on while others send. Hosts of unequal speed count as they are: a
    group has a number of each kind.
Source
    Harmony (dissertation 2020), chapter 4: groups, the model (4.1)-(4.3) and its use.
Differs
    The objective is not utilization but weighed speed, or the ends of few jobs, by a search of our
    own in place of Algorithms 1 and 2 (decision 0042): with the largest utilization jobs end
    late. It knows how many rounds are left. COMM depends on the number of hosts, as it does with a
    server on each. COMP and COMM are known before a job runs; COMP follows the times of tasks, of
    jobs that have not run as of others, COMM the extra time of a round of a job alone. With
    ``costs: measured`` nothing is known before: jobs begin by the paper's naive rule
    (``naive_start``) and are grouped by moving averages (``job_profiles``), COMM by the size of the
    model and the quickest pushes on links, since a job's own may wait for those of others. Which of
    two jobs that send is the secondary one is left to ``flow``: with ``turns`` the job that began
    later, else none. ``harmony-published`` stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from warren.model.costs import FloatArray
from warren.model.decision import Decision, Question
from warren.model.events import Event
from warren.model.view import View
from warren.policy.joint.group_rounds import (
    check_groupable,
    grouping_problem,
    host_codes_H,
    within_memory,
)
from warren.policy.joint.host_groups import ANSWERS, TRIGGERS, HostGroups, decided, explanation
from warren.policy.joint.job_profiles import profiles_of
from warren.solve.flows.queued_steps import SENDS, Sends
from warren.solve.job_groups.lookahead import by_lookahead
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem
from warren.solve.job_groups.regrouping import RunningGroups, utilization_of, with_waiting
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import weighed_speed

_WORK: Final = 1_000_000
"""Of the search, in jobs looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harmony:
    """Group few jobs for early ends, many for the largest weighed speed.

    ``threshold``: the part by which the weighed speed of many jobs must gain before others move;
    ``sooner``: the part by which few must end sooner (the score of ``lookahead``) for that.
    ``surprise``: the part by which a round has to differ from the time its job was grouped by, so
    that all are grouped again before a job comes or ends. ``foreseen``: the most jobs whose
    groupings are compared by when all would end; 0: never. ``least``: hosts that the data of each
    job fill, if more than one; jobs that share hosts need the sum. ``sends``: how jobs of a group
    are taken to send: in ``turns``; ``shared``, as links are without ``flow: turns``; or ``apart``,
    pulls and pushes each in turn.
    ``costs``: ``stated``, of each job before it runs, or ``measured`` while it runs.
    """

    threshold: float = 0.05
    surprise: float = 0.2
    foreseen: int = 8
    sooner: float = 0.01
    least: int = 1
    sends: Sends = "turns"
    costs: str = "stated"

    name: ClassVar[str] = "harmony"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.3; grouping ours"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    checks_all_jobs: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = ANSWERS
    triggers: ClassVar[frozenset[type[Event]]] = TRIGGERS

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}; allowed: 0 up to 1")
        if not self.surprise > 0:
            raise ValueError(f"surprise is {self.surprise}; allowed: more than 0")
        if not 0 <= self.sooner < 1:
            raise ValueError(f"sooner is {self.sooner}; allowed: 0 up to 1")
        if self.foreseen < 0:
            raise ValueError(f"foreseen is {self.foreseen}; allowed: 0 and more")
        if self.least < 1:
            raise ValueError(f"least is {self.least}; allowed: 1 and more")
        if self.sends not in SENDS:
            raise ValueError(f"sends is {self.sends!r}; allowed: {', '.join(SENDS)}")
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
        """Regroup if that is due; start the rounds whose barrier has passed."""
        return decided(
            view, memory, self._choose, surprise=self.surprise, least=self.least, alike=False
        )

    def explain(self, view: View, memory: HostGroups, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        waits = "waits: the groups that run are better for all jobs, by what each has left"
        return explanation(view, memory, job, waits)

    def _choose(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        """Return the groups from now on: those before, or better ones."""
        left_J = np.maximum(view.rounds_J[jobs] - view.round_J[jobs], 1).astype(float)
        problem = self._problem(view, memory, jobs, left_J)
        before = memory.running(jobs, host_codes_H(view.cluster))
        # Waiting jobs begin where that gains, however little, as long as no job has to move.
        running = with_waiting(problem, before)
        if len(jobs) <= self.foreseen:
            # If no job runs, none has to move.
            sooner = self.sooner if (before.group_J != NOT_RUN).any() else 0.0
            weight_J = view.weight_J[jobs]
            return by_lookahead(problem, left_J, weight_J, running, sooner, _WORK, view.seed)
        grouping = grouped(problem, work=_WORK, seed=view.seed)
        if grouping.value <= utilization_of(problem, running) * (1 + self.threshold):
            return running
        return RunningGroups.of(grouping)

    def _problem(
        self, view: View, memory: HostGroups, jobs: list[int], left_J: FloatArray
    ) -> JobGroupingProblem:
        """Return the problem of these jobs, by their remaining rounds."""
        some, longer = [view.jobs[job] for job in jobs], memory.expected_longer(jobs)
        costs = memory.seen(view).costs
        problem = grouping_problem(view.cluster, costs, some, longer, memory.late_s)
        problem = within_memory(replace(problem, sends=self.sends), view, jobs, self.least)
        return weighed_speed(problem, left_J, view.weight_J[jobs])
