"""The messages between the ranks of a ring, their executors and the controller.

A *gang* is the processes of a ring, one a rank; rank k computes task k of each round.
``incarnation`` counts a job's gangs: a gang that is lost, or must move, is followed by another.
Times ``*_ns`` are readings of the host's monotonic clock.
"""

from __future__ import annotations

from warren.live.transport.message import Message

# Ranks that have started.


class RankReady(Message, frozen=True, tag="RankReady", array_like=True):
    """Rank to its device's executor: it has built its model, or gone back to a checkpoint of it.

    ``device_bytes``, ``free_bytes``, ``resident``: as in ``Prepared``, for its device's memory.
    """

    job: int
    incarnation: int
    device_bytes: int = 0
    free_bytes: int = 0
    resident: bool = False


class GangReady(Message, frozen=True, tag="GangReady", array_like=True):
    """Rank 0 to controller: all ranks have built their models and found each other."""

    job: int
    incarnation: int


class MeetingEntry(Message, frozen=True, tag="MeetingEntry", array_like=True):
    """Rank to rank 0, and rank 0 to the others, on several hosts: an entry of the ring's store."""

    key: str
    value: bytes


# The rounds of a stretch: an executor learns its gang and lets its rank begin when the device is
# free. Rank 0 begins the rounds when all ranks have reported that.


class AssignRank(Message, frozen=True, tag="AssignRank", array_like=True):
    """Controller to executor: the assignment of ``round`` is for a rank of this gang.

    The rank may begin at ``opens_ns``, when its job arrives.
    """

    job: int
    round: int
    incarnation: int
    opens_ns: int


class BeginRing(Message, frozen=True, tag="BeginRing", array_like=True):
    """Executor to rank: the device is free for it from ``at_ns`` on, for these rounds."""

    round: int
    rounds: int
    at_ns: int


class RankPresent(Message, frozen=True, tag="RankPresent", array_like=True):
    """Rank to rank 0: its device is free for these rounds, since ``at_ns``."""

    rank: int
    round: int
    rounds: int
    at_ns: int


class BeginRounds(Message, frozen=True, tag="BeginRounds", array_like=True):
    """Rank 0 to the others: all devices are free, these rounds begin at ``at_ns``."""

    round: int
    rounds: int
    at_ns: int


class RankDone(Message, frozen=True, tag="RankDone", array_like=True):
    """Rank to executor: its rounds are over since ``at_ns``, the device is free."""

    job: int
    incarnation: int
    at_ns: int


class RankGone(Message, frozen=True, tag="RankGone", array_like=True):
    """Controller to executor: the process of this rank has ended.

    ``passed`` is the number of barriers that the job has passed. A rank whose rounds have all
    passed may have been ended before it reported that it is done.
    """

    job: int
    incarnation: int
    passed: int


# The end of a gang that must move, or has lost a rank.


class HandOver(Message, frozen=True, tag="HandOver", array_like=True):
    """Controller to rank 0: the gang must move; save the state of this round."""

    round: int


class HandedOver(Message, frozen=True, tag="HandedOver", array_like=True):
    """Rank 0 to controller: the checkpoint of this round is whole."""

    job: int
    incarnation: int
    round: int


class GangBroke(Message, frozen=True, tag="GangBroke", array_like=True):
    """Rank to controller: it has lost the others; ``how`` says how."""

    job: int
    incarnation: int
    how: str
