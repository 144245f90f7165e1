"""Messages between a host's agent and the controller, about leases and under one.

The transport may delay, drop, repeat and reorder them. ``epoch`` counts the controllers of a run,
``fence`` the leases of one controller; together they name a lease, and a later lease has greater
ones. ``host`` is a host's number among the cluster's.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from warren.live.transport.message import Message


class AskLease(Message, frozen=True, tag="AskLease", array_like=True):
    """Agent to controller: give me a lease of my host, or renew the one I hold.

    With ``fence`` 0 it asks for a new lease, and states that no process started under an earlier
    one runs on its machine any more: it holds the machine's lock for this host. ``agent`` counts
    the earlier holders of the lock, ``number`` the questions of this one.
    """

    host: int
    machine: str
    agent: int
    number: int
    epoch: int
    fence: int


class LeaseGranted(Message, frozen=True, tag="LeaseGranted", array_like=True):
    """Controller to this agent: the lease is yours for ``lease_ns`` after you sent this question.

    ``now_ns``: the reading of the controller's clock.
    """

    machine: str
    agent: int
    epoch: int
    fence: int
    number: int
    lease_ns: int
    now_ns: int


class LeaseEnded(Message, frozen=True, tag="LeaseEnded", array_like=True):
    """Controller to agent: this lease counts no more; of an earlier epoch, none does."""

    epoch: int
    fence: int


class LeasedMessage(Message, frozen=True, tag="LeasedMessage", array_like=True):
    """Either way, under a lease: message ``number`` of the ordered ones."""

    host: int
    epoch: int
    fence: int
    number: int
    body: bytes


class Received(Message, frozen=True, tag="Received", array_like=True):
    """Either way, under a lease: all messages before ``next`` are here."""

    host: int
    epoch: int
    fence: int
    next: int


ToController: TypeAlias = AskLease | LeasedMessage | Received
ToAgent: TypeAlias = LeaseGranted | LeaseEnded | LeasedMessage | Received

TO_CONTROLLER: Final = msgspec.msgpack.Decoder(ToController)
TO_AGENT: Final = msgspec.msgpack.Decoder(ToAgent)
