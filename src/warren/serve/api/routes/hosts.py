"""Routes of hosts: what they have, which jobs use it, and draining."""

from __future__ import annotations

from typing import Final

import msgspec

from warren.serve.api.endpoint import Call, Route
from warren.serve.queue import requests
from warren.serve.queue.machines import MachineState
from warren.serve.queue.state import Queue
from warren.serve.records.xid import xid


class DeviceJob(msgspec.Struct, frozen=True):
    """A job that holds a device."""

    id: str
    name: str
    user: str


class HostDeviceRow(msgspec.Struct, frozen=True):
    """A device and its use.

    ``use`` is ``free``, ``jobs`` where jobs hold it, ``foreign`` where processes of no job use it,
    ``drained``, or ``away`` while its host does not answer. ``drained`` is the reason of its drain,
    ``fault`` the last error that its driver reported and that was not one of a program.
    """

    id: str
    kind: str
    type: str
    use: str
    jobs: list[DeviceJob]
    memory_bytes: int
    used_bytes: int
    foreign: tuple[str, ...]
    drained: str | None
    fault: str


class HostRow(msgspec.Struct, frozen=True):
    """A host and its devices. ``reason`` says why it is not connected, ``drained`` why it is."""

    name: str
    connected: bool
    reason: str
    drained: str | None
    processors: int
    memory_bytes: int
    limits: str
    version: str
    devices: list[HostDeviceRow]


def host_row(queue: Queue, name: str) -> HostRow:
    """Return a host of the queue for people."""
    state = queue.machines[name]
    machine = state.machine
    return HostRow(
        name=name,
        connected=state.connected,
        reason=state.reason,
        drained=state.drained.get(None),
        processors=machine.processors,
        memory_bytes=machine.memory_bytes,
        limits=machine.limits,
        version=machine.version,
        devices=[_device_row(queue, state, device.id) for device in machine.devices],
    )


def _device_row(queue: Queue, state: MachineState, id_: str) -> HostDeviceRow:
    device, use = state.devices[id_], state.uses.get(id_)
    jobs = [queue.jobs[job] for job in state.holders.get(id_, ())]
    return HostDeviceRow(
        id=id_,
        kind=device.kind,
        type=device.type,
        use=use_of(state, id_),
        jobs=[DeviceJob(job.id, job.spec.name, job.user) for job in jobs],
        memory_bytes=device.memory_bytes,
        used_bytes=use.used_bytes if use else 0,
        foreign=use.foreign if use else (),
        drained=state.drained.get(id_),
        fault=str(xid(state.xids[id_][0])) if id_ in state.xids else "",
    )


def use_of(state: MachineState, device: str) -> str:
    """Return the use of a device in a word; see ``HostDeviceRow``."""
    use = state.uses.get(device)
    if not state.connected:
        return "away"
    if state.holders.get(device):
        return "jobs"
    if None in state.drained or device in state.drained:
        return "drained"
    return "foreign" if use and use.foreign else "free"


class DrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is drained: the whole host, or one device of it, and why."""

    device: str | None = None
    reason: str = ""


class UndrainBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be used again: the whole host, or one device of it."""

    device: str | None = None


async def list_hosts(call: Call) -> list[HostRow]:
    """List hosts and their devices."""
    queue = call.service.queue
    return [host_row(queue, name) for name in queue.machines]


async def drain_host(call: Call, host: str, body: DrainBody) -> HostRow:
    """Start no job on a host or a device from now on; jobs that run there go on."""
    call.service.ask(
        lambda queue, now: requests.drain(
            queue, host, body.device, body.reason, call.caller, now
        ),
        call.caller, f"drain {host}",
    )  # fmt: skip
    return host_row(call.service.queue, host)


async def undrain_host(call: Call, host: str, body: UndrainBody) -> HostRow:
    """Let jobs start on a host or a device again."""
    call.service.ask(
        lambda queue, now: requests.undrain(queue, host, body.device, call.caller, now),
        call.caller, f"undrain {host}",
    )  # fmt: skip
    return host_row(call.service.queue, host)


async def remove_host(call: Call, host: str) -> list[HostRow]:
    """Take a lost host away; its jobs count as ended with it."""
    call.service.ask(
        lambda queue, now: requests.remove_machine(queue, host, call.caller, now),
        call.caller, f"remove host {host}",
    )  # fmt: skip
    return await list_hosts(call)


ROUTES: Final = (
    Route("GET", "/v1/hosts", list_hosts),
    Route("POST", "/v1/hosts/{host}/drain", drain_host),
    Route("POST", "/v1/hosts/{host}/undrain", undrain_host),
    Route("DELETE", "/v1/hosts/{host}", remove_host),
)
"""Routes of hosts."""
