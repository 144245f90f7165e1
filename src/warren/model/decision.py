"""What a policy answers, and the codes it gives for every job it leaves waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from warren.model.plan import Assignment, Plan


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


NOTHING = Decision()
