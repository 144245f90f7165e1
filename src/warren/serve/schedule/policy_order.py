"""The order of waiting jobs by a place policy, found as far as it is asked for.

**Higher priority first; among equal priorities the policy's order.** It takes the place of the
fair share. Quotas, holds, dependencies, drains and devices in use are the queue's: a policy says
which job goes first, and the queue whether and where it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from warren.model.errors import WarrenError
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import JobGroup, need_of
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.known_lengths import KnownLengths, command_kind, progress_s
from warren.serve.schedule.placement import fitting_types

if TYPE_CHECKING:
    from warren.runs.commands.policy_order import EndedCommand, KnownCommand

ASKED_MOST: Final = 256
"""Most jobs of a priority that a policy is asked about, those that were submitted first."""
EQUAL_MOST: Final = 32
"""Most jobs that are equal in all that a policy knows of them, about which it is asked."""


class PlacePolicy:
    """A place policy of the registry, asked about jobs of the queue.

    Parameters
    ----------
    name
        Its name.

    Attributes
    ----------
    name
        Its name.
    takes_back
        Whether it may prefer a waiting job to a running one.
    fault
        What was wrong with its last answer; None: nothing ever was.

    Raises
    ------
    SpecError
        If there is no policy of this name, or it cannot order commands.
    """

    def __init__(self, name: str) -> None:
        # Policies load numpy and more: a service without one stays small.
        from warren.runs.commands import policy_order

        self.name = name
        self._policy = policy_order.command_policy(name)
        self.takes_back = policy_order.takes_devices_back(self._policy)
        self.fault: str | None = None
        # The first question may load libraries and compile for seconds: not while jobs wait.
        policy_order.rehearse(self._policy)

    def turns(
        self,
        queue: Queue,
        jobs: Sequence[ServiceJob],
        now_ns: int,
        devices: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Iterator[list[ServiceJob]]:
        """Yield the jobs that the policy would run at once on empty devices, then the next ones.

        Parameters
        ----------
        queue
            The queue.
        jobs
            Jobs that wait or run, in the order of their submission.
        now_ns
            The present, in nanoseconds since 1970.
        devices
            Host to the number of devices of each type; None: all that there are.
        """
        from warren.runs.commands.policy_order import CommandDevices, policy_turns

        if devices is None:
            devices = {name: state.counts for name, state in queue.machines.items()}
        hosts = [CommandDevices(name, counts) for name, counts in devices.items()]
        left = dict.fromkeys(range(len(jobs)))
        try:
            for turn in policy_turns(self._policy, hosts, *_known(queue, jobs, now_ns), now_ns):
                for index in turn:
                    del left[index]
                yield [jobs[index] for index in turn]
        except WarrenError as error:
            # A fault of the policy must not keep jobs from starting: the rest goes as it came.
            self.fault = str(error)
            yield [jobs[index] for index in left]


def _known(
    queue: Queue, jobs: Sequence[ServiceJob], now_ns: int
) -> tuple[list[KnownCommand], list[EndedCommand]]:
    """Return what a policy is to know of jobs, and of finished ones."""
    from warren.runs.commands.policy_order import EndedCommand, KnownCommand

    lengths = KnownLengths(queue)
    commands = [
        KnownCommand(
            kind=command_kind(job.spec),
            user=job.user,
            devices=job.spec.devices,
            types=tuple(fitting_types(queue, need_of(job))),
            came_ns=job.submitted_ns,
            ran_s=progress_s(job, now_ns),
            length_s=lengths.expected_s(job),
            weight=queue.user(job.user).weight,
        )
        for job in jobs
    ]
    past = [
        EndedCommand(command_kind(job.spec), job.user, job.spec.devices, ran_s)
        for job, ran_s in lengths.finished
    ]
    return commands, past


class PolicyOrder:
    """Waiting jobs one after another, as ``FairOrder`` has them, in the order of a policy.

    Parameters
    ----------
    queue
        The queue, which stays as it is while the order is in use.
    now_ns
        The present, in nanoseconds since 1970.
    policy
        The policy.
    """

    def __init__(self, queue: Queue, now_ns: int, policy: PlacePolicy) -> None:
        self._queue = queue
        self._jobs = self._in_turn(now_ns, policy)
        self._dropped: set[JobGroup] = set()
        self._at: tuple[JobGroup, ServiceJob] | None = None

    def _in_turn(self, now_ns: int, policy: PlacePolicy) -> Iterator[ServiceJob]:
        levels = waiting_by_priority(self._queue)
        for priority in sorted(levels, reverse=True):
            asked, behind, others = _asked(self._queue, levels[priority])
            for turn in policy.turns(self._queue, asked, now_ns):
                for job in turn:
                    yield job
                    yield from behind.get(job.id, ())
            yield from others

    def next(self) -> tuple[JobGroup, ServiceJob] | None:
        """Return the next job with its group; None after the last."""
        while self._at is None or self._at[0] in self._dropped:
            job = next(self._jobs, None)
            if job is None:
                return None
            self._at = self._queue.waiting.group(job), job
        return self._at

    def take(self, device_type: str, devices: int) -> None:
        """Pass the job that ``next`` returned."""
        self._at = None

    def drop(self) -> None:
        """Pass the job that ``next`` returned, with all others of its group."""
        assert self._at is not None, "drop follows next"
        self._dropped.add(self._at[0])


def asked_about(queue: Queue, waiting: Sequence[ServiceJob]) -> list[ServiceJob]:
    """Return those of the waiting jobs of a priority about which a policy is asked."""
    return _asked(queue, waiting)[0]


def _asked(
    queue: Queue, waiting: Sequence[ServiceJob]
) -> tuple[list[ServiceJob], dict[str, list[ServiceJob]], list[ServiceJob]]:
    """Return the jobs to ask about, which jobs stand right behind one of them, and all others.

    Of equal jobs the first are asked about; the others stand behind the last of these.
    """
    asked: list[ServiceJob] = []
    behind: dict[str, list[ServiceJob]] = {}
    others: list[ServiceJob] = []
    equal: dict[tuple[JobGroup, str], list[ServiceJob]] = {}
    for job in waiting:
        if job.attempts:
            (asked if len(asked) < ASKED_MOST else others).append(job)
            continue
        like = equal.setdefault((queue.waiting.group(job), command_kind(job.spec)), [])
        if len(like) == EQUAL_MOST:
            behind.setdefault(like[-1].id, []).append(job)
        elif len(asked) < ASKED_MOST:
            asked.append(job)
            like.append(job)
        else:
            others.append(job)
    return asked, behind, others


def waiting_by_priority(queue: Queue) -> dict[int, list[ServiceJob]]:
    """Return the jobs that wait for devices alone, by priority, as they were submitted."""
    orders: dict[int, list[int]] = {}
    for group, found in queue.waiting.groups.items():
        orders.setdefault(group.priority, []).extend(found)
    return {
        priority: [queue.in_order[order] for order in sorted(found)]
        for priority, found in orders.items()
    }
