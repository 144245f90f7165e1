"""When devices and quotas have room, once all jobs that are planned have their times.

As ``schedule.timetable``, for plans of a thousand jobs: what was found on a host for a job bounds
what can be found there for a longer one, and each device is searched by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import NamedTuple

from warren.serve.queue.machines import SHARERS_MOST
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import DeviceNeed
from warren.serve.schedule.placement import Placement, fits_host
from warren.serve.schedule.quotas import QuotaKey, QuotaRoom
from warren.serve.schedule.timetable import NEVER_ENDS_NS, UNKNOWN_NS, ExpectedStart


class Closing(NamedTuple):
    """From a time on no job starts on a host, or on one device of it; None: on all of them."""

    time_ns: int
    host: str
    device: str | None


class DeviceTimes:
    """The times for which each usable device is held.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    now_ns
        The present: nothing starts before it.
    closings
        Which devices close later.
    """

    def __init__(self, queue: Queue, now_ns: int, closings: Iterable[Closing] = ()) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._hosts: dict[tuple[str, str], _HostTimes] = {}
        until: dict[tuple[str, str | None], int] = {}
        for one in closings:
            key = (one.host, one.device)
            until[key] = min(one.time_ns, until.get(key, NEVER_ENDS_NS))
        for name, machine in queue.machines.items():
            whole = until.get((name, None), NEVER_ENDS_NS)
            for kind, usable in machine.usable.items():
                self._hosts[name, kind] = _HostTimes(
                    {one: min(whole, until.get((name, one), NEVER_ENDS_NS)) for one in usable}
                )

    def hold(
        self, host: str, devices: Iterable[str], begin_ns: int, end_ns: int, *, share: bool
    ) -> None:
        """Note that a job has devices for a time; those that are not usable play no part."""
        held = self._queue.machines[host].devices
        for one in devices:
            times = self._hosts.get((host, held[one].type)) if one in held else None
            if times is not None:
                times.hold(one, begin_ns, end_ns, share=share)

    def earliest(
        self, need: DeviceNeed, device_type: str, length_ns: int, after_ns: int
    ) -> ExpectedStart | None:
        """Return the earliest start from a time on, with its devices; None if there never is one.

        Of hosts with the same time the first one counts, in the order of ``Queue.hosts``.
        """
        count, share = need.devices, need.share
        hosts = []
        for place, name in enumerate(self._queue.hosts[device_type]):
            times = self._hosts.get((name, device_type))
            if times is None or len(times.devices) < count:
                continue
            if fits_host(self._queue, need, name):
                bound = max(after_ns, times.bound(count, length_ns, share=share))
                hosts.append((bound, place, name, times))
        hosts.sort()  # places differ
        best: tuple[int, int, str, tuple[str, ...]] | None = None
        for bound, place, name, times in hosts:
            if best is not None and (bound, place) > best[:2]:
                break
            found = times.earliest(count, length_ns, bound, share=share)
            if found is None:
                continue
            if after_ns <= self._now_ns:
                times.remember(count, length_ns, found[0], share=share)
            if best is None or (found[0], place) < best[:2]:
                best = (found[0], place, name, found[1])
        if best is None:
            return None
        return ExpectedStart(best[0], Placement(best[2], device_type, best[3]))


class _DeviceTimes:
    """The times for which one device is held: alone, in order, and by jobs that share it."""

    __slots__ = ("begins", "ends", "name", "shared", "until_ns")

    def __init__(self, name: str, until_ns: int) -> None:
        self.name = name
        self.until_ns = until_ns
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.shared: list[tuple[int, int]] = []

    def is_free(self, begin_ns: int, end_ns: int, share: bool) -> bool:
        """Tell whether the device can take one job more for a time."""
        at = bisect_right(self.ends, begin_ns)
        if at < len(self.ends) and self.begins[at] < end_ns:
            return False
        if begin_ns >= self.until_ns:
            return False
        if not self.shared:
            return True
        sharers = sum(begin < end_ns and begin_ns < end for begin, end in self.shared)
        return sharers < SHARERS_MOST if share else sharers == 0


class _HostTimes:
    """The usable devices of one type on one host.

    Parameters
    ----------
    until_ns
        Device to the time from which on no job starts on it.
    """

    def __init__(self, until_ns: dict[str, int]) -> None:
        self.devices = {name: _DeviceTimes(name, until) for name, until in until_ns.items()}
        self._ends: list[int] = []
        # Number of devices and whether they are shared, to lengths and their bounds, both rising.
        self._bounds: dict[tuple[int, bool], tuple[list[int], list[int]]] = {}

    def hold(self, device: str, begin_ns: int, end_ns: int, *, share: bool) -> None:
        """Note that a job has a device for a time."""
        one = self.devices.get(device)
        if one is None:
            return
        if share:
            one.shared.append((begin_ns, end_ns))
        else:
            at = bisect_left(one.ends, end_ns)
            one.ends.insert(at, end_ns)
            one.begins.insert(at, begin_ns)
        insort(self._ends, end_ns)

    def earliest(
        self, count: int, length_ns: int, after_ns: int, *, share: bool
    ) -> tuple[int, tuple[str, ...]] | None:
        """Return the earliest start from a time on with its devices; None if there never is one."""
        devices = self.devices.values()
        ends, at, time = self._ends, bisect_right(self._ends, after_ns), after_ns
        while True:
            end = min(NEVER_ENDS_NS, time + length_ns)
            free = [one.name for one in devices if one.is_free(time, end, share)]
            if len(free) >= count:
                return time, tuple(free[:count])
            if at == len(ends) or ends[at] > UNKNOWN_NS:
                return None
            time = ends[at]
            at = bisect_right(ends, time, at)

    def bound(self, count: int, length_ns: int, *, share: bool) -> int:
        """Return a time before which no job of this length has room."""
        found = self._bounds.get((count, share))
        if found is None:
            return 0
        at = bisect_right(found[0], length_ns)
        return found[1][at - 1] if at else 0

    def remember(self, count: int, length_ns: int, start_ns: int, *, share: bool) -> None:
        """Note the earliest start of a job; a longer one has none before, now or later."""
        lengths, starts = self._bounds.setdefault((count, share), ([], []))
        at = bisect_left(lengths, length_ns)
        if at and starts[at - 1] >= start_ns:
            return
        end = bisect_right(starts, start_ns, at)
        lengths[at:end] = [length_ns]
        starts[at:end] = [start_ns]


class QuotaTimes:
    """The devices that count for each quota, over time.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    """

    def __init__(self, queue: Queue) -> None:
        self._room = QuotaRoom(queue)
        self._used: dict[QuotaKey, _Steps] = {}

    def count(self, user: str, device_type: str, devices: int, begin_ns: int, end_ns: int) -> None:
        """Note that a user has devices of a type for a time."""
        for key in self._room.keys(user, device_type):
            self._used.setdefault(key, _Steps()).add(begin_ns, end_ns, devices)

    def room_from(
        self, user: str, device_type: str, devices: int, length_ns: int, after_ns: int
    ) -> int | None:
        """Return the earliest time from which all quotas have room for a job; None if never."""
        keys = self._room.keys(user, device_type)
        time, later = -1, after_ns
        while time != later:
            time = later
            for key in keys:
                most = self._room.limit(key) - devices
                found = self._used.setdefault(key, _Steps()).first(later, length_ns, most)
                if found is None:
                    return None
                later = found
        return time


class _Steps:
    """A number that changes at some times; 0 at first and at last."""

    def __init__(self) -> None:
        self._times = [0]
        self._values = [0]

    def add(self, begin: int, end: int, count: int) -> None:
        """Make the number larger for a time."""
        for at in range(self._cut(begin), self._cut(end)):
            self._values[at] += count

    def _cut(self, time: int) -> int:
        at = bisect_left(self._times, time)
        if at == len(self._times) or self._times[at] != time:
            self._times.insert(at, time)
            self._values.insert(at, self._values[at - 1])
        return at

    def first(self, after: int, length: int, most: int) -> int | None:
        """Return the first time from which the number is at most ``most`` for a length of time."""
        since = None
        for at in range(bisect_right(self._times, after) - 1, len(self._times)):
            if self._values[at] > most:
                since = None
                continue
            if since is None:
                since = max(after, self._times[at])
            if at + 1 == len(self._times) or self._times[at + 1] >= since + length:
                return since if since <= UNKNOWN_NS else None
        return None
