"""Devices that are free now, and which of them a job gets.

The devices of a job are of one host and one type. The least valuable type that fits comes first,
then the host with the fewest free devices of it, so that large jobs find whole hosts free. With
*first fit* it is the host with the fewest devices in all, free or not: the place of a job does not
depend on jobs after it then, and expected starts come true.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import NamedTuple

from warren.serve.queue.machines import SHARERS_MOST
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import DeviceNeed


class Placement(NamedTuple):
    """Devices for a job."""

    host: str
    type: str
    devices: tuple[str, ...]


class OpenDevices:
    """Devices on which jobs may start, less those that a decision has given away so far.

    Parameters
    ----------
    queue
        The queue, which stays as it is meanwhile.
    first_fit
        Whether hosts are tried in a fixed order, and not the fullest first.
    """

    def __init__(self, queue: Queue, *, first_fit: bool = False) -> None:
        self._queue = queue
        self._first_fit = first_fit
        self._free: dict[str, dict[str, list[str]]] = {}
        self._roomy: dict[str, dict[str, dict[str, int]]] = {}
        self._sizes: dict[str, dict[int, list[int]]] = {}
        self._kept: dict[tuple[str, str], str] = {}
        self._names = list(queue.machines)
        self._place = {name: index for index, name in enumerate(self._names)}
        self.count = 0
        self._rooms = 0
        for kind, names in queue.hosts.items():
            self._add(kind, names)

    def _add(self, device_type: str, names: list[str]) -> None:
        free: dict[str, list[str]] = {}
        roomy: dict[str, dict[str, int]] = {}
        sizes: dict[int, list[int]] = {}
        for name in names:
            state = self._queue.machines[name]
            if state.open and (devices := state.free(device_type)):
                free[name] = [one.id for one in devices]
                self.count += len(devices)
                insort(sizes.setdefault(len(devices), []), self._place[name])
            for one in state.roomy:
                if state.devices[one].type == device_type:
                    roomy.setdefault(name, {})[one] = len(state.holders[one])
                    self._rooms += 1
        self._free[device_type], self._roomy[device_type] = free, roomy
        self._sizes[device_type] = sizes

    def has_room(self, share: bool) -> bool:
        """Tell whether a job might start at all: on a free device, or beside jobs that share."""
        return self.count > 0 or (share and self._rooms > 0)

    def place(
        self,
        need: DeviceNeed,
        device_type: str,
        may: Callable[[str, list[str]], list[str]] | None = None,
        avoid: frozenset[str] = frozenset(),
    ) -> Placement | None:
        """Return devices of a type for a job, without taking them; None if they are not free.

        Parameters
        ----------
        need
            What the job needs; its type is not looked at.
        device_type
            The type of the devices.
        may
            Given a host and devices of it, returns those that the job may have; None: all.
        avoid
            Hosts that are out of the question.
        """
        for name, devices in self._candidates(need, device_type):
            if (
                name in avoid
                or (name, device_type) in self._kept
                or not fits_host(self._queue, need, name)
            ):
                continue
            allowed = devices if may is None else may(name, devices)
            if len(allowed) >= need.devices:
                return Placement(name, device_type, tuple(allowed[: need.devices]))
        return None

    def _candidates(self, need: DeviceNeed, device_type: str) -> Iterator[tuple[str, list[str]]]:
        """Yield hosts with enough devices for a job, the best first, each with its devices."""
        hosts = self._free[device_type]
        if need.share:
            yield from self._shared(need, device_type)
        elif self._first_fit:
            yield from (
                (name, found) for name, found in hosts.items() if len(found) >= need.devices
            )
        else:
            sizes = self._sizes[device_type]
            for size in sorted(sizes):
                if size >= need.devices:
                    for place in sizes[size]:
                        yield self._names[place], hosts[self._names[place]]

    def _shared(self, need: DeviceNeed, device_type: str) -> Iterator[tuple[str, list[str]]]:
        hosts, roomy = self._free[device_type], self._roomy[device_type]
        found: list[tuple[tuple[int, ...], str, list[str]]] = []
        for rank, name in enumerate(self._queue.hosts[device_type]):
            free, shared = hosts.get(name, []), roomy.get(name, {})
            devices = [*shared, *free]
            if len(devices) < need.devices:
                continue
            position = self._queue.machines[name].position
            if self._first_fit:
                devices.sort(key=lambda one: position[one])
                found.append(((rank,), name, devices))
            else:
                devices.sort(key=lambda one: (-shared.get(one, 0), position[one]))
                more = max(0, need.devices - len(shared))
                found.append(((more, len(free), self._place[name]), name, devices))
        found.sort(key=lambda one: one[0])
        yield from ((name, devices) for _, name, devices in found)

    def take(self, placement: Placement, share: bool) -> None:
        """Give devices away."""
        hosts = self._free[placement.type]
        free = hosts.get(placement.host, [])
        taken = frozenset(placement.devices)
        left = [one for one in free if one not in taken]
        if len(left) < len(free):
            self.count -= len(free) - len(left)
            self._resize(placement.type, placement.host, len(free), len(left))
            if left:
                hosts[placement.host] = left
            else:
                del hosts[placement.host]
        if share:
            shared = self._roomy[placement.type].setdefault(placement.host, {})
            for one in placement.devices:
                self._rooms += one not in shared
                shared[one] = shared.get(one, 0) + 1
                if shared[one] >= SHARERS_MOST:
                    del shared[one]
                    self._rooms -= 1

    def _resize(self, device_type: str, host: str, before: int, after: int) -> None:
        sizes, place = self._sizes[device_type], self._place[host]
        places = sizes[before]
        del places[bisect_left(places, place)]
        if not places:
            del sizes[before]
        if after:
            insort(sizes.setdefault(after, []), place)

    def keep(self, host: str, device_type: str, job: str) -> None:
        """Keep the free devices of a type on a host for a job: no other gets them."""
        if (host, device_type) in self._kept:
            return
        self._kept[host, device_type] = job
        free = self._free[device_type].pop(host, [])
        if free:
            self.count -= len(free)
            self._resize(device_type, host, len(free), 0)
        self._rooms -= len(self._roomy[device_type].pop(host, ()))

    def kept_for(self, host: str, device_type: str) -> str | None:
        """Return the job for which the devices of a type on a host are kept."""
        return self._kept.get((host, device_type))


def fits_host(queue: Queue, need: DeviceNeed, host: str) -> bool:
    """Tell whether a job may run on a host, as far as its name and memory go."""
    if need.host is not None and need.host != host:
        return False
    if need.memory_bytes is None:
        return True
    return need.memory_bytes <= queue.machines[host].machine.memory_bytes


def fitting_types(queue: Queue, need: DeviceNeed) -> list[str]:
    """Return the types of devices that a job may have, the least valuable first."""
    wanted = need.device_type
    if wanted in queue.types:
        return [wanted]
    return [one for one, total in queue.types.items() if wanted is None or total.kind == wanted]
