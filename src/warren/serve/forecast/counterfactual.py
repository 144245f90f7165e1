"""What if one cause were not there: each cause is taken away in a copy, and the job starts or not.

- ``held``: the job is released.
- ``dependency``: the job waits for no other.
- ``quota``: the quotas that count for its user are gone.
- ``host``: hosts that do not answer are there again.
- ``drained``: no host and no device is drained.
- ``foreign``: no device is used by processes of no job.
- ``order``: the job comes before all others.
- ``devices``: no job runs. What ran does not wait again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from warren.serve.forecast.copies import copied
from warren.serve.queue.state import Queue
from warren.serve.records.events import (
    AttemptEnded,
    DevicesUsed,
    JobHeld,
    JobReleased,
    MachineJoined,
    PriorityChanged,
    QuotaSet,
    Undrained,
)
from warren.serve.records.jobs import JobState, ServiceJob
from warren.serve.records.users import Quota
from warren.serve.schedule.decide import Order, decide
from warren.serve.schedule.reasons import WaitCode


class Counterfactual:
    """Tries a waiting job in copies of its queue.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    job
        A job of it that waits.
    now_ns
        The present.
    order
        How jobs may overtake each other.
    """

    def __init__(self, queue: Queue, job: ServiceJob, now_ns: int, order: Order) -> None:
        self._queue = copied(queue)
        self._job = job.id
        self._now_ns = now_ns
        self._order: Order = order
        self._tried: dict[frozenset[WaitCode], bool] = {}

    def present(self) -> list[WaitCode]:
        """Return the causes that there are, those that an action may take away first."""
        queue, job = self._queue, self._queue.jobs[self._job]
        machines = queue.machines.values()
        there: dict[WaitCode, bool] = {
            "held": job.state is JobState.HELD,
            "dependency": job.id in queue.dependencies.unmet,
            "quota": bool(_quotas_of(queue, job)),
            "host": not all(one.connected for one in machines),
            "drained": any(one.drained for one in machines),
            "foreign": any(use.foreign for one in machines for use in one.uses.values()),
            "order": len(queue.waiting) > (job in queue.waiting),
            "devices": bool(queue.running),
        }
        return [cause for cause, is_there in there.items() if is_there]

    def starts_without(self, causes: Collection[WaitCode]) -> bool:
        """Tell whether the job starts at once where these causes are not there."""
        key = frozenset(causes)
        if key not in self._tried:
            queue = copied(self._queue)
            job = queue.jobs[self._job]
            for cause, take_away in _TAKE_AWAY.items():
                if cause in key:
                    take_away(queue, job, self._now_ns)
            self._tried[key] = self._starts(queue)
        return self._tried[key]

    def starts_with(self, **spec: Any) -> bool:
        """Tell whether the job starts at once if it asks for something else."""
        queue = copied(self._queue)
        job = queue.jobs[self._job]
        asks_for(queue, job, **spec)
        return self._starts(queue)

    def _starts(self, queue: Queue) -> bool:
        return any(one.job == self._job for one in decide(queue, self._now_ns, self._order))


def asks_for(queue: Queue, job: ServiceJob, **spec: Any) -> None:
    """Let a waiting job of a copy ask for something else; the values are those of its spec."""
    waits = job in queue.waiting
    queue.waiting.remove(job)
    job.spec = msgspec.structs.replace(job.spec, **spec)
    if waits:
        queue.waiting.add(job)


def _quotas_of(queue: Queue, job: ServiceJob) -> list[Quota]:
    groups = queue.user(job.user).groups
    subjects = {"each", f"user:{job.user}", *(f"group:{one}" for one in groups)}
    return [quota for quota in queue.quotas.values() if quota.subject in subjects]


def _release(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    queue.apply(JobReleased(time_ns=now_ns, job=job.id))


def _undepend(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    queue.dependencies.drop(job.id)
    if job.state is JobState.QUEUED:
        queue.waiting.add(job)


def _unlimit(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    for quota in _quotas_of(queue, job):
        queue.apply(QuotaSet(time_ns=now_ns, quota=msgspec.structs.replace(quota, devices=-1)))


def _reconnect(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    for one in queue.machines.values():
        if not one.connected:
            queue.apply(MachineJoined(time_ns=now_ns, machine=one.machine))


def _undrain(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    for name, one in queue.machines.items():
        if one.drained:
            queue.apply(Undrained(time_ns=now_ns, host=name))


def _unuse(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    for name, one in queue.machines.items():
        uses = tuple(msgspec.structs.replace(use, foreign=()) for use in one.uses.values())
        queue.apply(DevicesUsed(time_ns=now_ns, host=name, devices=uses))


def _come_first(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    first = max(queue.waiting.heads, default=job.priority) + 1
    queue.apply(PriorityChanged(time_ns=now_ns, job=job.id, priority=first))


def _free(queue: Queue, job: ServiceJob, now_ns: int) -> None:
    for job_id in list(queue.running):
        number = queue.jobs[job_id].attempts[-1].number
        queue.apply(AttemptEnded(time_ns=now_ns, job=job_id, attempt=number, cause="host"))
        queue.apply(JobHeld(time_ns=now_ns, job=job_id))


_TAKE_AWAY: dict[WaitCode, Callable[[Queue, ServiceJob, int], None]] = {
    "held": _release,
    "dependency": _undepend,
    "quota": _unlimit,
    "host": _reconnect,
    "drained": _undrain,
    "foreign": _unuse,
    "devices": _free,
    "order": _come_first,
}


def needed(test: Counterfactual, causes: Sequence[WaitCode]) -> tuple[WaitCode, ...]:
    """Return causes that together keep a job waiting: a single one if there is one.

    Parameters
    ----------
    test
        The job in its queue.
    causes
        All causes that there are; of several that would do the first is returned. Of causes that
        do only together none can be left out. Nothing is returned if all of them do not do.
    """
    for cause in causes:
        if test.starts_without({cause}):
            return (cause,)
    if not test.starts_without(causes):
        return ()
    left, before = list(causes), len(causes) + 1
    while len(left) < before:  # what could not be left out at first may be later
        before = len(left)
        for cause in reversed(causes):
            less = [one for one in left if one != cause]
            if len(less) < len(left) and test.starts_without(less):
                left = less
    return tuple(left)
