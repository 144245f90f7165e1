"""Feeding a plan to a world that takes assignments: each device gets a short look-ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from warren.model.costs import IntArray
from warren.model.decision import Assignment
from warren.model.units import NEVER_NS

LOOK_AHEAD: Final = 3
"""Most assignments that a device holds: the running one, and those whose bytes may come early."""


class _Row(NamedTuple):
    """An assignment and its place in the plan, by which rows sort; parts of one, by round."""

    place: int
    round: int
    assignment: Assignment


class PlanFeeder:
    """Gives out a plan's assignments, device by device, at most ``LOOK_AHEAD`` ahead.

    On a device they follow the plan's order. A row that a roll-back brings back has its old place
    in it, so it comes before all rows that were not handed out yet. A stretch of several rounds is
    handed out on each device when its turn comes there; the world runs its later rounds once it is
    whole.

    Nothing waits for ever, however often jobs are rolled back, by two rules:

    1. A row is handed out once all tasks of its job's earlier rounds are.
    2. When rows come back, parts of stretches begun by other jobs stay before them.

    There is always one order of all rounds and stretches. Every device follows it, in what it holds
    and in what it will get, and each round of a job comes after the round before. At first it is
    the plan's. After a roll-back it is: first the rows that were handed out or begun, in the order
    so far; then the rest, in the plan's order. By 2 devices follow it; by 1 no round in the first
    part waits for one in the second. The first row in it that has not ended stands first on its
    devices and its barrier has passed, so it is handed out and runs.
    """

    def __init__(self, assignments: Iterable[Assignment], devices: int, scale_J: IntArray) -> None:
        self._scale_J: list[int] = scale_J.tolist()
        self._rows: list[deque[_Row]] = [deque() for _ in range(devices)]
        self._waiting_J = [0] * len(self._scale_J)
        self._handed_J: list[list[_Row]] = [[] for _ in self._scale_J]
        # Shards handed out, by first round; and the first round that is not whole.
        self._shards_J: list[dict[int, int]] = [{} for _ in self._scale_J]
        self._whole_J = [0] * len(self._scale_J)
        for place, one in enumerate(assignments):
            self._rows[one.device].append(_Row(place, one.round, one))
            self._waiting_J[one.job] += 1

    def feed(self, queued_D: Sequence[int]) -> list[Assignment]:
        """Return the assignments to append to the devices, in order; ``queued_D`` counts theirs."""
        result: list[Assignment] = []
        todo = [device for device, rows in enumerate(self._rows) if rows]
        room_D = [LOOK_AHEAD - queued for queued in queued_D]
        # Again and again over the devices until a pass finds nothing: by rule 1 a row given out on
        # one device may let a row on another follow.
        before = -1
        while len(result) > before and todo:
            before = len(result)
            for device in todo:
                rows = self._rows[device]
                while rows and room_D[device] > 0 and self._may(rows[0].assignment):
                    room_D[device] -= 1
                    result.append(self._hand_out(rows.popleft()))
            todo = [device for device in todo if self._rows[device] and room_D[device] > 0]
        return result

    def drop(self, job: int) -> None:
        """Forget the assignments of a job that has ended."""
        # Later than any round: nothing of the job can have to wait any more.
        self._whole_J[job] = NEVER_NS
        self._handed_J[job].clear()
        if self._waiting_J[job]:
            self._waiting_J[job] = 0
            for device, rows in enumerate(self._rows):
                self._rows[device] = deque(row for row in rows if row.assignment.job != job)

    def roll_back(self, job: int, round_no: int) -> None:
        """Take back the handed-out assignments of a job's rounds from this one on."""
        # A stretch that the round cuts in two is divided: its earlier part stays given out.
        back, kept = [], []
        for row in self._handed_J[job]:
            one = row.assignment
            end = one.round + one.rounds
            if one.round < round_no:
                kept.append(_part(row, one.round, min(end, round_no)))
            if end > round_no:
                back.append(_part(row, max(one.round, round_no), end))
        self._handed_J[job] = kept
        self._shards_J[job] = {}
        self._whole_J[job] = min(self._whole_J[job], round_no)
        self._waiting_J[job] += len(back)
        for device, rows in enumerate(self._rows):
            # Rule 2: parts of begun stretches first; then everything else in the plan's order.
            begun = [row for row in rows if self._begun(row.assignment)]
            rest = [row for row in rows if not self._begun(row.assignment)]
            rest += [row for row in back if row.assignment.device == device]
            self._rows[device] = deque(begun + sorted(rest))

    def _may(self, one: Assignment) -> bool:
        """Tell whether rule 1 allows it: all tasks of the job's earlier rounds are handed out."""
        return one.round <= self._whole_J[one.job]

    def _begun(self, one: Assignment) -> bool:
        """Tell whether another part of this stretch of several rounds was given out already."""
        return one.rounds > 1 and one.round in self._shards_J[one.job]

    def _hand_out(self, row: _Row) -> Assignment:
        """Note that a row is given out, and return its assignment."""
        one = row.assignment
        job, shards = one.job, self._shards_J[one.job]
        self._handed_J[job].append(row)
        self._waiting_J[job] -= 1
        shards[one.round] = shards.get(one.round, 0) + len(one.shards)
        if shards[one.round] == self._scale_J[job]:
            # By rule 1 only the first round that is not whole is ever handed out.
            del shards[one.round]
            self._whole_J[job] = one.round + one.rounds
        return one


def _part(row: _Row, first: int, end: int) -> _Row:
    """Return the part of a row with its rounds from ``first`` to before ``end``."""
    one = msgspec.structs.replace(row.assignment, round=first, rounds=end - first)
    return _Row(row.place, first, one)
