"""Jobs that wait for devices, grouped by what decides whether they can start.

All jobs of a group have the same user, priority, need and time limit. If the first of them cannot
start, none can: a decision looks at groups, and costs the same with 50,000 jobs as with ten.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter
from typing import NamedTuple

from warren.serve.records.jobs import ServiceJob


class DeviceNeed(NamedTuple):
    """Devices that a job needs; fields as in ``CommandSpec``."""

    devices: int
    device_type: str | None
    share: bool
    host: str | None
    memory_bytes: int | None


class JobGroup(NamedTuple):
    """What jobs have in common that can start on the same devices at the same time."""

    priority: int
    user: str
    need: DeviceNeed
    time_limit_s: float | None


def need_of(job: ServiceJob) -> DeviceNeed:
    """Return the devices that a job needs: on the host of its checkpoints, if it is tied to it."""
    spec = job.spec
    host = job.tied_to or spec.host
    return DeviceNeed(spec.devices, spec.device_type, spec.share, host, spec.memory_bytes)


def group_of(job: ServiceJob) -> JobGroup:
    """Return the group of a job."""
    return JobGroup(job.priority, job.user, need_of(job), job.spec.time_limit_s)


class ReadyJobs:
    """Jobs that wait for devices alone: not held, and every dependency holds.

    Attributes
    ----------
    groups
        Group to the places of its jobs in the order of submission, in that order.
    heads
        Priority and user to the groups, each with the place of its first job, in that order.
    """

    def __init__(self) -> None:
        self.groups: dict[JobGroup, list[int]] = {}
        self.heads: dict[int, dict[str, list[tuple[int, JobGroup]]]] = {}
        self._group: dict[str, JobGroup] = {}

    def __len__(self) -> int:
        return len(self._group)

    def __contains__(self, job: ServiceJob) -> bool:
        return job.id in self._group

    def group(self, job: ServiceJob) -> JobGroup:
        """Return the group of a job that waits here."""
        return self._group[job.id]

    def add(self, job: ServiceJob) -> None:
        """Let a job wait for devices."""
        if job in self:
            return
        group = self._group[job.id] = group_of(job)
        orders = self.groups.setdefault(group, [])
        if not orders:
            orders.append(job.order)
            self._add_head(group)
        elif orders[-1] < job.order:
            orders.append(job.order)
        elif orders[0] < job.order:
            insort(orders, job.order)
        else:
            self._remove_head(group)
            orders.insert(0, job.order)
            self._add_head(group)

    def remove(self, job: ServiceJob) -> None:
        """Take a job out, if it waits here."""
        group = self._group.pop(job.id, None)
        if group is None:
            return
        orders = self.groups[group]
        if orders[0] != job.order:
            del orders[bisect_left(orders, job.order)]
            return
        self._remove_head(group)
        del orders[0]
        if orders:
            self._add_head(group)
        else:
            del self.groups[group]

    def copied(self) -> ReadyJobs:
        """Return the same jobs, which change apart from these."""
        other = ReadyJobs()
        other.groups = {group: [*orders] for group, orders in self.groups.items()}
        other.heads = {
            priority: {user: [*heads] for user, heads in users.items()}
            for priority, users in self.heads.items()
        }
        other._group = dict(self._group)
        return other

    def _add_head(self, group: JobGroup) -> None:
        users = self.heads.setdefault(group.priority, {})
        insort(users.setdefault(group.user, []), (self.groups[group][0], group))

    def _remove_head(self, group: JobGroup) -> None:
        users = self.heads[group.priority]
        heads = users[group.user]
        del heads[bisect_left(heads, self.groups[group][0], key=itemgetter(0))]
        if not heads:
            del users[group.user]
        if not users:
            del self.heads[group.priority]
