"""Where one process of a run sits among the run's hosts, and how it shows that it belongs there."""

from __future__ import annotations

from typing import Final

from warren.live.transport.message import Message

TOKEN_BYTES: Final = 32
"""Length of what all processes of a run know, and nobody else."""


class HostIdentity(Message, frozen=True, tag="Seat", array_like=True):
    """On host ``host`` of ``hosts``, which the others reach at ``address``; empty: there are none.

    ``token`` is the run's secret of ``TOKEN_BYTES`` random bytes.
    """

    host: int = 0
    hosts: int = 1
    address: str = ""
    token: bytes = b""

    def near(self, job: int, part: int) -> bool:
        """Whether a server of a job is on the same host."""
        return home_of_server(job, part, self.hosts) == self.host


NOWHERE: Final = HostIdentity()
"""Of a process whose run has one host."""


def home_of_server(job: int, part: int, hosts: int) -> int:
    """The host of a server: part p of job j is on host (j + p) mod hosts."""
    return (job + part) % hosts
