"""Rounds of jobs in groups as a problem of job grouping: COMP, COMM and the worth of a job.

A machine of ``warren.solve.job_groups`` is a host with all its devices. Hosts that differ in their
devices or links are machines of several kinds; for rules that count them as alike each is also
given as fast as their mean. A job has a server on each host of its group, of an equal part of the
model, so its states and updates pass links as ``RoundTerms`` has it; the step of its servers counts
as COMM, too, as its profile has it, where there are more hosts than one. A job whose bytes are on
no link (``network`` is not ``fluid``, or its model's size is unknown) has T^s a round for COMM.
Where hosts are alike each device counts as pulling, though in a round of fewer tasks than devices
some do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from warren.cost.run_rings import host_of_D
from warren.model.cluster import Cluster
from warren.model.costs import CostTable, FloatArray, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.solve.job_groups.machine_kinds import UnequalMachines, is_codable, strides
from warren.solve.job_groups.problem import WHOLE, JobGroupingProblem, RoundTerms


def check_groupable(view: View, policy: str) -> None:
    """Refuse runs that a policy of groups cannot schedule.

    Raises SpecError as ``check_jobs``, for a grain, or for a job whose data no group could hold.

    A stretch of several rounds holds its devices, so no other job would take a turn.
    """
    if view.grain.rounds != 1:
        message = f"{policy} lets jobs take turns round by round; allowed: grain: 1"
        raise SpecError(Problem(file="run", field="grain", message=message))
    check_jobs(view.cluster, view.costs, view.jobs, policy)
    room, hosts = _room_bytes(view.cluster, view.costs), len(view.cluster.hosts)
    for job in view.jobs:
        data = _data_bytes(job)
        if room is not None and data > room * hosts:
            message = (
                f"{policy} keeps the data of {job.name!r}, {data} bytes, in memory; {hosts} hosts "
                f"hold {room * hosts} bytes beside the models; allowed: more hosts or memory, or "
                "local.spill: true"
            )
            raise SpecError(Problem(file=job.source or "jobs", field="cost.data", message=message))


def check_jobs(cluster: Cluster, costs: CostTable, jobs: Sequence[Job], policy: str) -> None:
    """Refuse hosts and jobs that cannot be grouped.

    Raises
    ------
    SpecError
        If a host has no device, a job does not fit every device or is a ring, or a host has less
        memory than the models of all jobs.
    """
    for host in cluster.hosts:
        if not host.devices:
            message = f"{policy} lets each job run on any host; {host.name!r} has no device"
            raise SpecError(Problem(file="cluster", field="hosts", message=message))
    for job in jobs:
        if job.sync == "ring":
            message = f"{policy} groups jobs with parameter servers; {job.name!r} is a ring"
            raise SpecError(Problem(file=job.source or "jobs", field="sync", message=message))
        kinds = sorted(set(cluster.type_of_device))
        lacking = [kind for kind in kinds if not costs.fits_JT[job.index, kind]]
        if lacking:
            names = ", ".join(cluster.type_names[kind] for kind in lacking)
            message = f"{policy} lets each job run on any host; {job.name!r} does not fit {names}"
            raise SpecError(Problem(file=job.source or "jobs", field=job.name, message=message))
    models, least = _model_bytes(costs), _least_memory_bytes(cluster)
    if least is not None and models > least:
        message = (
            f"{policy} may put the models of all jobs, {models} bytes, on one host; the smallest "
            f"has {least} bytes of memory"
        )
        raise SpecError(Problem(file="cluster", field="hosts.memory", message=message))


_NONE: Final[Mapping[int, float]] = {}


def grouping_problem(
    cluster: Cluster,
    costs: CostTable,
    jobs: Sequence[Job],
    longer: Mapping[int, float] = _NONE,
    late_s: Mapping[int, float] = _NONE,
) -> JobGroupingProblem:
    """Return the times of a round of each of these jobs, on all hosts of a cluster.

    Parameters
    ----------
    longer
        How many times as long as ``costs`` says tasks of a job compute, by its index, where that
        was measured.
    late_s
        Extra time of a round of a job beyond the model, by its index, where it was measured: it
        counts as COMM; if the job's bytes pass links, only on several hosts.
    """
    task_s_J = np.array([_task_s(cluster, costs, job) * longer.get(job.index, 1.0) for job in jobs])
    scale_J = np.array([job.scale for job in jobs], dtype=float)
    devices = len(cluster.devices) / len(cluster.hosts)
    bytes_J = np.array([_linked_bytes(cluster, costs, job) for job in jobs], dtype=float)
    state_s_J = bytes_J / float(np.mean(cluster.link_bytes_per_s))
    late_s_J = np.array([late_s.get(job.index, 0.0) for job in jobs])
    step_s_J = np.array([_step_s(costs, job) for job in jobs])
    sync_s_J = np.array([_sync_s(costs, job) for job in jobs])
    return JobGroupingProblem(
        comp_machine_s_J=scale_J * task_s_J / devices,
        net_s_J=np.where(bytes_J > 0, 0.0, sync_s_J + late_s_J),
        machines=len(cluster.hosts),
        rounds=RoundTerms(
            pull_s_J=state_s_J * devices,
            push_s_J=state_s_J * scale_J,
            task_s_J=task_s_J,
            step_s_J=np.where(bytes_J > 0, step_s_J + late_s_J, 0.0),
        ),
        kinds=_machine_kinds(cluster, costs, jobs, longer, bytes_J),
    )


def host_codes_H(cluster: Cluster) -> IntArray:
    """Return the code of each host as a machine of its kind: 1 where all are alike."""
    kind_H, hosts = _kinds(cluster)
    stride_K = strides(np.bincount(kind_H, minlength=len(hosts)))
    code_H: IntArray = stride_K[kind_H]
    return code_H


def _kinds(cluster: Cluster) -> tuple[IntArray, list[int]]:
    """Return the kind of each host, and a host of each kind: equal devices and links.

    All hosts are of one kind if the code of all would be too large a number.
    """
    devices_H: list[list[int]] = [[] for _ in cluster.hosts]
    for host, kind in zip(host_of_D(cluster).tolist(), cluster.type_of_device, strict=True):
        devices_H[host].append(kind)
    known: dict[tuple[tuple[int, ...], float], int] = {}
    first: list[int] = []
    kind_H = np.zeros(len(devices_H), np.int64)
    for host, rate in enumerate(cluster.link_bytes_per_s):
        key = tuple(sorted(devices_H[host])), float(rate)
        if key not in known:
            known[key] = len(first)
            first.append(host)
        kind_H[host] = known[key]
    if not is_codable(np.bincount(kind_H)):
        return np.zeros_like(kind_H), first[:1]
    return kind_H, first


def _machine_kinds(
    cluster: Cluster,
    costs: CostTable,
    jobs: Sequence[Job],
    longer: Mapping[int, float],
    bytes_J: FloatArray,
) -> UnequalMachines | None:
    """Return the kinds of hosts; None where all are alike."""
    kind_H, hosts = _kinds(cluster)
    if len(hosts) == 1:
        return None
    type_D, host_D = np.array(cluster.type_of_device), host_of_D(cluster)
    types = len(cluster.type_names)
    devices_KT = [np.bincount(type_D[host_D == host], minlength=types) for host in hosts]
    here_T = np.bincount(type_D, minlength=types) > 0
    comp_s_JT = np.maximum(costs.comp_ns_JT[[job.index for job in jobs]], 1)[:, here_T] / NS_PER_S
    times_J = np.array([longer.get(job.index, 1.0) for job in jobs])
    rate_K = np.array([cluster.link_bytes_per_s[host] for host in hosts], dtype=float)
    return UnequalMachines(
        count_K=np.bincount(kind_H, minlength=len(hosts)).astype(np.int64),
        devices_KT=np.array(devices_KT, np.int64)[:, here_T],
        task_s_JT=comp_s_JT * times_J[:, None],
        unit_s_JK=bytes_J[:, None] / rate_K,
        tasks_J=np.array([job.scale for job in jobs], np.int64),
    )


def memory_J(cluster: Cluster, costs: CostTable, jobs: Sequence[Job], least: int) -> FloatArray:
    """Compute how many hosts the data of each job fill: jobs that share hosts need the sum.

    ``least`` hosts, if that is more than one; 1 states nothing. More where a job states
    ``cost.data`` and hosts their memory: the data over what the models of all jobs leave of the
    smallest one. With ``local.spill`` data go to disk, and what is stated of them does not count.
    At most all hosts.
    """
    room = _room_bytes(cluster, costs)
    least_hosts = float(least if least > 1 else 0)
    data_J = np.array([_data_bytes(job) for job in jobs], dtype=float)
    filled_J = data_J / room if room else np.zeros(len(jobs))
    return np.minimum(np.maximum(filled_J, least_hosts), float(len(cluster.hosts)))


def within_memory(
    problem: JobGroupingProblem, view: View, jobs: Sequence[int], least: int
) -> JobGroupingProblem:
    """Return the problem of these jobs in which groups hold the data of all their jobs."""
    some = [view.jobs[job] for job in jobs]
    filled_J = memory_J(view.cluster, view.costs, some, least)
    least_J = np.maximum(1, np.ceil(filled_J - WHOLE)).astype(np.int64)
    return replace(problem, memory_J=filled_J, least_J=least_J)


def _data_bytes(job: Job) -> int:
    cost = job.epoch_cost
    return 0 if cost is None or cost.data_bytes is None else cost.data_bytes


def _model_bytes(costs: CostTable) -> int:
    """Return the bytes of the models of all jobs."""
    return 0 if costs.model_bytes_J is None else int(costs.model_bytes_J.sum())


def _least_memory_bytes(cluster: Cluster) -> int | None:
    """Return the memory of the smallest host of those that state it; None: none does."""
    return min((one.memory_bytes for one in cluster.hosts if one.memory_bytes), default=None)


def _room_bytes(cluster: Cluster, costs: CostTable) -> int | None:
    """Return what a host has for data beside the models of all jobs; None: without limit."""
    least = _least_memory_bytes(cluster)
    return None if least is None or cluster.local.spill else least - _model_bytes(costs)


def _task_s(cluster: Cluster, costs: CostTable, job: Job) -> float:
    """Return the time of a task on a device of mean speed."""
    comp_ns_D = costs.comp_ns_JT[job.index, list(cluster.type_of_device)]
    return max(1, len(comp_ns_D)) / float((NS_PER_S / np.maximum(comp_ns_D, 1)).sum())


def _linked_bytes(cluster: Cluster, costs: CostTable, job: Job) -> int:
    """Return the bytes of a job's model if they pass links; else 0."""
    if cluster.network.model != "fluid" or costs.model_bytes_J is None:
        return 0
    return int(costs.model_bytes_J[job.index])


def _step_s(costs: CostTable, job: Job) -> float:
    """Return the time of a step of a job's servers."""
    return 0.0 if costs.step_ns_J is None else float(costs.step_ns_J[job.index]) / NS_PER_S


def _sync_s(costs: CostTable, job: Job) -> float:
    """Return T^s on the device type on which it is longest."""
    fits_T = costs.fits_JT[job.index]
    return float(costs.sync_ns_JT[job.index][fits_T].max(initial=0)) / NS_PER_S
