"""Which waiting rings start at this instant, beside those that are at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warren.solve.common.alarms import set_alarm
from warren.solve.rings.device_choice import Ways
from warren.solve.rings.dispatch import Desk, new_desk, start_those_with_room
from warren.solve.rings.timing import Gangs, Links


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """A ring that has started: its devices, when it has ended at the latest, rounds left."""

    devices: Sequence[int]
    until_ns: int
    rounds: int


def longest_ns_J(gangs: Gangs, links: Links, fits_JT: Any) -> Any:
    """No ring takes longer once it has its devices, whatever devices, and whatever else runs.

    (6)-(8) of SJF-BCO with each worker on a host of its own and as many gangs as the largest host
    has devices, or on one host, if that is slower.
    """
    most = int(np.diff(links.first_S).max(initial=1))
    slowest = min(float(links.rate_P[0]), float(np.asarray(links.rate_P)[: most + 1].min()))
    exchange_s_J = gangs.sent_bytes_J / slowest + links.host_s[0] * np.diff(gangs.first_J)
    comp_J, sync_J = (
        np.where(fits_JT, times_JT, 0).max(axis=1)
        for times_JT in (gangs.comp_ns_JT, gangs.sync_ns_JT)
    )
    added_J = np.where(gangs.shared_J, np.ceil(exchange_s_J * 1e9).astype(np.int64), sync_J)
    return gangs.rounds_J * np.maximum(1, comp_J + added_J)


def start_now(
    gangs: Gangs, links: Links, ways: Ways, at_work: Mapping[int, AtWork], line: Sequence[int],
    now_ns: int, first: int,
) -> list[tuple[int, list[int]]]:  # fmt: skip
    """Rings of ``line``, in its order, that have room now, with their devices.

    ``first``: the ring that the others may not put off, -2 for none: devices are kept for it if it
    has no room, until the rings at work have left it enough at the latest. ``ways.span_ns_J`` says
    how long rings take at most.
    """
    desk = new_desk(gangs, links)
    for job, one in at_work.items():
        _seat(gangs, links, desk, job, one, now_ns)
    jobs = len(gangs.rounds_J)
    desk.line_J[: len(line)] = line
    desk.after_J[: len(line)] = np.arange(1, len(line) + 1)
    desk.after_J[len(line) - 1] = -1
    desk.after_J[jobs] = 0 if line else -1
    start_those_with_room(gangs, links, ways, desk, now_ns, 0, 0, first)
    return [
        (job, sorted(desk.device_A[gangs.first_J[job] : gangs.first_J[job + 1]].tolist()))
        for job in desk.begun_J[: desk.begun[0]].tolist()
    ]


def _seat(gangs: Gangs, links: Links, desk: Desk, job: int, one: AtWork, now_ns: int) -> None:
    state, room, first = desk.state, desk.room, gangs.first_J[job]
    devices = np.array(one.devices, dtype=np.int64)
    hosts = np.unique(links.host_D[devices])
    desk.device_A[first : first + len(devices)] = devices
    state.host_A[first : first + len(hosts)] = hosts
    state.hosts_J[job] = len(hosts)
    state.gang_D[devices] = job
    state.works_J[job] = True
    state.left_J[job] = one.rounds
    if gangs.shared_J[job] and len(hosts) > 1:
        state.crossing_S[hosts] += 1
    np.add.at(room.free_ST, (links.host_D[devices], links.type_D[devices]), -1)
    room.free[0] -= len(devices)
    room.works[0] += 1
    set_alarm(state.alarms, job, max(now_ns + 1, one.until_ns))
