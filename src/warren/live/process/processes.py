"""The controller's interface to the processes of a run, on any host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from warren.live.process.specs import Exited, Role, ZygoteReady


class Processes(Protocol):
    """The processes of a run, by ticket. A ticket names a process from before it exists."""

    @property
    def fds(self) -> tuple[int, ...]:
        """The file descriptors to poll."""

    def pids(self) -> dict[int, Role]:
        """Return the living processes and their roles, without those that are being ended."""

    @property
    def stale_messages(self) -> int:
        """Number of messages received from a lease that had already ended."""

    @property
    def strangers(self) -> int:
        """Number of connections that ended without showing the run's secret."""

    def await_zygote(self) -> ZygoteReady:
        """Wait until processes can be forked."""

    def fork(self, role: Role) -> int:
        """Ask for a process, and return its ticket."""

    def kill(self, ticket: int) -> None:
        """Kill a process; its exit is reported."""

    def end(self, ticket: int) -> None:
        """Kill a process; its exit is not reported."""

    def hear(self, fd: int) -> Iterable[tuple[int, Role, Exited]]:
        """Read from a file descriptor; return the processes that ended without an order to end."""

    def changed_hosts(self) -> Iterable[tuple[int, bool]]:
        """Return the optional hosts that have come (True) or gone since the last call, in order."""

    def close(self, *, last: bool) -> None:
        """End every process; ``last``: the folder is not needed any more."""
