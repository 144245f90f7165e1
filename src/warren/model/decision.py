"""Answers of policies: one decision for all four questions, each with its own fields.

A *stretch* is several rounds in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

import msgspec
import numpy as np

from warren.model.costs import IntArray

ENDLESS: Final = 2**40
"""The rounds of a stretch that goes on until its job ends, whenever that is."""
CLASSES: Final = 8
"""Classes of bytes on a link: 0 for control and for jobs not known yet, 1 goes first, 7 last."""
MOST_DELAY_NS: Final = 86_400 * 10**9
"""The most that one answer delays a round: a day."""


class Question(StrEnum):
    """The questions of a scheduler. The members stand in the order in which they are asked."""

    GROUP = "group"
    """Which jobs share hosts?"""
    SHAPE = "shape"
    """How many workers and servers does a job get, and where?"""
    PLACE = "place"
    """Which task runs where, and when?"""
    FLOW = "flow"
    """Which jobs' bytes go first on a busy link, and when are they sent?"""


PLACE_ALONE: Final = frozenset({Question.PLACE})
"""The answers of a policy that does not state which questions it answers."""


class Shape(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Say on which hosts a job has its workers and its servers. Hosts are indices of the cluster's.

    ``workers``: the hosts that its tasks may run on; None: any. ``servers``: the host of each of
    its servers, where a host may stand more than once; empty: not said. ``model_bytes``: how many
    bytes of the model each server holds; None: about the same.
    """

    workers: tuple[int, ...] | None
    servers: tuple[int, ...]
    model_bytes: tuple[int, ...] | None = None


class Group(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some jobs, and the hosts that they share: their tasks run on these hosts alone."""

    jobs: tuple[int, ...]
    hosts: tuple[int, ...]


class Assignment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Put tasks of one job at the end of one device's queue.

    The device runs, for each round from ``round`` to ``round + rounds - 1``, the tasks ``shards``
    in the order given, each as soon as the device's COMP lane is free and the previous round's
    barrier has passed. With ``rounds`` > 1 (a stretch) the same decision must assign every shard of
    the job for the same rounds, each shard to one device. If a job ends earlier, the rest of its
    assignments is void; a policy that does not know the number of rounds may assign beyond the last
    one.
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


# A struct, as events are: one is made at every step, and most of its fields are left out.
class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to one view; an answer that is left out, and an empty decision, change nothing.

    place: ``assign``, assignments in order, or ``plan``, a whole order; ``reasons`` for jobs whose
    reason changed.

    flow: ``classes``, of each job whose class changes: 0 to 7, on all hosts, in place of earlier
    classes on single hosts; and ``host_classes`` by (host, job), where a class differs on one host.
    ``delays_ns``, of each job whose next round is to begin later: when the first barrier after this
    answer passes, the round behind it begins ``delays_ns[job]`` after the barrier, with its pulls
    and all its tasks. That happens once; a later answer replaces a delay that no barrier has met
    yet, 0 takes it back, and a job that is rolled back or ends has none.

    shape: ``shapes`` of the jobs whose shape changes.

    group: ``groups``, all there are from now on; None: no change.

    ``wake_ns`` asks for a ``Woken`` event at that time.
    """

    assign: tuple[Assignment, ...] = ()
    plan: Plan | None = None
    reasons: Mapping[int, Reason] = msgspec.field(default_factory=dict)
    wake_ns: int | None = None
    classes: Mapping[int, int] = msgspec.field(default_factory=dict)
    host_classes: Mapping[tuple[int, int], int] = msgspec.field(default_factory=dict)
    delays_ns: Mapping[int, int] = msgspec.field(default_factory=dict)
    shapes: Mapping[int, Shape] = msgspec.field(default_factory=dict)
    groups: tuple[Group, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether it answers no question, whether it asks to be woken or not."""
        return self.only_places and not (self.assign or self.reasons) and self.plan is None

    @property
    def only_places(self) -> bool:
        """Tell whether it answers no other question than place."""
        flow = self.classes or self.host_classes or self.delays_ns
        return self.groups is None and not (flow or self.shapes)


# One value for all decisions that change nothing: the core knows it by identity.
NOTHING = Decision()
