"""What became of the jobs of a service, by its events: when each came, waited and ran, and where.

Time ends with the last event that is read: a job that runs then has run until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from warren.serve.records.events import (
    AnyEvent,
    AttemptBegun,
    AttemptEnded,
    AttemptStarted,
    Drained,
    JobEnded,
    JobReleased,
    JobSubmitted,
    MachineJoined,
    MachineLost,
    MachineRemoved,
)
from warren.serve.records.jobs import NO_STRIKE, CommandSpec, JobState
from warren.serve.records.machines import HostDevice


@dataclass(slots=True)
class PastAttempt:
    """One time that a command ran: its host, its devices by id, and from when to when, in ns.

    ``goes_on``: the next attempt goes on from it, as after a preemption.
    """

    host: str
    devices: tuple[str, ...]
    start_ns: int
    end_ns: int | None = None
    ran: bool = True
    goes_on: bool = False


@dataclass(slots=True)
class PastJob:
    """A job of the service; ``come_ns``: when it came, or was released before it first started.

    ``after``: ids of the jobs that it waited for. ``state`` None: it has not ended.
    """

    id: str
    user: str
    spec: CommandSpec
    array: str | None
    come_ns: int
    attempts: list[PastAttempt] = field(default_factory=list)
    after: tuple[str, ...] = ()
    state: JobState | None = None
    reason: str = ""
    released: bool = False


@dataclass(slots=True)
class PastHost:
    """A host: all devices that it had, by id, and when it came and was taken away, in ns."""

    from_ns: int
    until_ns: int | None = None
    devices: dict[str, HostDevice] = field(default_factory=dict)


@dataclass(slots=True)
class PastService:
    """All that happened: jobs by id in the order in which they came, hosts by name.

    ``last_ns``: the last event, in ns since 1970. ``troubles``: times at which a host was lost, or
    it or a device of it was drained.
    """

    jobs: dict[str, PastJob] = field(default_factory=dict)
    hosts: dict[str, PastHost] = field(default_factory=dict)
    last_ns: int = 0
    troubles: list[int] = field(default_factory=list)


_OF_JOBS: Final = (JobReleased, AttemptBegun, AttemptStarted, AttemptEnded, JobEnded)


def past_service(events: Iterable[AnyEvent]) -> PastService:
    """Fold events of the service, in their order, into what became of its jobs."""
    past = PastService()
    arrays: dict[str, list[str]] = {}
    for event in events:
        past.last_ns = max(past.last_ns, event.time_ns)
        match event:
            case JobSubmitted():
                if event.array is not None:
                    arrays.setdefault(event.array, []).append(event.job)
                # A dependency on an array is one on each of its jobs.
                after = [
                    one for other in event.spec.after for one in arrays.get(other.job, [other.job])
                ]
                past.jobs[event.job] = PastJob(
                    id=event.job,
                    user=event.user,
                    spec=event.spec,
                    array=event.array,
                    come_ns=event.time_ns,
                    after=tuple(dict.fromkeys(one for one in after if one in past.jobs)),
                )
            case MachineJoined():
                # A machine that joins again may have other devices; those it had still count.
                host = past.hosts.setdefault(event.machine.name, PastHost(event.time_ns))
                host.devices.update((one.id, one) for one in event.machine.devices)
                host.until_ns = None
            case MachineRemoved():
                past.hosts[event.host].until_ns = event.time_ns
            case MachineLost() | Drained():
                past.troubles.append(event.time_ns)
            case _ if isinstance(event, _OF_JOBS):
                _happened(past.jobs[event.job], event)
            case _:
                pass
    return past


def _happened(job: PastJob, event: AnyEvent) -> None:
    """Note an event of a job."""
    match event:
        case JobReleased():
            if not job.attempts:
                job.come_ns = event.time_ns
                job.released = True
        case AttemptBegun():
            job.attempts.append(PastAttempt(event.host, event.devices, event.time_ns))
        case AttemptStarted():
            job.attempts[-1].start_ns = event.time_ns
        case AttemptEnded():
            attempt = job.attempts[-1]
            attempt.end_ns = max(event.time_ns, attempt.start_ns)
            attempt.ran = event.ran
            attempt.goes_on = event.cause in NO_STRIKE
        case JobEnded():
            job.state, job.reason = event.state, event.reason
        case _:
            pass
