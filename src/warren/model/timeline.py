"""Tasks with their devices and times, in columns: the common result of both worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.events import TasksDone


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One row an assignment, int64 columns of length R, sorted by (start, device, job, round).

    ``shard_R`` is -1 where a row stands for several shards; ``tasks_R`` counts tasks (rounds
    times shards); ``end_ns_R`` is when the last synchronization ended; ``busy_ns_R`` is COMP
    time on the device.
    """

    job_R: IntArray
    round_R: IntArray
    rounds_R: IntArray
    shard_R: IntArray
    tasks_R: IntArray
    device_R: IntArray
    start_ns_R: IntArray
    comp_end_ns_R: IntArray
    end_ns_R: IntArray
    busy_ns_R: IntArray

    def __len__(self) -> int:
        return len(self.job_R)

    @staticmethod
    def from_columns(columns: Iterable[IntArray]) -> Timeline:
        """Make a timeline of columns in field order; rows in any order, which are sorted here."""
        names = [field.name for field in fields(Timeline)]
        # ``strict``: a journal of another version, with more or fewer columns, must not be read.
        table = dict(zip(names, columns, strict=True))
        if not _in_order(table):
            start_ns_R = table["start_ns_R"]
            order = sorted_by_start(start_ns_R, lambda rows: [table[name][rows] for name in _TIES])
            for name in names:
                table[name] = table[name][order]
        return Timeline(**table)

    @staticmethod
    def from_events(done: Iterable[TasksDone]) -> Timeline:
        """Make the timeline of the assignments that these events ended."""
        rows = [
            (
                event.job,
                event.round,
                event.rounds,
                event.shards[0] if len(event.shards) == 1 else -1,
                event.rounds * len(event.shards),
                event.device,
                event.start_ns,
                event.comp_end_ns,
                event.time_ns,
                event.busy_ns,
                event.ended_ns,
            )
            for event in done
        ]
        # One row of memory for each column, as ``from_columns`` takes them.
        table = np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(len(rows), 11).T)
        # ``TasksDone.end_ns`` of all at once.
        ended_ns_R = table[10]
        table[8] = np.where(ended_ns_R < 0, table[8], ended_ns_R)
        return Timeline.from_columns(table[:10])


_TIES: Final = ("shard_R", "round_R", "job_R", "device_R")
"""Columns that rows which start together are sorted by; the last one counts first."""


def _in_order(table: dict[str, IntArray]) -> bool:
    """Tell whether rows are in order already, as those of a journal are."""
    # Ties are narrowed column by column: only neighbors that agree so far are looked at.
    start_ns_R = table["start_ns_R"]
    if (start_ns_R[1:] < start_ns_R[:-1]).any():
        return False
    tied = np.flatnonzero(start_ns_R[1:] == start_ns_R[:-1])
    for name in reversed(_TIES):
        here, following = table[name][tied], table[name][tied + 1]
        if (following < here).any():
            return False
        tied = tied[here == following]
    return True


def sorted_by_start(start_ns_R: IntArray, ties: Callable[[IntArray], list[IntArray]]) -> IntArray:
    """Return the order of rows by (start, device, job, round, shard).

    ``ties`` gives the columns (shard, round, job, device) of some rows. Few rows start together,
    so only those are compared by more than their start, which is often in order already.
    """
    order = np.argsort(start_ns_R, kind="stable")
    # Rows whose start equals the start of the row before or after.
    sorted_ns_R = start_ns_R.take(order)
    tied_R = np.zeros(len(order), dtype=np.bool_)
    np.equal(sorted_ns_R[1:], sorted_ns_R[:-1], out=tied_R[1:])
    tied_R[:-1] |= tied_R[1:]
    # ``lexsort`` takes the key that counts first last. Sorted so, groups of equal starts stay in
    # the places they had.
    tied = order[tied_R]
    order[tied_R] = tied[np.lexsort([*ties(tied), start_ns_R[tied]])]
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """The result of running a whole plan: its timeline, and each job's last barrier.

    ``finish_ns_J`` is -1 for a job whose rounds the plan does not complete.
    """

    timeline: Timeline
    finish_ns_J: IntArray
