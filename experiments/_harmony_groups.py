"""Jobs in groups that share machines, in virtual time by Harmony's own model of an iteration.

Each job of a group does an iteration in the T_g_itr of (4.1); between two events (a job comes or
ends) nothing changes. What is decided sees profiles that may be wrong; time goes by the true ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from warren.cost.job_groups import comp_s_J, group_iteration_s
from warren.solve.job_groups.isolated import isolated_machines
from warren.solve.job_groups.problem import NOT_RUN, JobGrouping, JobGroupingProblem, grouping_of
from warren.solve.job_groups.published import Intensity, grouping_of_first, published_grouping
from warren.solve.job_groups.regrouping import (
    WORTH,
    EndedMember,
    RunningGroups,
    utilization_of,
    with_new_job,
    with_waiting,
    without_job,
)
from warren.solve.job_groups.solve import grouped
from warren.solve.job_groups.worth import LEFT_POWER, iteration_worth_J

Floats = np.ndarray
_DONE: Final = 1e-9
"""Of its iterations: a job of which less is left has ended."""
_SAME_S: Final = 1e-9
"""Jobs that come so close to each other come at one instant."""
MACHINE_GB: Final = 32.0
"""An m4.2xlarge (4.4.2)."""
WORK: Final = 50_000
KICKS: Final = 5
"""Of the search for a grouping; see ``solve/job_groups/solve.py``."""
SPEED_WORK: Final = 1_000_000
"""Of that for the largest weighed speed."""
ALONE_MACHINES: Final = 16
"""Machines of a job alone in the paper's profile of a job (Fig. 4.9)."""
FEW: Final = 1e-3
"""What each job that shares a machine costs of U: among nearly equal groupings few jobs."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """All jobs of a run, by column: true times, iterations, arrivals, and memory in machines.

    ``profile``: what is multiplied onto the true times to get what decisions see, (2, jobs).
    ``filled_machines``: what data fill of the machines of a group; None: they are read again from
    disk, and all fit.
    """

    comp_machine_s: Floats
    net_s: Floats
    iterations: Floats
    arrival_s: Floats
    least_machines: np.ndarray
    machines: int
    profile: Floats
    filled_machines: Floats | None = None

    def problem(self, present: np.ndarray) -> JobGroupingProblem:
        """The jobs that are there, as a decision sees them."""
        return JobGroupingProblem(
            comp_machine_s_J=self.comp_machine_s[present] * self.profile[0, present],
            net_s_J=self.net_s[present] * self.profile[1, present],
            machines=self.machines,
            memory_J=None if self.filled_machines is None else self.filled_machines[present],
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
    """Run all jobs to their ends.

    A job loses ``pause_s`` when it goes on in another group's machines, or again after it has
    waited: so many seconds of iterations at the rate that it then has.
    """
    state = State(jobs=jobs, left=jobs.iterations.astype(float).copy())
    outcome = Outcome(end_s=np.full(len(jobs.net_s), np.nan))
    to_come = np.argsort(jobs.arrival_s, kind="stable").tolist()
    now_s = float(jobs.arrival_s.min())
    while to_come or state.present:
        rate, present = rates(state), np.array(state.present, dtype=np.int64)
        busy = rate > 0
        left_s = np.full(len(present), np.inf)
        left_s[busy] = state.left[present][busy] / rate[busy]
        span_s = float(left_s.min(initial=np.inf))
        if to_come:
            span_s = min(span_s, max(0.0, float(jobs.arrival_s[to_come[0]]) - now_s))
        if not np.isfinite(span_s):
            raise RuntimeError("jobs wait, and nobody runs")
        _account(state, outcome, span_s)
        state.left[present] -= rate * span_s
        now_s += span_s
        _end_jobs(state, outcome, now_s, rule, pause_s)
        if to_come and jobs.arrival_s[to_come[0]] <= now_s + _SAME_S:
            came = []
            while to_come and jobs.arrival_s[to_come[0]] <= now_s + _SAME_S:
                came.append(to_come.pop(0))
            _come(state, outcome, came, rule, pause_s)
    return outcome


def _end_jobs(state: State, outcome: Outcome, now_s: float, rule: Rule, pause_s: float) -> None:
    """Let all jobs that are done go, then answer the end of each."""
    jobs = state.jobs
    done = [job for job in state.present if state.left[job] <= _DONE * jobs.iterations[job]]
    before, ended = groups_by_job(state), []
    for job in done:
        place = state.present.index(job)
        ended.append(EndedMember(
            comp_machine_s=float(jobs.comp_machine_s[job] * jobs.profile[0, job]),
            net_s=float(jobs.net_s[job] * jobs.profile[1, job]),
            group=int(state.running.group_J[place]),
        ))  # fmt: skip
        outcome.end_s[job] = now_s
        state.present.pop(place)
        rest = np.delete(state.running.group_J, place)
        state.running = replace(state.running, group_J=rest)
    # Where groups have been made anew for the first of several, there is none to repair.
    machines = state.running.machine_G
    for one in ended:
        if state.present and state.running.machine_G is machines:
            state.running = rule(state, [], one)
    if done:
        _move(state, outcome, before, pause_s)


def _come(state: State, outcome: Outcome, came: list[int], rule: Rule, pause_s: float) -> None:
    """Let jobs come: all at once where nobody runs, else one after the other."""
    before = groups_by_job(state)
    runs = bool((state.running.group_J != NOT_RUN).any())
    for some in [[job] for job in came] if runs else [came]:
        places = list(range(len(state.present), len(state.present) + len(some)))
        state.present += some
        waits = np.append(state.running.group_J, [NOT_RUN] * len(some))
        state.running = replace(state.running, group_J=waits)
        state.running = rule(state, places, None)
    _move(state, outcome, before, pause_s)


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
    """Count the jobs that go on elsewhere, or again, and let them lose time.

    A group stays where it was if it has as many machines as one before with one of its jobs.
    """
    running = state.running
    if state.present and not state.problem.fits(running.group_J, running.machine_G):
        raise RuntimeError("the data of a group do not fit on its machines")
    after, rate = groups_by_job(state), rates(state)
    begun = state.left < state.jobs.iterations
    moved = []
    for job, (machines, members) in after.items():
        old = before.get(job)
        stays = old is not None and old[0] == machines and bool(old[1] & members)
        if not stays and (old is not None or begun[job]):
            moved.append(job)
    for job in moved:
        state.left[job] += pause_s * rate[state.present.index(job)]
    outcome.moves += len(moved)
    outcome.regroupings += bool(moved)


# Rules.


Order = Literal["given", "arrival", "shortest", "longest"]
"""The order of J in Algorithm 1: as it comes, by arrival, or by the time of an iteration."""
Compared = Literal["one number", "either part"]
"""What has to grow for Algorithm 1 to go on: U as one number, or one of its two parts."""


def harmony(
    patience: int = 1,
    intensity: Intensity = "ratio",
    *,
    waiting_first: bool = True,
    order: Order = "given",
    compared: Compared = "one number",
) -> Rule:
    """Harmony's regrouping with its Algorithm 1; where nobody runs that groups all that are there.

    ``patience``: 1 as printed; see ``solve/job_groups/published.py``. ``order``, ``compared``: what
    the paper leaves open.
    """

    def group(problem: JobGroupingProblem, places: np.ndarray) -> JobGrouping:
        order_J = _order_of(problem, places, order)
        ordered = problem.part(order_J)
        if compared == "either part":
            found = _while_either_grows(ordered, intensity)
        else:
            found = published_grouping(ordered, patience, intensity)
        back_J = np.argsort(order_J)
        return grouping_of(problem, found.group_J[back_J], found.machine_G)

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        if not (state.running.group_J != NOT_RUN).any():
            return RunningGroups.of(group(state.problem, np.arange(len(state.present))))
        running = state.running
        for job in came:
            running = with_new_job(state.problem, running, job)
        if ended is None:
            return running
        return without_job(state.problem, running, ended, group, waiting_first=waiting_first)

    return rule


def _order_of(problem: JobGroupingProblem, places: np.ndarray, order: Order) -> np.ndarray:
    """The jobs of a problem in an order; ``places``: which came first."""
    took_s = problem.comp_machine_s_J / ALONE_MACHINES + problem.net_s_J
    key = {
        "given": np.arange(len(places)), "arrival": places, "shortest": took_s, "longest": -took_s,
    }[order]  # fmt: skip
    return np.argsort(key, kind="stable")


def _while_either_grows(problem: JobGroupingProblem, intensity: Intensity) -> JobGrouping:
    """Algorithm 1 that goes on while CPU or network is used more, U being two numbers."""
    best = grouping_of_first(problem, 1, intensity)
    for count in range(2, len(problem.net_s_J) + 1):
        found = grouping_of_first(problem, count, intensity)
        if found.cpu <= best.cpu and found.net <= best.net:
            break
        best = found
    return best


def naive(groups: int, seed: int) -> Rule:
    """Put jobs into so many groups on equal parts of the machines, whoever is there already.

    Who waits comes in an order that is drawn, to the group with the fewest jobs of those where its
    data fit, and nobody leaves. Machines of a group that nobody can join go to the others alike.
    """

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        running = state.running
        runs = (running.group_J != NOT_RUN).any()
        slots = len(running.machine_G) if runs else groups
        order = np.random.default_rng([seed, 3]).permutation(len(state.jobs.net_s))
        group_J = _joined(state, running.group_J, slots, order[np.array(state.present)])
        there, group_J[group_J != NOT_RUN] = np.unique(
            group_J[group_J != NOT_RUN], return_inverse=True
        )
        if len(there) < slots:
            group_J = _joined(state, group_J, len(there), order[np.array(state.present)])
        return RunningGroups(group_J=group_J, machine_G=_alike(state.jobs.machines, len(there)))

    return rule


def _joined(state: State, group_J: np.ndarray, slots: int, rank_J: np.ndarray) -> np.ndarray:
    """The groups with those who wait, as far as their data fit."""
    problem, group_J = state.problem, group_J.copy()
    machine_G = _alike(problem.machines, slots)
    for job in np.argsort(rank_J).tolist():
        if group_J[job] != NOT_RUN:
            continue
        size_G = np.bincount(group_J[group_J != NOT_RUN], minlength=slots)
        for group in np.argsort(size_G, kind="stable").tolist():
            group_J[job] = group
            if problem.fits(group_J, machine_G):
                break
            group_J[job] = NOT_RUN
    return group_J


def _alike(machines: int, groups: int) -> np.ndarray:
    """Equal parts of the machines; where that does not come out even the first have one more."""
    return machines // groups + (np.arange(groups) < machines % groups).astype(np.int64)


def busiest(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
    """Group all jobs anew for the largest U; leave them where that gains too little."""
    found = grouped(state.problem, work=WORK, kicks=KICKS)
    return _worth_it(state.problem, state.running, found)


def weighed(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
    """Group all jobs anew for the largest weighed speed; leave them where that gains too little."""
    return _weighed(state, LEFT_POWER)


def weighed_without_lengths(
    state: State, came: list[int], ended: EndedMember | None
) -> RunningGroups:
    """The same, but no job counts more for having less left."""
    return _weighed(state, 0.0)


def _weighed(state: State, power: float) -> RunningGroups:
    problem = state.problem
    worth = iteration_worth_J(problem, state.left[np.array(state.present)], power=power)
    problem = replace(problem, worth_J=worth, busy_weight=0.0, job_weight=1e-9)
    running = with_waiting(problem, state.running)
    return _worth_it(problem, running, grouped(problem, work=SPEED_WORK))


def alone_by_weighed_speed(
    state: State, came: list[int], ended: EndedMember | None
) -> RunningGroups:
    """Give machines to jobs for the largest weighed speed, no two of them on one machine.

    A job's speed is concave in its machines, so the step that gains most is always right.
    """
    problem, jobs = state.problem, len(state.present)
    worth = iteration_worth_J(problem, state.left[np.array(state.present)])
    machine_J = np.zeros(jobs, np.int64)
    for _ in range(problem.machines):
        comp_J = problem.comp_machine_s_J
        now_J, more_J = (
            count_J / (comp_J + count_J * problem.net_s_J) for count_J in (machine_J, machine_J + 1)
        )
        machine_J[np.argmax(worth * (more_J - now_J))] += 1
    runs_J = machine_J > 0
    group_J = np.full(jobs, NOT_RUN, np.int64)
    group_J[runs_J] = np.arange(int(runs_J.sum()))
    found = RunningGroups(group_J=group_J, machine_G=machine_J[runs_J])
    problem = replace(problem, worth_J=worth, busy_weight=0.0, job_weight=0.0)
    better = utilization_of(problem, found) > utilization_of(problem, state.running) * (1 + WORTH)
    return found if better else state.running


def _worth_it(
    problem: JobGroupingProblem, running: RunningGroups, found: JobGrouping
) -> RunningGroups:
    now = utilization_of(problem, running)
    return RunningGroups.of(found) if found.value > now * (1 + WORTH) else running


def isolated(order: str = "arrival", *, reloads: bool = False) -> Rule:
    """Give each job machines of its own, and let it run to its end.

    Who waits begins in the order of arrival, of ``fewest`` machines, or of the ``shortest`` (the
    least COMP and COMM left, on 16 machines), on as few machines as hold its data, which keeps its
    CPUs busiest; who does not fit is passed by. Then each further machine goes where it makes
    iterations most faster. Only ``shortest`` stops jobs that run.
    """

    def rule(state: State, came: list[int], ended: EndedMember | None) -> RunningGroups:
        jobs, present, problem = state.jobs, np.array(state.present), state.problem
        comp, net = problem.comp_machine_s_J, problem.net_s_J
        least = np.minimum(jobs.least_machines[present], jobs.machines)
        if reloads:
            least = np.ones_like(least)
        key = {
            "arrival": jobs.arrival_s[present],
            "fewest": least,
            "shortest": (comp / ALONE_MACHINES + net) * state.left[present],
        }[order]
        runs = (state.running.group_J != NOT_RUN) & (order != "shortest")
        in_order = np.argsort(key, kind="stable")
        return RunningGroups.of(isolated_machines(problem, least, in_order, runs))

    return rule
