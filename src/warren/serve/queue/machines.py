"""A machine as the queue sees it: which devices are held, by which jobs, and which are open."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, Final, NamedTuple

from warren.serve.records.machines import DeviceUse, HostDevice, Machine

SHARERS_MOST: Final = 4
"""Most jobs that hold one device at once where all of them share."""


BEFORE_USE: Final = "it is tested before its first job"
"""Reason of the drain of a GPU whose machine has come or started again."""


class Quarantine(NamedTuple):
    """The drain of a GPU by the service itself: faults since it began, and the time of the last.

    No fault: the GPU is to be tested before its first job.
    """

    faults: int
    time_ns: int


class MachineState:
    """A host that the service knows.

    Attributes
    ----------
    machine
        The host, as its agent described it last.
    connected
        Whether its agent answers. ``reason`` says why not.
    counts, kinds, memory
        Type to the number of devices of that type, to its kind, and to the bytes of one.
    drained
        Device id to the reason of its drain; the key None stands for the whole host.
    quarantined
        Devices that the service has drained itself.
    xids
        Device id to the last error of its driver that was no fault of a program, and its time.
    uses
        What each device does, as the agent has seen it last.
    holders
        Device id to the jobs that hold it, each with whether it shares. It names devices that the
        machine no longer has, too, until their jobs have ended.
    attempts
        Jobs that hold devices here.
    usable
        Type to the devices on which jobs may start once no job holds them, in the machine's order.
    open
        Devices on which any job may start now.
    roomy
        Devices of jobs that share, on which another job that shares may start now.
    """

    def __init__(self, machine: Machine) -> None:
        self.connected = False
        self.reason = ""
        self.drained: dict[str | None, str] = {}
        self.quarantined: dict[str, Quarantine] = {}
        self.xids: dict[str, tuple[int, int]] = {}
        self.uses: dict[str, DeviceUse] = {}
        self.holders: dict[str, dict[str, bool]] = {}
        self.attempts: dict[str, None] = {}
        self.usable: dict[str, list[str]] = {}
        self.open: dict[str, None] = {}
        self.roomy: dict[str, None] = {}
        self.describe(machine)

    def describe(self, machine: Machine) -> None:
        """Take over what the agent says of its machine."""
        self.machine = machine
        self.devices = {device.id: device for device in machine.devices}
        self.position = {device.id: index for index, device in enumerate(machine.devices)}
        self.kinds = {device.type: device.kind for device in machine.devices}
        self.memory = {device.type: device.memory_bytes for device in machine.devices}
        self.counts: dict[str, int] = {}
        for device in machine.devices:
            self.counts[device.type] = self.counts.get(device.type, 0) + 1

    def copied(self) -> MachineState:
        """Return a machine in the same state, which changes apart from this one."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(other, name, {key: _copied(one) for key, one in value.items()})
        return other

    def drain(self, device: str | None, reason: str, time_ns: int, *, by_itself: bool) -> None:
        """Let no job start on a device, or on the whole host; an admin's drain is the stronger."""
        self.drained[device] = reason
        if device is not None and by_itself:
            before = self.quarantined.get(device, Quarantine(0, 0)).faults
            faults = 0 if reason == BEFORE_USE else before + 1
            self.quarantined[device] = Quarantine(faults, time_ns)
        elif device is not None:
            self.quarantined.pop(device, None)
        self.refresh()

    def undrain(self, device: str | None) -> None:
        """Let jobs start on a device, or on the whole host and all its devices."""
        if device is None:
            self.drained.clear()
            self.quarantined.clear()
        else:
            self.drained.pop(device, None)
            self.quarantined.pop(device, None)
        self.refresh()

    def most(self, device_type: str | None) -> int:
        """Return the most devices of one type that this machine has, among types that fit."""
        if device_type in self.counts:
            return self.counts[device_type]
        return max((self.counts[one] for one in self.fitting(device_type)), default=0)

    def fitting(self, device_type: str | None) -> list[str]:
        """Return the types of this machine that are of a type or kind; None stands for all."""
        return [
            one
            for one, kind in self.kinds.items()
            if device_type is None or device_type in (one, kind)
        ]

    def _is_usable(self, device: str) -> bool:
        use = self.uses.get(device)
        return (
            device in self.devices
            and self.connected
            and None not in self.drained
            and device not in self.drained
            and not (use and use.foreign)
        )

    def refresh(self, devices: Iterable[str] | None = None) -> None:
        """Decide again which of these devices are open; of all devices without an argument."""
        if devices is None:
            self.open.clear()
            self.roomy.clear()
            self.usable.clear()
            for one in self.machine.devices:
                if self._is_usable(one.id):
                    self.usable.setdefault(one.type, []).append(one.id)
            devices = [device for found in self.usable.values() for device in found]
        for device in devices:
            self.open.pop(device, None)
            self.roomy.pop(device, None)
            if not self._is_usable(device):
                continue
            holders = self.holders.get(device)
            if not holders:
                self.open[device] = None
            elif all(holders.values()) and len(holders) < SHARERS_MOST:
                self.roomy[device] = None

    def hold(self, job: str, devices: tuple[str, ...], share: bool) -> None:
        """Give devices to a job."""
        self.attempts[job] = None
        for device in devices:
            self.holders.setdefault(device, {})[job] = share
        self.refresh(devices)

    def let_go(self, job: str, devices: tuple[str, ...]) -> None:
        """Take the devices of a job back."""
        self.attempts.pop(job, None)
        for device in devices:
            holders = self.holders.get(device, {})
            holders.pop(job, None)
            if not holders:
                self.holders.pop(device, None)
        self.refresh(devices)

    def free(self, device_type: str | None = None, *, share: bool = False) -> list[HostDevice]:
        """Return the devices on which a job may start now, in the machine's order.

        Parameters
        ----------
        device_type
            A type, a kind (``gpu`` or ``cpu``), or None for all.
        share
            Whether the job shares: then devices of other such jobs count, and come first.
        """
        found = [self.devices[device] for device in self.open]
        found = [one for one in found if fits_type(one, device_type)]
        found.sort(key=lambda one: self.position[one.id])
        if share:
            roomy = [self.devices[device] for device in self.roomy]
            roomy = [one for one in roomy if fits_type(one, device_type)]
            roomy.sort(key=lambda one: (-len(self.holders[one.id]), self.position[one.id]))
            return roomy + found
        return found


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


def fits_type(device: HostDevice, device_type: str | None) -> bool:
    """Tell whether a device is of a type or kind; None stands for every type."""
    return device_type is None or device_type in (device.type, device.kind)
