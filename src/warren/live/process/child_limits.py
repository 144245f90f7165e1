"""A zygote's side of what user code may take: time, memory, and bytes of its log."""

from __future__ import annotations

import os
from typing import Final

from warren.live.process.linux import kill
from warren.live.process.memory_limit import MemoryLimit, over_limit
from warren.live.process.specs import PlainRole, RankRole, Role, ServerRole, TrainerRole
from warren.live.process.time_limit import OVER_LOG, UNHEARD, Deadline, size_text

LIMITED: Final = TrainerRole | ServerRole | RankRole
"""Who may take so much time and memory."""
USERS: Final = TrainerRole | ServerRole | RankRole | PlainRole
"""Who runs user code of a run: each has a parent of its own, and a log of limited size."""
LOOK_MS: Final = 1000
"""How often deadlines and logs of children are looked at."""


class ChildLimits:
    """The limits of the living children of one zygote, by process id.

    ``log_bytes`` is what the processes of one job may print to its log.
    """

    def __init__(self, log_bytes: int) -> None:
        self._log_bytes = log_bytes
        self._memory_of: dict[int, MemoryLimit] = {}
        self._deadline_of: dict[int, Deadline] = {}
        self._log_of: dict[int, str] = {}
        self._ended_by: dict[int, str] = {}
        self._look_ns = 0
        self.cgroups = ""
        """Of children with a memory limit; see ``MemoryLimit``."""

    def begun(self, pid: int, role: Role, deadline: Deadline | None) -> None:
        """Note a child."""
        if deadline is not None:
            self._deadline_of[pid] = deadline
        if isinstance(role, USERS):
            self._log_of[pid] = role.log
        if isinstance(role, LIMITED) and role.memory is not None:
            self._memory_of[pid] = role.memory
            self.cgroups = role.memory.cgroups

    def ended(self, pid: int) -> str:
        """Forget a child that has ended; gives the limit that ended it, in words, if one did."""
        memory = self._memory_of.pop(pid, None)
        over = "" if memory is None else over_limit(memory, pid)
        self._deadline_of.pop(pid, None)
        self._log_of.pop(pid, None)
        return over or self._ended_by.pop(pid, "")

    def end_those_beyond(self, now_ns: int) -> None:
        """End children that have not heard the alarm of their time limit, or printed too much."""
        if now_ns < self._look_ns:
            return
        self._look_ns = now_ns + LOOK_MS * 1_000_000
        for pid, deadline in self._deadline_of.items():
            if deadline.missed(now_ns):
                self._end(pid, UNHEARD)
        for pid, log in self._log_of.items():
            if _size(log) > self._log_bytes:
                self._end(pid, f"{OVER_LOG} of {size_text(self._log_bytes)}")

    def _end(self, pid: int, why: str) -> None:
        self._ended_by.setdefault(pid, why)
        kill(pid, group=True)
        kill(pid)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
