"""A stretch of a service's time as a run: its jobs and machines, and the events as they were.

A command becomes one round of as many tasks as it had devices, each as long as the command ran; a
ring where it had several, so that a policy gives it all of them at once, and no policy takes them
away before its end. What a simulation cannot express is left out, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import ProfileRow
from warren.model.events import (
    RANK,
    AnyEvent,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    TasksDone,
)
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler, Truth
from warren.model.units import NS_PER_S
from warren.serve.records.jobs import CommandSpec, JobState
from warren.serve.replay.notes import notes_of
from warren.serve.replay.past_jobs import PastService
from warren.serve.replay.window import JobInWindow, Window, window_of
from warren.serve.schedule.known_lengths import command_kind

PLACE: Final = "service"
"""The name of the service's own order, in the place of a policy's."""
_SOURCE: Final = {"comp": "running time in the service", "sync": "none: a command is one"}
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters that names in a run file do not have."""


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A service as a run, and what really happened, in order of time."""

    run: Run
    events: tuple[AnyEvent, ...]


def service_run(past: PastService, name: str, *, since_ns: int, ends_count: bool) -> ServiceRun:
    """Make a run of what a service did from an instant on, to its last event.

    Parameters
    ----------
    past
        What became of its jobs.
    name
        The name of the run.
    since_ns
        The instant, in ns since 1970; see ``window_of``.
    ends_count
        Whether a job that failed, was cancelled while it ran, or runs still counts as finished, and
        with the time of all its attempts. It held its devices as long, and a simulation ends it.
    """
    window = window_of(past, since_ns)
    cluster, number = _cluster(window)
    jobs, profiles = [], []
    for index, one in enumerate(window.jobs):
        types = types_of(one.job.spec, window)
        jobs.append(_job(one, index, window.begin_ns, () if types == cluster.type_names else types))
        task_s = max(1, one.run_ns(all_attempts=ends_count)) / NS_PER_S
        profiles.append(
            ProfileRow(
                model=jobs[-1].name,
                batch=0,
                model_bytes=0,
                memory_bytes=0,
                comp_s=dict.fromkeys(types, task_s),
                sync_s=dict.fromkeys(types, 0.0),
                source=_SOURCE,
            )
        )
    taken = {one.job.id for one in window.jobs}
    after = {
        _name(one.job.id): tuple(_name(other) for other in one.job.after if other in taken)
        for one in window.jobs
    }
    run = Run(
        name=name,
        cluster=cluster,
        workload=Workload(jobs=tuple(jobs), notes=notes_of(window, ends_count=ends_count)),
        scheduler=Scheduler(place=PLACE),
        profiles=tuple(profiles),
        truth=Truth(after={job: others for job, others in after.items() if others}),
    )
    return ServiceRun(run, _events(window, number, ends_count=ends_count))


def types_of(spec: CommandSpec, window: Window) -> tuple[str, ...]:
    """Return the names of the device types that a command may have."""
    wanted = spec.device_type
    return tuple(
        _name(kind)
        for kind, family in window.types.items()
        if wanted is None or wanted in (kind, family)
    )


def _job(one: JobInWindow, index: int, begin_ns: int, types: tuple[str, ...]) -> Job:
    spec = one.job.spec
    return Job(
        index=index,
        name=_name(one.job.id),
        scale=spec.devices,
        rounds=1,
        sync="ring" if spec.devices > 1 else "ps",
        arrival_ns=one.come_ns - begin_ns,
        model=_name(command_kind(spec)),
        user=one.job.user,
        group=one.job.array or "",
        cost=_name(one.job.id),
        types=types,
    )


def _name(text: str) -> str:
    """Return a name as run files have it."""
    return _OTHER.sub("-", text)[:80]


def _cluster(window: Window) -> tuple[Cluster, Mapping[tuple[str, str], int]]:
    """Return the cluster of all hosts, and the index of each device by host and id."""
    devices: list[Device] = []
    hosts: list[Host] = []
    number: dict[tuple[str, str], int] = {}
    for host, past in window.hosts.items():
        # Type by type, and named as in a cluster that a run file states.
        names: list[str] = []
        for kind in dict.fromkeys(one.type for one in past.devices.values()):
            alike = [one for one in past.devices.values() if one.type == kind]
            for place, one in enumerate(alike):
                number[host, one.id] = len(devices)
                names.append(f"{_name(host)}/{_name(kind)}-{place}")
                devices.append(
                    Device(index=len(devices), name=names[-1], type=_name(kind), host=_name(host))
                )
        hosts.append(Host(name=_name(host), devices=tuple(names)))
    types = tuple(DeviceType(name=_name(kind)) for kind in window.types)
    return Cluster(hosts=tuple(hosts), devices=tuple(devices), types=types), number


def _events(
    window: Window, number: Mapping[tuple[str, str], int], *, ends_count: bool
) -> tuple[AnyEvent, ...]:
    """Return the events of a run that happened as the service's did."""
    found: list[AnyEvent] = []
    for index, one in enumerate(window.jobs):
        found.append(JobArrived(one.come_ns - window.begin_ns, index))
        end_ns = 0
        for place, attempt in enumerate(one.attempts):
            start_ns, end_ns = (
                at - window.begin_ns for at in (attempt.start_ns, attempt.end_ns or 0)
            )
            for shard, device in enumerate(attempt.devices):
                where = index, 0, 1, (shard,), number[attempt.host, device]
                found.append(TasksDone(end_ns, *where, start_ns, end_ns, end_ns - start_ns))
            if not ends_count and place < one.last_try:
                found.append(RolledBack(end_ns, index, 0, "its command was started again"))
        found += _end_of(one, index, end_ns, ends_count=ends_count)
    return tuple(sorted(found, key=lambda event: (event.time_ns, RANK[type(event)])))


def _end_of(one: JobInWindow, index: int, end_ns: int, *, ends_count: bool) -> Iterator[AnyEvent]:
    """Yield the end of a job, if it has ended."""
    state = JobState.FINISHED if ends_count else one.job.state
    if state is JobState.FINISHED:
        yield RoundsDone(end_ns, index, 0, 1, True)
    elif state is JobState.FAILED:
        yield JobFailed(end_ns, index, one.job.reason or "failed")
    elif state is JobState.CANCELLED:
        yield JobCancelled(end_ns, index)
