"""What a policy asks for, assignments or a plan, and its codes for every job it leaves waiting.

A *stretch* is several rounds in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec
import numpy as np

from warren.model.costs import IntArray

ENDLESS: Final = 2**40
"""The rounds of a stretch that goes on until its job ends, whenever that is."""


class Assignment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Put tasks of one job at the end of one device's queue.

    The device runs, for each round from ``round`` to ``round + rounds - 1``, the tasks
    ``shards`` in the order given, each as soon as the device's COMP lane is free and the
    previous round's barrier has passed. With ``rounds`` > 1 (a stretch) the same decision must
    assign every shard of the job for the same rounds, each shard to one device. What a job that
    ends earlier leaves of its assignments is void; of a policy that does not know the number of
    rounds, an assignment may go beyond the last.
    """

    device: int
    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole order: one row a (stretch, shard), device queues in row order.

    All arrays are int64 of length R. Rows of one stretch of several rounds are contiguous and
    name every shard of the job once. Each device runs its own rows in row order; a plan whose
    device orders and barriers form a cycle is refused when it is run.
    """

    job_R: IntArray
    round_R: IntArray
    rounds_R: IntArray
    shard_R: IntArray
    device_R: IntArray

    def __len__(self) -> int:
        return len(self.job_R)

    @staticmethod
    def empty() -> Plan:
        """Return a plan of no rows."""
        none = np.zeros(0, dtype=np.int64)
        return Plan(job_R=none, round_R=none, rounds_R=none, shard_R=none, device_R=none)


# The numbers stand in journals: a code may be added, and none may change.
class Reason(IntEnum):
    """Why a job is not running. A closed set; ``explain`` turns a code into a sentence."""

    NOT_LOOKED_AT = 0
    NOT_ARRIVED = 1
    WAITING_FOR_TURN = 2
    """Other jobs come first in the policy's order."""
    WAITING_FOR_DEVICES = 3
    """It is this job's turn, but fewer devices are free than it needs."""
    WAITING_FOR_BARRIER = 4
    """All tasks that may run are running or queued; the round must end first."""
    PLANNED_LATER = 5
    """A plan has a place for it, later on."""
    RUNNING = 6
    NOTHING_FITS = 7
    """No device of the cluster can hold it: it will never run."""
    ENDED = 8
    """Finished, failed or cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Assignments in order, or a whole plan; reasons for jobs whose reason changed.

    ``wake_ns`` asks for a ``Woken`` event at that time. An empty decision changes nothing.
    """

    assign: tuple[Assignment, ...] = ()
    plan: Plan | None = None
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    wake_ns: int | None = None


# One value for all decisions that change nothing: the core knows it by identity.
NOTHING = Decision()
