"""The network identity of a process: its host among the run's hosts, and how it proves itself."""

from __future__ import annotations

from typing import Final

from warren.live.transport.message import Message


class HostIdentity(Message, frozen=True, tag="HostIdentity", array_like=True):
    """The host of a process, and what it needs to talk to processes of other hosts.

    Attributes
    ----------
    host : int
        The number of its host among the cluster's.
    address : str
        Where the others reach its host; empty: there are no other hosts.
    control_far : bool
        Whether the controller is on another machine, or is treated as if it were.
    secret : bytes
        The secret of all processes of a run: ``tls.SECRET_BYTES`` random bytes.
    """

    host: int = 0
    address: str = ""
    secret: bytes = b""
    control_far: bool = False


NOWHERE: Final = HostIdentity()
"""The identity of a process whose run has one host."""
