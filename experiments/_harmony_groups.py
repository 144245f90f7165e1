"""Jobs in groups that share machines, in virtual time by Harmony's own model of an iteration.

Each job of a group does an iteration in the T_g_itr of (4.1); between two events (a job comes or
ends) nothing changes. What is decided sees profiles that may be wrong; time goes by the true ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from warren.cost.job_groups import comp_s_J, group_iteration_s
from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem
from warren.solve.job_groups.published import published_grouping
from warren.solve.job_groups.regrouping import (
    WORTH,
    EndedMember,
    RunningGroups,
    utilization_of,
    with_new_job,
    without_job,
)
from warren.solve.job_groups.solve import grouped

Floats = np.ndarray
MACHINE_GB: Final = 32.0
"""An m4.2xlarge (4.4.2)."""
WORK: Final = 100_000
KICKS: Final = 10
"""Of the search for a grouping; see ``solve/job_groups/solve.py``."""
FEW: Final = 1e-3
"""What each job that shares a machine costs of U: among nearly equal groupings few jobs."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """All jobs of a run, by column: true times, iterations, arrivals, and memory in machines.

    ``profile``: what is multiplied onto the true times to get what decisions see, (2, jobs).
    """

    comp_machine_s: Floats
    net_s: Floats
    iterations: Floats
    arrival_s: Floats
    least_machines: np.ndarray
    machines: int
    profile: Floats

    def problem(self, present: np.ndarray) -> JobGroupingProblem:
        """The jobs that are there, as a decision sees them."""
        return JobGroupingProblem(
            comp_machine_s_J=self.comp_machine_s[present] * self.profile[0, present],
            net_s_J=self.net_s[present] * self.profile[1, present],
            machines=self.machines,
            job_weight=FEW,
        )


@dataclass(kw_only=True)
class Outcome:
    """When each job ended, and sums over time of what was busy."""

    end_s: Floats
    cpu_s: float = 0.0
    net_s: float = 0.0
    jobs_s: float = 0.0
    groups_s: float = 0.0
    moves: int = 0
    regroupings: int = 0

    def of(self, jobs: Jobs) -> dict[str, float]:
        """The figures of a run."""
        makespan = float(self.end_s.max() - jobs.arrival_s.min())
        return {
            "jct_s": float((self.end_s - jobs.arrival_s).mean()),
            "makespan_s": makespan,
            "cpu": self.cpu_s / makespan,
            "net": self.net_s / makespan,
            "jobs": self.jobs_s / makespan,
            "groups": self.groups_s / makespan,
            "moves": float(self.moves),
            "regroupings": float(self.regroupings),
        }


@dataclass(kw_only=True)
class State:
    """Who is there, and in which groups; jobs are numbered as all of them are."""

    jobs: Jobs
    left: Floats
    present: list[int] = field(default_factory=list)
    running: RunningGroups = field(
        default_factory=lambda: RunningGroups(
            group_J=np.zeros(0, np.int64), machine_G=np.zeros(0, np.int64)
        )
    )

    @property
    def problem(self) -> JobGroupingProblem:
        """The jobs that are there, as a decision sees them."""
        return self.jobs.problem(np.array(self.present))


Rule = Callable[[State, list[int], EndedMember | None], RunningGroups]
"""Answers an event: the places of the jobs that have come, or the one that has ended."""


def simulate(jobs: Jobs, rule: Rule, pause_s: float = 0.0) -> Outcome:
    """Run all jobs to their ends; one that goes to other machines loses ``pause_s``."""
    state = State(jobs=jobs, left=jobs.iterations.astype(float).copy())
    outcome = Outcome(end_s=np.full(len(jobs.net_s), np.nan))
    to_come = list(np.argsort(jobs.arrival_s, kind="stable"))
    now_s = float(jobs.arrival_s.min())
    while to_come or state.present:
        rate = rates(state)
        busy = rate > 0
        present = np.array(state.present, dtype=np.int64)
        spent_s = np.full(len(present), np.inf)
        spent_s[busy] = state.left[present][busy] / rate[busy]
        next_s = now_s + spent_s.min(initial=np.inf)
        arrival_s = jobs.arrival_s[to_come[0]] if to_come else np.inf
        if not np.isfinite(min(next_s, arrival_s)):
            raise RuntimeError("jobs wait, and nobody runs")
        until_s = float(min(next_s, arrival_s))
        _account(state, outcome, until_s - now_s)
        state.left[present] -= rate * (until_s - now_s)
        now_s = until_s
        before = groups_by_job(state)
        if arrival_s <= next_s:
            came = []
            while to_come and jobs.arrival_s[to_come[0]] <= now_s:
                came.append(len(state.present))
                state.present.append(int(to_come.pop(0)))
            waits = np.append(state.running.group_J, [NOT_RUN] * len(came))
            state.running = replace(state.running, group_J=waits)
            state.running = rule(state, came, None)
        else:
            place = int(np.argmin(spent_s))
            job = state.present.pop(place)
            outcome.end_s[job] = now_s
            was = int(state.running.group_J[place])
            rest = np.delete(state.running.group_J, place)
            state.running = replace(state.running, group_J=rest)
            ended = EndedMember(
                comp_machine_s=float(jobs.comp_machine_s[job] * jobs.profile[0, job]),
                net_s=float(jobs.net_s[job] * jobs.profile[1, job]),
                group=was,
            )
            if state.present:
                state.running = rule(state, [], ended)
        _move(state, outcome, before, pause_s)
    return outcome


def rates(state: State) -> Floats:
    """Iterations a second of each job that is there, by (4.1) and the true times."""
    found = np.zeros(len(state.present))
    for group, machines in enumerate(state.running.machine_G.tolist()):
        members = np.flatnonzero(state.running.group_J == group)
        if len(members):
            found[members] = 1 / iteration_s(state, members, machines)
    return found


def iteration_s(state: State, members: np.ndarray, machines: int) -> float:
    """An iteration of a group."""
    jobs = np.array(state.present)[members]
    comp = comp_s_J(state.jobs.comp_machine_s[jobs], machines)
    return group_iteration_s(comp, state.jobs.net_s[jobs])


def groups_by_job(state: State) -> dict[int, tuple[int, frozenset[int]]]:
    """Of each job that runs: its group's machines, and who is in the group."""
    found: dict[int, tuple[int, frozenset[int]]] = {}
    for group, machines in enumerate(state.running.machine_G.tolist()):
        members = np.flatnonzero(state.running.group_J == group)
        jobs = frozenset(state.present[member] for member in members.tolist())
        found |= dict.fromkeys(jobs, (machines, jobs))
    return found


def _account(state: State, outcome: Outcome, span_s: float) -> None:
    total = state.jobs.machines
    for group, machines in enumerate(state.running.machine_G.tolist()):
        members = np.flatnonzero(state.running.group_J == group)
        if not len(members):
            continue
        jobs = np.array(state.present)[members]
        whole = iteration_s(state, members, machines)
        comp = state.jobs.comp_machine_s[jobs].sum() / machines
        outcome.cpu_s += span_s * machines / total * comp / whole
        outcome.net_s += span_s * machines / total * state.jobs.net_s[jobs].sum() / whole
        outcome.jobs_s += span_s * len(members)
        outcome.groups_s += span_s


def _move(
    state: State, outcome: Outcome, before: dict[int, tuple[int, frozenset[int]]], pause_s: float
) -> None:
    """Count the jobs that go on with other machines than they had, and let them lose time."""
    after, rate = groups_by_job(state), rates(state)
    moved = [job for job in after if job in before and before[job][0] != after[job][0]]
    for job in moved:
        state.left[job] += pause_s * rate[state.present.index(job)]
    outcome.moves += len(moved)
    outcome.regroupings += bool(moved)


# Rules.


def harmony(patience: int = 1) -> Rule:
    """Harmony's regrouping with its Algorithm 1; where nobody runs that groups all that are there.

    ``patience``: 1 as printed; see ``solve/job_groups/published.py``.
    """

    def group(problem: JobGroupingProblem, _: np.ndarray) -> JobGrouping:
        return published_grouping(problem, patience)

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        if not (state.running.group_J != NOT_RUN).any():
            return _all_anew(group(state.problem, np.arange(len(state.present))))
        running = state.running
        for job in came:
            running = with_new_job(state.problem, running, job)
        return running if ended is None else without_job(state.problem, running, ended, group)

    return rule


def busiest(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
    """Group all jobs anew for the largest U; leave them where that gains too little."""
    return _worth_it(state, grouped(state.problem, work=WORK, kicks=KICKS))


def shortest_first(share: float) -> Rule:
    """Group the shortest jobs anew, as few of them as give ``share`` of the largest U.

    Short is what has the least COMP left, on one machine. Who runs is left where he is if that
    loses less than it is worth and nobody who is to run waits.
    """

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        problem, jobs = state.problem, np.array(state.present)
        order = np.argsort(problem.comp_machine_s_J * state.left[jobs], kind="stable")
        found = [_of_some(problem, np.sort(order[:count])) for count in _counts(len(order))]
        most = max(one.value for one in found)
        chosen = next(one for one in found if one.value >= share * most)
        runs = state.running.group_J != NOT_RUN
        if not ((chosen.group_J != NOT_RUN) & ~runs).any():
            return _worth_it(state, chosen)
        return _all_anew(chosen)

    return rule


def _counts(jobs: int) -> list[int]:
    """Numbers of jobs that are tried, a third more each."""
    found, count = [], 4
    while count < jobs:
        found.append(count)
        count = -(-4 * count // 3)
    return [*found, jobs]


def _of_some(problem: JobGroupingProblem, some: np.ndarray) -> JobGrouping:
    """A grouping of some of the jobs; the others wait."""
    part = replace(
        problem, comp_machine_s_J=problem.comp_machine_s_J[some], net_s_J=problem.net_s_J[some]
    )
    found = grouped(part, work=WORK, kicks=KICKS)
    group_J = np.full(len(problem.net_s_J), NOT_RUN, np.int64)
    group_J[some] = found.group_J
    return replace(found, group_J=group_J)


def _worth_it(state: State, found: JobGrouping) -> RunningGroups:
    now = utilization_of(state.problem, state.running)
    return _all_anew(found) if found.value > now * (1 + WORTH) else state.running


def _all_anew(found: JobGrouping) -> RunningGroups:
    return RunningGroups(group_J=found.group_J, machine_G=found.machine_G)


def isolated(order: str = "arrival") -> Rule:
    """Give each job machines of its own.

    In the order of arrival, or ``shortest`` first (the least COMP left), each gets as few as hold
    its data, which keeps its CPUs busiest, while there are some (who does not fit is passed by);
    then each further machine goes where it makes iterations most faster.
    """

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        jobs, present, problem = state.jobs, np.array(state.present), state.problem
        comp, net = problem.comp_machine_s_J, problem.net_s_J
        key = comp * state.left[present] if order == "shortest" else jobs.arrival_s[present]
        least = np.minimum(jobs.least_machines[present], jobs.machines)
        group_J = np.full(len(present), NOT_RUN, np.int64)
        machines: list[int] = []
        free = jobs.machines
        for place in np.argsort(key, kind="stable").tolist():
            if least[place] <= free:
                group_J[place] = len(machines)
                machines.append(int(least[place]))
                free -= int(least[place])
        runs = np.flatnonzero(group_J != NOT_RUN)
        for _ in range(free):
            now = np.array(machines)[group_J[runs]]
            gain = np.log((comp[runs] / now + net[runs]) / (comp[runs] / (now + 1) + net[runs]))
            machines[int(group_J[runs[int(np.argmax(gain))]])] += 1
        return RunningGroups(group_J=group_J, machine_G=np.array(machines, np.int64))

    return rule
