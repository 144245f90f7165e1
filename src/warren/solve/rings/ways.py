"""What rings are dispatched by: orders to begin with, and how patient they are.

``patience``: a ring leaves types of device to others that make its round so many times as long as
its fastest gang could. ``hop``: it waits for one host rather than cross hosts, where that makes its
round so many times as long. Which of these pays depends on the load, so several are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from warren.solve.rings.device_choice import Ways
from warren.solve.rings.timing import Gangs, Links

PATIENCES: Final = (np.inf, 2.0, 1.2)
HOPS: Final = (np.inf, 1.5, 1.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Each ring with the cluster to itself, on as few hosts as can hold it.

    ``pace_ns_JT``: a round on a type, without what links take, -1 where it may not run.
    ``level_ns_J``: that of the slowest device of its fastest gang; ``least_ns_J``: with links.
    """

    pace_ns_JT: Any
    level_ns_J: Any
    least_ns_J: Any
    span_ns_J: Any


def alone(gangs: Gangs, links: Links, fits_JT: Any) -> Alone:
    """For rings that each have a place."""
    shared_J, size_J = np.asarray(gangs.shared_J), np.diff(gangs.first_J)
    pace_JT = gangs.comp_ns_JT + np.where(shared_J[:, None], 0, gangs.sync_ns_JT)
    pace_JT = np.where(fits_JT, pace_JT, -1)
    count_T = np.bincount(links.type_D, minlength=pace_JT.shape[1])
    fastest_JT = np.argsort(np.where(fits_JT, pace_JT, np.iinfo(np.int64).max), axis=1)
    room_JT = np.cumsum(np.where(fits_JT, count_T, 0)[_rows(fastest_JT), fastest_JT], axis=1)
    enough_J = (room_JT >= size_J[:, None]).argmax(axis=1)
    level_J = pace_JT[_rows(fastest_JT)[:, 0], fastest_JT[np.arange(len(size_J)), enough_J]]
    added_J = np.where(shared_J, np.rint(_least_exchange_s_J(gangs, links, size_J) * 1e9), 0)
    least_J = np.maximum(1, level_J + added_J.astype(np.int64))
    return Alone(
        pace_ns_JT=pace_JT.astype(np.int64),
        level_ns_J=level_J.astype(np.int64),
        least_ns_J=least_J,
        span_ns_J=least_J * gangs.rounds_J,
    )


def _rows(cells_JT: Any) -> Any:
    return np.arange(len(cells_JT))[:, None]


def _least_exchange_s_J(gangs: Gangs, links: Links, size_J: Any) -> Any:
    held_S = np.sort(np.diff(links.first_S))[::-1]
    hosts_J = np.searchsorted(np.cumsum(held_S), size_J) + 1
    rate_J = np.asarray(links.rate_P)[np.where(hosts_J > 1, 1, 0)]
    return gangs.sent_bytes_J / rate_J + links.host_s[0] * hosts_J


def ways_to_try(gangs: Gangs, times: Alone) -> Iterator[Ways]:
    """Every patience and hop that differs from those before for some ring."""
    seen: list[Any] = []
    for patience in PATIENCES:
        most_J = np.minimum(patience * times.level_ns_J, 2.0**62)
        pace_JT = np.where(times.pace_ns_JT <= most_J[:, None], times.pace_ns_JT, -1)
        if not any(np.array_equal(pace_JT, one) for one in seen):
            seen.append(pace_JT)
    hops = HOPS if np.any(gangs.shared_J) else HOPS[:1]
    for pace_JT, hop in product(seen, hops):
        yield ways(times, pace_JT, hop)


def ways(times: Alone, pace_ns_JT: Any, hop: float = np.inf) -> Ways:
    """``Ways`` of rings that may run on these types."""
    return Ways(
        pace_ns_JT=np.ascontiguousarray(pace_ns_JT, dtype=np.int64),
        least_ns_J=times.least_ns_J,
        span_ns_J=times.span_ns_J,
        hop=np.array([hop]),
    )


def lines(gangs: Gangs, times: Alone, weight_J: Any) -> Iterator[Any]:
    """Orders: by length, devices or device time, most or least first; by arrival."""
    span_J, size_J = times.span_ns_J.astype(np.float64), np.diff(gangs.first_J)
    work_J = span_J * size_J
    # numpy's last key counts first
    yield np.lexsort((-size_J, -span_J))
    yield np.lexsort((-span_J, -size_J))
    yield np.argsort(-work_J, kind="stable")
    yield np.argsort(work_J / weight_J, kind="stable")
    yield np.argsort(span_J / weight_J, kind="stable")
    yield np.lexsort((span_J, size_J))
    yield np.arange(len(size_J))
