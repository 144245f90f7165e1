"""Isolated: hosts of its own for each job, with a server and tasks on all of them.

What
    Jobs get the fewest hosts that hold their data (``least``, or as ``cost.data`` and the hosts'
    memory say), in order of arrival, and keep at least these until they end; a job that does not
    fit is passed by. The other hosts go where they make rounds most faster. ``order: shortest``
    takes jobs with the least left first, and stops jobs that run.
Source
    Harmony (dissertation 2020), 4.4.1, "Isolated".
Differs
    Hosts count as alike. The paper says that it makes the CPUs as busy as can be, and no more; see
    ``warren.solve.job_groups.isolated``. ``shortest`` is ours, and knows the rounds left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

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
    explanation,
)
from warren.solve.job_groups.isolated import isolated_machines
from warren.solve.job_groups.problem import NOT_RUN
from warren.solve.job_groups.regrouping import RunningGroups
from warren.solve.job_groups.worth import fastest_s_J

_ORDERS: Final = ("arrival", "shortest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """Give each job hosts of its own, ``least`` or more of them."""

    least: int = 1
    order: str = "arrival"

    name: ClassVar[str] = "isolated"
    source: ClassVar[str] = "Harmony (dissertation 2020) 4.4.1"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    checks_all_jobs: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = ANSWERS
    triggers: ClassVar[frozenset[type[Event]]] = TRIGGERS

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.least < 1:
            raise ValueError(f"least is {self.least}; allowed: 1 and more")
        if self.order not in _ORDERS:
            raise ValueError(f"order is {self.order!r}; allowed: {', '.join(_ORDERS)}")

    def initial(self, view: View) -> HostGroups:
        """Return a memory of no groups."""
        check_groupable(view, self.name)
        return HostGroups()

    def decide(self, view: View, memory: HostGroups) -> tuple[Decision, HostGroups]:
        """Assign hosts again if a job has come or ended; start rounds."""
        return decided(view, memory, self._choose)

    def explain(self, view: View, memory: HostGroups, job: int) -> str:
        """Say in one sentence why the job is where it is."""
        return explanation(view, memory, job, "waits: other jobs have the hosts")

    def _choose(self, view: View, memory: HostGroups, jobs: list[int]) -> RunningGroups:
        some = [view.jobs[job] for job in jobs]
        costs, late_s = view.costs, memory.late_s
        problem = grouping_problem(view.cluster, costs, some, memory.longer, late_s).alike
        runs_J = memory.running(jobs, alike_H(view)).group_J != NOT_RUN
        order_J = np.argsort(view.arrival_ns_J[jobs], kind="stable")
        if self.order == "shortest":
            left_J = (view.rounds_J[jobs] - view.round_J[jobs]) * fastest_s_J(problem)
            order_J, runs_J = np.argsort(left_J, kind="stable"), np.zeros_like(runs_J)
        problem = within_memory(problem, view, jobs, self.least)
        grouping = isolated_machines(problem, problem.leasts_J, order_J, runs_J)
        return RunningGroups.of(grouping)
