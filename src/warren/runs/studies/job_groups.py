"""The groups of a run at a time: their iteration times, their use, and their limits.

The run is simulated. For the groups of its policy, COMP and COMM of each job's round are computed
as policies of groups do it (``warren.policy.joint.group_rounds``), from the costs of the run. Hosts
count as they are, and each job has a server on each host of its group. With m hosts
(``warren.solve.job_groups.problem``)::

    (4.1)  T = max(sum_j COMP_j(m), sum_j COMM_j(m), max_j alone_j(m))
    (4.3)  CPU = sum_j COMP_j(m) / T,   network = sum_j COMM_j(m) / T
    (4.4)  the mean of both over all hosts of the cluster; those of no group are idle

Beside T is the simulated time: the mean time between barriers of each job during the group's life.

*Source.* Harmony (dissertation 2020), 4.3.2 and Fig. 4.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.cost.job_groups import Utilization, cluster_utilization
from warren.cost.run_servers import linked_J, server_parts
from warren.model.decision import Question
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.policy.joint.group_rounds import check_jobs, grouping_problem, host_codes_H
from warren.policy.protocol import answers
from warren.report.record import Record
from warren.report.standing_groups import GroupHistory, StandingGroup
from warren.runs.compose import Attend, Options, PreparedRun, simulate
from warren.runs.inputs import renamed
from warren.runs.notices import say
from warren.solve.job_groups.iteration import Limit, iteration_of

INSTEAD: Final = "harmony"
"""The joint policy for a run whose own policies do not form groups."""
_MOST_S: Final = 1e9
_COMMAND: Final = "warren group"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedJob:
    """A round of a job in its group, in seconds; ``simulated_s``: None if too few were simulated.

    ``alone_s``: the time of an iteration on the group's hosts without any other job.
    """

    name: str
    comp_s: float
    comm_s: float
    alone_s: float
    simulated_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPrediction:
    """A group, its predicted iteration and its limit: ``job``, where ``limit`` is one.

    ``use``: (4.3). It stood from ``begin_s`` to ``end_s``.
    """

    hosts: tuple[str, ...]
    jobs: tuple[GroupedJob, ...]
    iteration_s: float
    use: Utilization
    limit: Limit
    job: str | None
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroups:
    """All groups of a run at a time, under ``policy``, which is named for ``question``.

    ``waiting``: present jobs that do not run; ``ungrouped``: jobs that run in no group.
    ``other_servers``: jobs of groups whose servers are on other hosts than the prediction of COMM
    assumes. ``use``: (4.4), over ``hosts``, all of the cluster.
    """

    run: str
    question: str
    policy: str
    at_s: float
    hosts: tuple[str, ...]
    groups: tuple[GroupPrediction, ...]
    waiting: tuple[str, ...]
    ungrouped: tuple[str, ...]
    other_servers: tuple[str, ...]
    use: Utilization


def groups_of_run(
    run: Run, *, joint: str | None = None, at_s: float | None = None, attend: Attend | None = None
) -> RunGroups:
    """Simulate a run and describe the groups that stand at a time.

    Parameters
    ----------
    joint
        The joint policy, in place of the run's policies; None: the run's, or ``harmony`` (which is
        said) if none of them groups.
    at_s
        The time; None: the first at which most jobs are there.

    Raises
    ------
    SpecError
        If a job cannot be grouped: a ring, or a job that does not fit all devices. If no job is
        present at that time, the policy forms no groups, or the run cannot be simulated.
    """
    if at_s is not None and not 0 <= at_s <= _MOST_S:
        message = f"{at_s:g} is no time; allowed: 0 to {_MOST_S:g} seconds"
        raise SpecError(Problem(file=_COMMAND, field="--at", message=message))
    _check_rings(run)
    prepared = _grouping(run, joint)
    check_jobs(run.cluster, prepared.costs, run.workload.jobs, _COMMAND)
    record = simulate(prepared, options=Options(attend=attend))
    return _described(record, at_s)


def _check_rings(run: Run) -> None:
    """Refuse rings here: a policy would allow some that cannot be grouped."""
    rings = [job for job in run.workload.jobs if job.sync == "ring"]
    if rings:
        names = ", ".join(job.name for job in rings[:5])
        message = f"{_COMMAND} groups jobs with parameter servers; rings are: {names}"
        raise SpecError(Problem(file=rings[0].source or run.name, field="sync", message=message))


def _grouping(run: Run, joint: str | None) -> PreparedRun:
    """Return the run under policies that group."""
    prepared = PreparedRun(run=run)
    if joint is None:
        if _groups(prepared):
            return prepared
        joint = INSTEAD
        say(f"{run.name}: no policy of the run groups jobs; joint: {joint} stands in their place")
    # No other policy may be named for a question that a joint policy answers.
    names = {"joint": joint, "group": "isolated", "shape": "static"}
    prepared = PreparedRun(run=renamed(run, names))
    if not _groups(prepared):
        message = f"{joint} does not answer which jobs share hosts"
        raise SpecError(Problem(file="scheduler", field="joint", message=message))
    return prepared


def _groups(prepared: PreparedRun) -> bool:
    """Tell whether a policy of a run answers which jobs share hosts."""
    policies = prepared.named_policies
    return any(Question.GROUP in answers(one) for one in (policies.place, *policies.others))


def _described(record: Record, at_s: float | None) -> RunGroups:
    """Return the groups of a simulation at a time."""
    run, jobs = record.run, record.run.workload.jobs
    arrival_ns_J = np.array([job.arrival_ns for job in jobs], dtype=np.int64)
    standings = GroupHistory(history=record.history, arrival_ns_J=arrival_ns_J)
    at_ns = standings.busiest_ns() if at_s is None else seconds_to_ns(at_s)
    there = standings.there(at_ns)
    if not there:
        first_s, end_s = arrival_ns_J.min() / NS_PER_S, record.history.finish_ns_J.max() / NS_PER_S
        message = (
            f"no job is there at {at_s:g} s; the first comes at {first_s:.6g} s, and the last ends "
            f"at {end_s:.6g} s"
        )
        raise SpecError(Problem(file=_COMMAND, field="--at", message=message))
    standing = standings.standing(at_ns)
    groups = tuple(_predicted(record, standings, one) for one in standing)
    grouped = {job for one in standing for job in one.group.jobs}
    until_ns = standings.next_change_ns(at_ns)
    others = [job for job in there if job not in grouped]
    runs = {job: standings.runs(job, at_ns, until_ns) for job in others}
    scheduler, hosts = run.scheduler, tuple(host.name for host in run.cluster.hosts)
    return RunGroups(
        run=run.name,
        question="group" if scheduler.group != "isolated" else "joint",
        policy=scheduler.group if scheduler.group != "isolated" else str(scheduler.joint),
        at_s=at_ns / NS_PER_S,
        hosts=hosts,
        groups=groups,
        waiting=tuple(jobs[job].name for job in others if not runs[job]),
        ungrouped=tuple(jobs[job].name for job in others if runs[job]),
        other_servers=_other_servers(record, standing, at_ns),
        use=cluster_utilization([(len(one.hosts), one.use) for one in groups], len(hosts)),
    )


def _predicted(record: Record, standings: GroupHistory, one: StandingGroup) -> GroupPrediction:
    """Return the prediction of a group, with the simulated times of its jobs."""
    run, members = record.run, one.group.jobs
    machines = int(host_codes_H(run.cluster)[list(one.group.hosts)].sum())
    jobs = [run.workload.jobs[job] for job in members]
    group = iteration_of(grouping_problem(run.cluster, record.costs, jobs, {}), machines)
    iteration_s, limit = group.iteration_s, group.limit
    columns = (group.comp_s_J.tolist(), group.comm_s_J.tolist(), group.alone_s_J.tolist())
    rounds_ns = [standings.round_ns(job, one.begin_ns, one.end_ns) for job in members]
    rows = zip(jobs, *columns, rounds_ns, strict=True)
    return GroupPrediction(
        hosts=tuple(run.cluster.hosts[host].name for host in one.group.hosts),
        jobs=tuple(
            GroupedJob(
                name=job.name,
                comp_s=comp_s,
                comm_s=comm_s,
                alone_s=alone_s,
                simulated_s=None if round_ns is None else round_ns / NS_PER_S,
            )
            for job, comp_s, comm_s, alone_s, round_ns in rows
        ),
        iteration_s=iteration_s,
        use=Utilization(group.comp_s / iteration_s, group.comm_s / iteration_s),
        limit=limit,
        job=jobs[int(np.argmax(group.alone_s_J))].name if limit == "job" else None,
        begin_s=one.begin_ns / NS_PER_S,
        end_s=one.end_ns / NS_PER_S,
    )


def _other_servers(
    record: Record, standing: Sequence[StandingGroup], at_ns: int
) -> tuple[str, ...]:
    """Return the jobs of groups whose servers are not one on each host of the group."""
    run, found = record.run, []
    linked = linked_J(run, record.costs)
    for one in standing:
        for job in filter(linked.__getitem__, one.group.jobs):
            shapes = [shape for time_ns, shape in record.history.shapes_of(job) if time_ns <= at_ns]
            parts = server_parts(run, record.costs, job, shapes[-1] if shapes else None)
            if {host for host, _ in parts} != set(one.group.hosts):
                found.append(run.workload.jobs[job].name)
    return tuple(found)
