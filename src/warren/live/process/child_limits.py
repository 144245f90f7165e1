"""The zygote's side of the limits of user code: time, memory, and bytes of its log."""

from __future__ import annotations

import os
from typing import Final

from warren.live.process.linux import kill
from warren.live.process.memory_limit import MemoryLimit, over_limit
from warren.live.process.specs import PlainRole, RankRole, Role, ServerRole, TrainerRole
from warren.live.process.time_limit import OVER_LOG, UNHEARD, Deadline, size_text
from warren.model.units import NS_PER_MS

LIMITED: Final = TrainerRole | ServerRole | RankRole
"""Roles with a limit of time and memory."""
USERS: Final = TrainerRole | ServerRole | RankRole | PlainRole
"""Roles that run user code of a run: each has a parent of its own, and a log of limited size."""
LOOK_MS: Final = 1000
"""Milliseconds between two checks of deadlines and logs of children."""


class ChildLimits:
    """The limits of the living children of one zygote, by process id.

    ``log_bytes``: most bytes that the processes of one job may print to its log.
    """

    def __init__(self, log_bytes: int) -> None:
        self._log_bytes = log_bytes
        self._memory_of: dict[int, MemoryLimit] = {}
        self._deadline_of: dict[int, Deadline] = {}
        self._log_of: dict[int, str] = {}
        self._ended_by: dict[int, str] = {}
        self._look_ns = 0
        self.cgroups = ""
        """The cgroups of children with a memory limit; see ``MemoryLimit``."""

    def begun(self, pid: int, role: Role, deadline: Deadline | None) -> None:
        """Note a child that has been forked, and the limits of its role."""
        if deadline is not None:
            self._deadline_of[pid] = deadline
        if isinstance(role, USERS):
            self._log_of[pid] = role.log
        if isinstance(role, LIMITED) and role.memory is not None:
            self._memory_of[pid] = role.memory
            self.cgroups = role.memory.cgroups

    def ended(self, pid: int) -> str:
        """Forget a child that has ended, and say which limit ended it; empty if none did."""
        # Asked of every child with a memory limit: its cgroup is removed by that.
        memory = self._memory_of.pop(pid, None)
        over = "" if memory is None else over_limit(memory, pid)
        self._deadline_of.pop(pid, None)
        self._log_of.pop(pid, None)
        return over or self._ended_by.pop(pid, "")

    def end_those_beyond(self, now_ns: int) -> None:
        """End children that have not heard the alarm of their time limit, or printed too much."""
        # The zygote calls this after every wait, which may be much shorter than ``LOOK_MS``.
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LOOK_MS * NS_PER_MS
        for pid, deadline in self._deadline_of.items():
            if deadline.missed(now_ns):
                self._end(pid, UNHEARD)
        for pid, log in self._log_of.items():
            if _size(log) > self._log_bytes:
                self._end(pid, f"{OVER_LOG} of {size_text(self._log_bytes)}")

    def _end(self, pid: int, why: str) -> None:
        """Kill a child and its group; the first reason is the one reported."""
        self._ended_by.setdefault(pid, why)
        kill(pid, group=True)
        kill(pid)


def _size(path: str) -> int:
    """Return the size of a file; 0 if it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
