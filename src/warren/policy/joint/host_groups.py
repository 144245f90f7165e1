"""Groups of jobs with the hosts that they share: which hosts each gets, and where tasks go.

The steps of a group's jobs need no command: a device computes one task at a time, in the order in
which tasks are assigned, and states and updates are on their way meanwhile. A job's next round is
assigned when its barrier has passed, so jobs of a group take turns as Harmony's subtasks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import fmean
from typing import Final

import msgspec
import numpy as np
from immutables import Map

from warren.model.costs import IntArray
from warren.model.decision import (
    NOTHING,
    Assignment,
    Decision,
    Group,
    Question,
    Reason,
    Shape,
)
from warren.model.events import (
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksDone,
)
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.round_spread import spread_tasks
from warren.policy.common.round_times import made_ready, may_start
from warren.policy.joint.group_rounds import grouping_problem, host_codes_H, memory_J
from warren.policy.joint.job_profiles import JobProfiles, moving_mean
from warren.policy.joint.naive_start import with_unknown
from warren.solve.job_groups.machine_kinds import digits
from warren.solve.job_groups.problem import NOT_RUN, JobGroupingProblem
from warren.solve.job_groups.regrouping import RunningGroups

ANSWERS: Final = frozenset({Question.SHAPE, Question.GROUP, Question.PLACE})
"""The answers of a policy that gives jobs groups, servers on the hosts of these, and turns."""
TRIGGERS: Final[frozenset[type[Event]]] = frozenset(
    {JobArrived, TasksDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
)
"""After which events a policy has to be asked that keeps groups."""
_UNSETTLED: Final = 2
"""Rounds of a job in a new group that tell nothing."""
_KNOWN_AFTER: Final = 5
"""Rounds of a job in its group after which the time of its round in that group is known."""
_MOVING: Final = 1
"""Rounds of a job in a new group that began in another, and in which its servers may move."""
Known = tuple[Mapping[int, float], Mapping[int, float], JobProfiles | None]
"""``longer``, ``late_s`` and ``profiles``, by which the time of a round is foreseen."""


@dataclass(frozen=True, slots=True)
class HostGroups:
    """Memory of a policy of groups: the groups, and how long tasks take.

    ``longer``: ratio of the times of a job's tasks to those planned; ``late_s``: extra time of a
    round beyond the model where a job had hosts for itself; both by job, moving averages.
    ``rounds``: how many rounds of a job have passed since it is in its group. ``chosen_by``:
    ``expected_longer``, ``late_s`` and ``profiles`` as they were when groups were chosen.

    ``profiles``: costs of jobs as measured, where those that are stated are not used; then
    ``longer`` stays empty. ``grouped``: jobs that are grouped by their costs, or have been;
    ``first``: jobs that came when no job was present; none is grouped before all are known.
    """

    groups: tuple[Group, ...] = ()
    longer: Map[int, float] = field(default_factory=Map)
    late_s: Map[int, float] = field(default_factory=Map)
    rounds: Map[int, int] = field(default_factory=Map)
    chosen_by: Known = (Map(), Map(), None)
    profiles: JobProfiles | None = None
    grouped: frozenset[int] = frozenset()
    first: frozenset[int] = frozenset()

    def after(self, view: View) -> HostGroups:
        """Return it with the events of this instant."""
        seen = self
        for event in view.changes:
            match event:
                case TasksDone():
                    seen = seen._computed(view, event)
                case RoundsDone():
                    seen = seen._passed(view, event)
                case RolledBack():
                    seen = replace(seen, rounds=seen.rounds.set(event.job, 0))
                    if seen.profiles is not None:
                        seen = replace(seen, profiles=seen.profiles.without(event.job))
        return seen

    def seen(self, view: View) -> View:
        """Return the view with measured costs in place of stated ones, where those do not count.

        Their sizes of models stand for times on links: memory goes by those of ``view``.
        """
        if self.profiles is None:
            return view
        return msgspec.structs.replace(view, costs=self.profiles.costs(view))

    def with_first(self, jobs: Sequence[int]) -> HostGroups:
        """Return it with ``jobs``, all that are present, as the first, if others have ended."""
        if self.profiles is None or not self.grouped.isdisjoint(jobs):
            return self
        return replace(self, first=frozenset(jobs)) if self.first.isdisjoint(jobs) else self

    def known_jobs(self, jobs: Sequence[int]) -> list[int]:
        """Return those of the present jobs that can be grouped by their costs."""
        known = [job for job in jobs if self.profiles is None or self.profiles.knows(job)]
        return known if self.first.intersection(jobs).issubset(known) else []

    def of_grouped(self) -> HostGroups:
        """Return it without jobs that are in a group only to be measured."""
        some = (
            Group(tuple(job for job in group.jobs if job in self.grouped), group.hosts)
            for group in self.groups
        )
        return replace(self, groups=tuple(group for group in some if group.jobs))

    def _computed(self, view: View, event: TasksDone) -> HostGroups:
        """Return it with tasks that have ended."""
        if self.profiles is not None:
            return replace(self, profiles=self.profiles.computed(view, event))
        planned_ns = view.costs.comp_ns_JT.item(event.job, view.type_D.item(event.device))
        took_ns = event.busy_ns / (event.rounds * len(event.shards))
        times = took_ns / max(1, planned_ns)
        return replace(self, longer=moving_mean(self.longer, event.job, times))

    def _passed(self, view: View, event: RoundsDone) -> HostGroups:
        """Return it with a barrier that has passed."""
        job = event.job
        rounds = self.rounds.get(job, 0) + event.rounds
        seen = replace(self, rounds=self.rounds.set(job, rounds))
        if self.profiles is not None:
            measured = self.profiles
            settled = rounds > _MOVING or event.round == 0
            measured = measured.passed(view, event) if settled else measured.without(job)
            seen = replace(seen, profiles=measured)
        group = self._group_of(job)
        settled = rounds > _UNSETTLED and view.round_ns_J[job] > 0
        if group is None or group.jobs != (job,) or not settled:
            return seen
        problem = seen._problem(view, job, (seen.longer, {}, seen.profiles))
        code = _code(view, group)
        if len(group.hosts) == 1 and problem.terms.pull_s_J.any():
            # On one host no byte passes a link, which shows nothing of other numbers of hosts.
            return seen
        model_s = float(problem.alone_s_J(code)[0])
        late_s = max(0.0, view.round_ns_J.item(job) / NS_PER_S - model_s)
        return replace(seen, late_s=moving_mean(self.late_s, job, late_s))

    def expected_longer(self, jobs: Iterable[int]) -> dict[int, float]:
        """Return how many times as long tasks compute; of jobs not measured, as others do.

        Processes of hosts take processors from all tasks. If only jobs that have run were known to
        take longer, those that wait would seem to gain by that.
        """
        logs = [log(times) for times in self.longer.values() if times > 0]
        typical = exp(fmean(logs)) if logs else 1.0
        return {job: self.longer.get(job, typical) for job in jobs}

    def is_surprised(self, view: View, by: float) -> bool:
        """Tell whether a round of a job takes other times than those it was grouped by.

        ``by``: the part by which it differs at least. Each job is looked at once in its group.
        """
        for event in view.changes:
            if isinstance(event, RoundsDone) and self.rounds.get(event.job) == _KNOWN_AFTER:
                group = self._group_of(event.job)
                if group is None:
                    continue
                then, now = (
                    self._problem(view, event.job, known).alone_s_J(_code(view, group)).item(0)
                    for known in (self.chosen_by, (self.longer, self.late_s, self.profiles))
                )
                if abs(now - then) > by * then:
                    return True
        return False

    def _group_of(self, job: int) -> Group | None:
        return next((group for group in self.groups if job in group.jobs), None)

    def _problem(self, view: View, job: int, known: Known) -> JobGroupingProblem:
        longer, late_s, profiles = known
        costs = view.costs if profiles is None else profiles.costs(view)
        return grouping_problem(view.cluster, costs, [view.jobs[job]], longer, late_s)

    def running(self, jobs: Sequence[int], code_H: IntArray) -> RunningGroups:
        """Return the groups as ``solve`` has them: by place in ``jobs``; some may be empty.

        ``code_H``: of each host of the cluster, 1 where they count as alike; hosts of no group are
        an empty group, the last.
        """
        group_J = np.full(len(jobs), NOT_RUN, np.int64)
        place = {job: at for at, job in enumerate(jobs)}
        for number, group in enumerate(self.groups):
            for job in group.jobs:
                if job in place:
                    group_J[place[job]] = number
        counts = [int(code_H[list(group.hosts)].sum()) for group in self.groups]
        if sum(counts) < code_H.sum():
            counts.append(int(code_H.sum()) - sum(counts))
        machine_G = np.array(counts, np.int64)
        return RunningGroups(group_J=group_J, machine_G=machine_G)


def _code(view: View, group: Group) -> int:
    """Return the machines of a group, with hosts as they are."""
    return int(host_codes_H(view.cluster)[list(group.hosts)].sum())


Chooser = Callable[[View, HostGroups, list[int]], RunningGroups]
"""Returns the groups of the present jobs, by place in their list."""


def decided(
    view: View,
    memory: HostGroups,
    choose: Chooser,
    *,
    surprise: float | None = None,
    least: int = 1,
    alike: bool = True,
) -> tuple[Decision, HostGroups]:
    """Regroup if a job has come or ended; start the rounds whose barrier has passed.

    If costs are measured, regroup also when those of a job become known. ``surprise``: regroup also
    if the round of a job differs by this part from the time it was grouped by; None: not then.
    ``least``: hosts that the data of each job fill, as ``memory_J`` has it; ``alike``: hosts count
    as alike.
    """
    memory, before = memory.after(view), memory.groups
    changed = membership_changed(view)
    if surprise is not None:
        changed = changed or memory.is_surprised(view, surprise)
    jobs = present_jobs(view) if changed or memory.profiles is not None else []
    memory = memory.with_first(jobs)
    known = memory.known_jobs(jobs)
    decision = NOTHING
    changed = changed or not memory.grouped.issuperset(known)
    if changed:
        code_H = alike_H(view) if alike else host_codes_H(view.cluster)
        groups = _groups(view, memory, choose, known, code_H, least)
        chosen_by = memory.expected_longer(known), memory.late_s, memory.profiles
        memory = replace(memory, chosen_by=chosen_by, grouped=memory.grouped.union(known))
        if groups != before:
            memory = replace(memory, groups=groups, rounds=Map())
        decision = regrouped(view, before, groups)
    dropped = any(isinstance(event, TaskDropped) for event in view.changes)
    assign = started_rounds(memory.seen(view), memory.groups, changed or dropped)
    return (msgspec.structs.replace(decision, assign=assign) if assign else decision), memory


def alike_H(view: View) -> IntArray:
    """Return the codes of hosts that all count as alike."""
    return np.ones(len(view.cluster.hosts), np.int64)


def _groups(
    view: View,
    memory: HostGroups,
    choose: Chooser,
    known: list[int],
    code_H: IntArray,
    least: int,
) -> tuple[Group, ...]:
    """Return the groups of all present jobs: of those that are known by their costs.

    The others are measured beside them, on hosts that hold their data.
    """
    jobs, sizes, hosts = present_jobs(view), view.costs.model_bytes_J, len(code_H)
    model_bytes = {} if sizes is None else {job: int(sizes[job]) for job in jobs}
    before = memory.of_grouped()
    grouping = choose(view, before, known) if known else before.running(known, code_H)
    groups = with_hosts(memory.groups, grouping, known, model_bytes, code_H)
    unknown = [job for job in jobs if job not in known]
    if not unknown:
        return groups
    # On one host no byte passes a link.
    fewest = min(hosts, 2) if view.cluster.network.model == "fluid" else 1
    filled_J = memory_J(view.cluster, view.costs, [view.jobs[job] for job in jobs], least)
    filled = dict(zip(jobs, filled_J.tolist(), strict=True))
    return with_unknown(groups, memory.groups, unknown, hosts, fewest, filled)


def present_jobs(view: View) -> list[int]:
    """Return the jobs that have come and have not ended."""
    jobs: list[int] = np.flatnonzero(view.arrived_J & ~view.done_J).tolist()
    return jobs


def membership_changed(view: View) -> bool:
    """Tell whether a job has come or ended."""
    came = any(isinstance(event, JobArrived) for event in view.changes)
    return came or bool(ended_jobs(view))


def ended_jobs(view: View) -> list[int]:
    """Return the jobs that have ended at this instant."""
    return [
        event.job
        for event in view.changes
        if isinstance(event, (JobFailed, JobCancelled))
        or (isinstance(event, RoundsDone) and event.finished)
    ]


def with_hosts(
    before: tuple[Group, ...],
    grouping: RunningGroups,
    jobs: Sequence[int],
    model_bytes: Mapping[int, int],
    code_H: IntArray,
) -> tuple[Group, ...]:
    """Give each group hosts, where possible those on which its jobs have been.

    The largest group chooses first: hosts from which fewest bytes of its jobs' models would move
    away, then hosts without jobs, then by index; as many of each kind as its code has. ``code_H``:
    of each host.
    """
    present = set(jobs)
    hosts_of = {job: group.hosts for group in before for job in group.jobs if job in present}
    hosts, stride_K = len(code_H), np.unique(code_H)
    count_GK = [digits(code, stride_K) for code in grouping.machine_G.tolist()]
    free = list(range(hosts))
    members = [
        tuple(jobs[place] for place in np.flatnonzero(grouping.group_J == number).tolist())
        for number in range(len(grouping.machine_G))
    ]
    chosen: dict[int, Group] = {}
    for number in np.argsort([-sum(count_K) for count_K in count_GK], kind="stable").tolist():
        if not members[number]:
            continue
        score = np.zeros(hosts)
        for job in members[number]:
            score[list(hosts_of.get(job, ()))] += 1 + model_bytes.get(job, 0)
        taken = {
            host for job, some in hosts_of.items() if job not in members[number] for host in some
        }
        order = sorted(free, key=lambda host: (-score[host], host in taken, host))
        picked = [
            host
            for stride, count in zip(stride_K.tolist(), count_GK[number], strict=True)
            for host in [one for one in order if code_H[one] == stride][:count]
        ]
        free = [host for host in free if host not in picked]
        chosen[number] = Group(members[number], tuple(sorted(picked)))
    return tuple(chosen[number] for number in sorted(chosen))


def regrouped(view: View, before: tuple[Group, ...], groups: tuple[Group, ...]) -> Decision:
    """Return the answer that puts new groups in the place of others, with servers on all hosts."""
    old = {job: group.hosts for group in before for job in group.jobs}
    shapes = {
        job: Shape(None, group.hosts)
        for group in groups
        for job in group.jobs
        if old.get(job) != group.hosts
    }
    waits = set(present_jobs(view)) - {job for group in groups for job in group.jobs}
    reasons = {
        job: Reason.WAITING_FOR_TURN for job in sorted(waits) if job in old or _has_come(view, job)
    }
    if groups == before and not reasons:
        return NOTHING
    return Decision(groups=groups, shapes=shapes, reasons=reasons)


def started_rounds(view: View, groups: tuple[Group, ...], everyone: bool) -> tuple[Assignment, ...]:
    """Assign the next round of each job of a group whose barrier has passed.

    ``everyone``: look at all jobs, not only at those of this instant's events.
    """
    of_job = {job: group for group in groups for job in group.jobs}
    ready: Iterable[int] = of_job if everyone else made_ready(view)
    queued_D = view.queued_D.copy()
    assignments: list[Assignment] = []
    for job in dict.fromkeys(ready):
        if job in of_job and may_start(view, job):
            devices = np.flatnonzero(np.isin(view.hosts.host_D, of_job[job].hosts))
            given = spread_tasks(view, job, devices, queued_D)
            for one in given:
                queued_D[one.device] += 1
            assignments += given
    return tuple(assignments)


def _has_come(view: View, job: int) -> bool:
    return any(isinstance(event, JobArrived) and event.job == job for event in view.changes)


def explanation(view: View, memory: HostGroups, job: int, waits: str) -> str:
    """Say which jobs a job shares hosts with; ``waits``: the text for a job in no group."""
    if not view.arrived_J[job]:
        return "has not arrived yet"
    unknown = "" if job in memory.grouped else "its costs are measured: "
    for group in memory.groups:
        if job in group.jobs:
            others = ", ".join(view.jobs[one].name for one in group.jobs if one != job)
            hosts = ", ".join(view.cluster.hosts[host].name for host in group.hosts)
            return unknown + (
                f"shares {hosts} with {others}" if others else f"has {hosts} for itself"
            )
    return waits
