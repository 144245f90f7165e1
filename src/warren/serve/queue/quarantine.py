"""GPUs that the service takes out itself: on a fatal error, or a test that fails; and back again.

A GPU is tested before the first job after its machine came or started again, and 10 min, 1 h, 4 h
and then each day after its last fault. It comes back when it passes, or by ``warren undrain``. An
admin's drain is never touched. A host whose agent cannot test brings no GPU back by itself.
"""

from __future__ import annotations

from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import DeviceTested, XidSeen
from warren.serve.queue.machines import BEFORE_USE, MachineState
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent, DeviceFaulted, Drained, Undrained
from warren.serve.records.machines import Machine
from warren.serve.records.xid import xid

BACKOFF_S: Final = (600.0, 3600.0, 4 * 3600.0, 86_400.0)
"""Time from each fault of a GPU in a row to its next test, in seconds; the last one stays."""
QUARANTINED: Final = "quarantined: "
"""Beginning of the reason for which a GPU is out after a fault."""


def first_tests(state: MachineState | None, machine: Machine, now_ns: int) -> list[AnyEvent]:
    """Return the drains of all GPUs that are to be tested before their first job.

    Parameters
    ----------
    state
        The host as it was known before; None: it is new.
    machine
        The host, as its agent describes it.
    now_ns
        The present, in nanoseconds since 1970.
    """
    if not machine.tests or (state is not None and state.machine.boot_id == machine.boot_id):
        return []
    known = MachineState(machine) if state is None else state
    return [
        Drained(time_ns=now_ns, host=machine.name, device=device.id, reason=BEFORE_USE)
        for device in machine.devices
        if device.kind == "gpu"
        and (device.id not in known.drained or device.id in known.quarantined)
    ]


def xid_events(queue: Queue, report: XidSeen, now_ns: int) -> list[AnyEvent]:
    """Return what an error of a GPU's driver means: it is noted, and a faulty GPU is taken out."""
    state = queue.machines.get(report.host)
    if state is None or report.device not in state.devices:
        return []
    found: list[AnyEvent] = [
        DeviceFaulted(time_ns=now_ns, host=report.host, device=report.device, xid=report.xid)
    ]
    meaning = xid(report.xid)
    if meaning.ends_device and report.device not in state.drained:
        found.append(_out(report, str(meaning), now_ns))
    return found


def tested_events(queue: Queue, report: DeviceTested, now_ns: int) -> list[AnyEvent]:
    """Return what the end of a test means: the GPU comes back, or stays out a while longer."""
    state = queue.machines.get(report.host)
    if state is None or report.device not in state.quarantined:
        return []
    is_first = state.drained[report.device] == BEFORE_USE
    if report.passed or (report.passed is None and is_first):
        return [Undrained(time_ns=now_ns, host=report.host, device=report.device)]
    what = "its self-test failed" if report.passed is not None else "it could not be tested"
    return [_out(report, f"{what}: {report.text}" if report.text else what, now_ns)]


def _out(report: XidSeen | DeviceTested, why: str, now_ns: int) -> Drained:
    reason = f"{QUARANTINED}{why}"
    return Drained(time_ns=now_ns, host=report.host, device=report.device, reason=reason)


def due_tests(queue: Queue, now_ns: int) -> list[tuple[str, str]]:
    """Return the hosts and devices that are to be tested now; no job holds them."""
    return [
        (host, device)
        for host, state in queue.machines.items()
        if state.quarantined and state.connected and state.machine.tests
        for device, quarantine in state.quarantined.items()
        if device in state.devices
        and not state.holders.get(device)
        and now_ns >= quarantine.time_ns + _wait_ns(quarantine.faults)
    ]


def _wait_ns(faults: int) -> int:
    if not faults:
        return 0
    return int(BACKOFF_S[min(faults, len(BACKOFF_S)) - 1] * NS_PER_S)
