"""One drawn world played by the simulator and by the second simulation, and what is wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from fluid_checks import broken_rates, passed_bytes, placed_bytes, unlike
from fluid_draws import FluidWorld, Played, differences, journal, model_of, played
from fluid_model import Model
from fluid_steps import Rounding, Simulation

from warren.core.journal_reader import read_history
from warren.model.link_use import LinkUse
from warren.model.timeline import Timeline

ABSOLUTE_NS, RELATIVE = 50.0, 1e-9
"""The simulator rounds each end to a nanosecond, and what follows comes so much later."""
SPREADS = 3.0
"""How much further apart than by other roundings times may be."""
CLOSE = 1e-9
BYTES = 2.0
"""Rows of a run's link use are whole bytes, right to one byte in all."""
OTHERS = (Rounding(0.0), Rounding(1.0), Rounding(close_ns=0.0), Rounding(close_ns=20.0))
"""Where two simulations differ, the second is run with these, too; see ``is_sensitive``."""


@dataclass(frozen=True)
class Compared:
    """``times``: how many were compared, ``largest_ns``: how far apart they are at most.

    ``intervals``: between two changes of rates; ``broken``: a line for all that does not hold.
    ``sensitive``: times are further apart, but no more than a nanosecond on the way moves them.
    """

    times: int
    largest_ns: float
    intervals: int
    broken: tuple[str, ...]
    sensitive: bool


def compared(world: FluidWorld, change: Callable[[Model], Model] = lambda same: same) -> Compared:
    """Play a world twice, and check times, bytes and rates; ``change``: the second world."""
    data = journal(world)
    told = played(data)
    model = change(model_of(world, told.shapes))
    found = Simulation(model, told.assigned, told.classed).run()
    rows = differences(told, found)
    broken = apart(rows)
    sensitive = bool(broken) and is_sensitive(model, told, rows)
    use = read_history(data).link_use
    if sensitive:
        broken, rows = [], [row for row in rows if not apart([row])]
    elif use is not None:
        broken += broken_bins(model, found, use)
    broken += broken_bytes(model, told, found, use)
    if world.compiles:
        broken += broken_paths(data, journal(world, compiled=True))
    for interval in found.intervals:
        broken += broken_rates(model, interval)
    largest = max((row[0] for row in rows), default=0.0)
    return Compared(len(rows), largest, len(found.intervals), tuple(broken), sensitive)


def apart(rows: Sequence[tuple[float, float, str]]) -> list[str]:
    """Times that are too far apart, a line each."""
    return [
        f"{apart_ns:.0f} ns apart: {what}"
        for apart_ns, time_ns, what in rows
        if apart_ns > ABSOLUTE_NS + RELATIVE * time_ns
    ]


def is_sensitive(model: Model, told: Played, rows: Sequence[tuple[float, float, str]]) -> bool:
    """Whether a nanosecond on the way moves all times as far as they are apart.

    A job may slow another that slows it in turn, so that a difference grows from round to round;
    and a flow that ends at the very instant at which another class comes first may or may not keep
    its last byte for long.
    """
    runs = [Simulation(model, told.assigned, told.classed, one).run() for one in OTHERS]
    # Of each time: how far the simulator's is from that of each of these runs, and from the first.
    each = [[row[0] for row in differences(told, run)] for run in runs]
    for at, row in enumerate(rows):
        if not apart([row]):
            continue
        apart_ns = [row[0], *(one[at] for one in each)]
        spread_ns = max(apart_ns) - min(apart_ns)
        if min(apart_ns) > ABSOLUTE_NS + RELATIVE * row[1] + SPREADS * spread_ns:
            return False
    return True


def broken_paths(events: bytes, compiled: bytes) -> Iterator[str]:
    """Where a plan has other times in compiled code than by events."""
    one, other = (read_history(data) for data in (events, compiled))
    if one.finish_ns_J.tolist() != other.finish_ns_J.tolist():
        yield f"ends by events {one.finish_ns_J.tolist()}, compiled {other.finish_ns_J.tolist()}"
    if _rows(one.timeline) != _rows(other.timeline):
        yield "timelines of events and of compiled code differ"


def _rows(line: Timeline) -> list[tuple[int, ...]]:
    columns = [getattr(line, name) for name in line.__slots__]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def broken_bytes(
    model: Model, told: Played, found: Simulation, use: LinkUse | None
) -> Iterator[str]:
    """Whether bytes are conserved in both, and the simulator's record of them is right."""
    placed = placed_bytes(model, told.assigned)
    yield from unlike(passed_bytes(found.intervals), placed, CLOSE, BYTES)
    if use is None:
        return
    passed: dict[tuple[int, int], float] = defaultdict(float)
    for link, job, size in zip(use.link_R, use.job_R, use.bytes_R, strict=True):
        passed[int(link), int(job)] += float(size)
    yield from unlike(passed, placed, CLOSE, BYTES)


def broken_bins(model: Model, found: Simulation, use: LinkUse) -> Iterator[str]:
    """Where a bin holds more than its link carries, or other bytes than the second simulation."""
    there: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for interval in found.intervals:
        _spread(there, interval.begin_ns, interval.end_ns, interval.flows, use.bin_ns)
    here: dict[tuple[int, int, int, int], float] = defaultdict(float)
    load: dict[tuple[int, int], float] = defaultdict(float)
    rows: dict[tuple[int, int], int] = defaultdict(int)
    columns = (use.link_R, use.job_R, use.class_R, use.bin_R, use.bytes_R)
    for link, job, kind, at, size in zip(
        *(np.asarray(one).tolist() for one in columns), strict=True
    ):
        here[link, job, kind, at] += size
        load[link, at] += size
        rows[link, at] += 1
    for (link, at), size in load.items():
        most = model.up[link // 2] * use.bin_ns
        if size > most * (1 + CLOSE) + BYTES * rows[link, at]:
            yield f"link {link}, bin {at}: {size} of {most} bytes"
    # What is some ns apart may be in the next bin, at each of some changes of a rate.
    slack = ABSOLUTE_NS * 50 * max(model.up) + BYTES
    for key in sorted({*here, *there}):
        if abs(here.get(key, 0.0) - there.get(key, 0.0)) > slack:
            yield f"link, job, class, bin {key}: {here.get(key)} and {there.get(key)} bytes"


def _spread(there, begin_ns, end_ns, flows, bin_ns) -> None:  # type: ignore[no-untyped-def]
    """Add what flows to the bins in which it does."""
    at = int(begin_ns // bin_ns)
    while at * bin_ns < end_ns:
        span = min(end_ns, (at + 1) * bin_ns) - max(begin_ns, at * bin_ns)
        for links, kind, _, rate, job in flows:
            for link in links:
                there[link, job, kind, at] += rate * span
        at += 1
