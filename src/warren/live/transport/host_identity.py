"""The network identity of a process: its host among the run's hosts, and how it proves itself."""

from __future__ import annotations

from typing import Final

from warren.live.transport.message import Message

TOKEN_BYTES: Final = 32
"""Length of the secret that all processes of a run know, and nobody else."""


class HostIdentity(Message, frozen=True, tag="HostIdentity", array_like=True):
    """The host of a process, and what it needs to talk to processes of other hosts.

    Attributes
    ----------
    host, hosts : int
        The number of its host, and how many hosts there are.
    address : str
        Where the others reach its host; empty: there are none.
    token : bytes
        The run's secret of ``TOKEN_BYTES`` random bytes.
    """

    host: int = 0
    hosts: int = 1
    address: str = ""
    token: bytes = b""

    def near(self, job: int, part: int) -> bool:
        """Tell whether a server of a job is on the same host."""
        return home_of_server(job, part, self.hosts) == self.host


NOWHERE: Final = HostIdentity()
"""The identity of a process whose run has one host."""


def home_of_server(job: int, part: int, hosts: int) -> int:
    """Return the host of a server: part p of job j is on host (j + p) mod ``hosts``."""
    # A formula, not a table: every process finds a server without asking for it.
    return (job + part) % hosts
