"""Rules on devices: one COMP at a time, the times of the profile, one synchronization a lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warren.model.costs import BoolArray, IntArray
from warren.model.units import NEVER_NS
from warren.report.checks.fault import Fault, listed
from warren.report.checks.run_folder import FolderTables


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRows:
    """The costs of the timeline rows; axis R. ``fits_R``: the profile has a row for the pair."""

    comp_ns_R: IntArray
    sync_ns_R: IntArray
    fits_R: BoolArray
    span_ns_R: IntArray
    """From the start of the first COMP to the end of the last."""


def check_devices(run: FolderTables) -> list[Fault]:
    """Return all faults of devices and durations."""
    rows = _rows(run)
    faults = [
        *_fits(run, rows),
        *_order_in_row(run, rows),
        *_busy(run, rows),
        *_spans(run, rows),
        *_sync(run, rows),
        *_one_comp(run),
    ]
    # In the network model ``constant`` synchronizations never wait, so they may overlap.
    return faults + (_one_sync(run, rows) if run.rules.network == "lane" else [])


def _rows(run: FolderTables) -> DeviceRows:
    """Look up the profile's times for each timeline row."""
    line = run.timeline
    place = line.job_R, run.type_D[line.device_R]
    # 0 where the profile has no row: ``NEVER_NS`` times a number of tasks would overflow. A row
    # without a profile row is reported once, by ``_fits``; the other rules demand nothing of its
    # costs.
    fits_R = run.comp_ns_JT[place] < NEVER_NS
    return DeviceRows(
        comp_ns_R=np.where(fits_R, run.comp_ns_JT[place], 0),
        sync_ns_R=np.where(fits_R, run.sync_ns_JT[place], 0),
        fits_R=fits_R,
        span_ns_R=line.comp_end_ns_R - line.start_ns_R,
    )


def _fits(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Return the rows that ran on a device type which their job does not fit."""
    device_R = run.timeline.device_R
    return listed(
        ~rows.fits_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"ran on type {run.devices[device_R[i]]['type']}, which it does not fit",
            expected="a type that profile.csv has a row for",
        ),
    )


def _order_in_row(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Return the rows whose own times contradict each other."""
    line, slack_ns = run.timeline, run.rules.slack_ns
    wrong_R = (rows.span_ns_R < line.busy_ns_R - slack_ns) | (line.busy_ns_R < 0)
    wrong_R |= line.end_ns_R < line.comp_end_ns_R - slack_ns
    return listed(
        wrong_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"start {line.start_ns_R[i] / 1e9} s, COMP end {line.comp_end_ns_R[i] / 1e9} s, "
            f"end {line.end_ns_R[i] / 1e9} s, busy {line.busy_ns_R[i] / 1e9} s",
            expected="start + busy <= COMP end <= end",
        ),
    )


def _busy(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Demand that COMP time is tasks x T^c: exactly in simulation, at least that when padded."""
    line, rules = run.timeline, run.rules
    want_ns_R = line.tasks_R * rows.comp_ns_R
    # Neither exact nor padded: hidden noise may make a task shorter than its profile as well.
    wrong_R = line.busy_ns_R < want_ns_R - rules.slack_ns
    if rules.exact:
        wrong_R = np.abs(line.busy_ns_R - want_ns_R) > rules.slack_ns
    elif not rules.padded:
        wrong_R = np.zeros(len(line), dtype=bool)
    return listed(
        wrong_R & rows.fits_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"busy for {line.busy_ns_R[i] / 1e9} s",
            expected=f"{'' if rules.exact else 'at least '}{want_ns_R[i] / 1e9} s by profile.csv",
        ),
    )


def _spans(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Demand that from start to COMP end a row takes its busy time, and in a stretch its waits.

    In a stretch of n rounds a device waits at least for its own synchronization n - 1 times.
    """
    line, rules = run.timeline, run.rules
    # Live a row may take longer than its busy time, since tasks are handed over one by one; that
    # it takes no less is a rule of ``_order_in_row``.
    if rules.live:
        return []
    waits_R = line.rounds_R - 1
    # With hidden noise T^s is not known, so nothing but the busy time is sure.
    least_ns_R = line.busy_ns_R + (waits_R * rows.sync_ns_R if rules.exact else 0)
    wrong_R = rows.span_ns_R < least_ns_R - rules.slack_ns
    # One round has nothing to wait for, unless its tasks on one device wait for the pushes of one
    # another. The wait of a stretch for other devices is open.
    whole_R = (waits_R == 0) & ((line.tasks_R == 1) | (rules.network != "fluid"))
    most_ns_R = np.maximum(least_ns_R, _slowest_of_ring(run, line.busy_ns_R))
    wrong_R |= whole_R & (rows.span_ns_R > most_ns_R + rules.slack_ns)
    return listed(
        wrong_R & rows.fits_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"COMP lasts {rows.span_ns_R[i] / 1e9} s",
            expected=f"{'at least ' if waits_R[i] else ''}{least_ns_R[i] / 1e9} s",
        ),
    )


def _slowest_of_ring(run: FolderTables, time_ns_R: IntArray) -> IntArray:
    """Return for each row of a ring the longest time of its members in that round; else 0.

    A ring exchanges when all have computed, and ends when the last has: its members wait.
    """
    line = run.timeline
    is_ring_J = np.array([row["sync"] == "ring" for row in run.jobs], dtype=np.bool_)
    slowest_ns_R = np.zeros(len(line), dtype=np.int64)
    rows = np.flatnonzero(is_ring_J[line.job_R])
    if not len(rows):
        return slowest_ns_R
    round_R = line.round_R[rows]
    key = line.job_R[rows] * (round_R.max() + 1) + round_R
    _, group = np.unique(key, return_inverse=True)
    slowest_ns_G = np.zeros(group.max() + 1, dtype=np.int64)
    np.maximum.at(slowest_ns_G, group, time_ns_R[rows])
    slowest_ns_R[rows] = slowest_ns_G[group]
    return slowest_ns_R


def _sync(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Demand that the last synchronization lasts T^s, or at least that where it may wait.

    It is exactly T^s in a simulation of the network model ``constant``.
    """
    line, rules = run.timeline, run.rules
    # Under ``contention`` and ``fluid`` the links set the time of an exchange, which no file holds.
    if not (rules.exact or rules.padded) or rules.network not in ("constant", "lane"):
        return []
    took_ns_R = line.end_ns_R - line.comp_end_ns_R
    wrong_R = took_ns_R < rows.sync_ns_R - rules.slack_ns
    only = rules.exact and rules.network == "constant"
    if only:
        most_ns_R = np.maximum(rows.sync_ns_R, _slowest_of_ring(run, rows.sync_ns_R))
        wrong_R |= took_ns_R > most_ns_R + rules.slack_ns
    return listed(
        wrong_R & rows.fits_R,
        lambda i: Fault(
            place=run.row(i),
            what=f"synchronization took {took_ns_R[i] / 1e9} s",
            expected=f"{'' if only else 'at least '}{rows.sync_ns_R[i] / 1e9} s by profile.csv",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """The stays of devices with one stretch each (its rows joined), by device and time; axis V."""

    row_V: IntArray
    device_V: IntArray
    start_ns_V: IntArray
    comp_end_ns_V: IntArray
    end_ns_V: IntArray
    tasks_V: IntArray


def visits_of(run: FolderTables, by_end: bool) -> Visits:
    """Return the stays of devices with a round's task or a stretch, by start or by end.

    Rows that share device and stretch (several rounds) interleave, so they are joined.
    """
    line = run.timeline
    # Shards of one stretch on one device become neighbors; a row of one round stands alone.
    order = np.lexsort((line.round_R, line.job_R, line.device_R))
    columns = (line.device_R[order], line.job_R[order], line.round_R[order])
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    new |= line.rounds_R[order] == 1
    first = np.flatnonzero(new)
    if not len(first):
        none = np.zeros(0, dtype=np.int64)
        return Visits(**dict.fromkeys(Visits.__slots__, none))
    joined = {
        "row_V": order[first],
        "device_V": columns[0][first],
        "start_ns_V": np.minimum.reduceat(line.start_ns_R[order], first),
        "comp_end_ns_V": np.maximum.reduceat(line.comp_end_ns_R[order], first),
        "end_ns_V": np.maximum.reduceat(line.end_ns_R[order], first),
        "tasks_V": np.add.reduceat(line.tasks_R[order], first),
    }
    time = joined["end_ns_V"] if by_end else joined["start_ns_V"]
    sort = np.lexsort((joined["comp_end_ns_V"], time, joined["device_V"]))
    return Visits(**{name: column[sort] for name, column in joined.items()})


def _one_comp(run: FolderTables) -> list[Fault]:
    """Return the stays that begin before COMP of the one before on their device has ended."""
    visits = visits_of(run, by_end=False)
    # The first stay of each device has none before it: -NEVER_NS lets it start at any time.
    before_ns_V = np.full(len(visits.row_V), -NEVER_NS, dtype=np.int64)
    before_ns_V[1:] = np.where(np.diff(visits.device_V) == 0, visits.comp_end_ns_V[:-1], -NEVER_NS)
    return listed(
        visits.start_ns_V < before_ns_V - run.rules.slack_ns,
        lambda v: Fault(
            place=run.row(int(visits.row_V[v])),
            what=f"COMP starts at {visits.start_ns_V[v] / 1e9} s while another COMP is running",
            expected=f"a start at or after {before_ns_V[v] / 1e9} s",
        ),
    )


def _one_sync(run: FolderTables, rows: DeviceRows) -> list[Fault]:
    """Demand, in ``lane``, that a visit's synchronizations fit between the last end and its own.

    The lane is served in COMP order, so those of earlier visits have all ended before.
    """
    # With hidden noise a synchronization may take less than T^s.
    if not (run.rules.exact or run.rules.padded):
        return []
    visits = visits_of(run, by_end=True)
    before_ns_V = np.full(len(visits.row_V), -NEVER_NS, dtype=np.int64)
    before_ns_V[1:] = np.where(np.diff(visits.device_V) == 0, visits.end_ns_V[:-1], -NEVER_NS)
    need_ns_V = visits.tasks_V * rows.sync_ns_R[visits.row_V]
    return listed(
        visits.end_ns_V - before_ns_V < need_ns_V - run.rules.slack_ns,
        lambda v: Fault(
            place=run.row(int(visits.row_V[v])),
            what="its synchronization overlaps another one on the device's lane",
            expected=f"an end at or after {(before_ns_V[v] + need_ns_V[v]) / 1e9} s",
        ),
    )
