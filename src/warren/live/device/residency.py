"""Choose which jobs' models stay in the memory of a device: Hare's greedy rule (section 4.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from warren.live.transport.messages import Prepared
from warren.live.transport.ring_messages import RankReady


def evicted(
    resident: Mapping[int, int],
    coming: Sequence[int],
    busy: Collection[int],
    left_bytes: int,
) -> list[int]:
    """Return the jobs that must leave the memory of a device, those that may leave first.

    Jobs of coming tasks stay first, the next one before all others. Then follow the most recently
    used ones. Each stays if it fits into the remaining memory.

    Parameters
    ----------
    resident
        Bytes of each job in memory, the least recently used first.
    coming
        The jobs of the next tasks, in their order.
    busy
        Jobs that must stay: their tasks compute, or their results are brought out.
    left_bytes
        Bytes that all ``resident`` jobs may have. Those of ``busy`` have theirs in any case.
    """
    soon = {job: at for at, job in reversed(list(enumerate(coming)))}
    latest = list(reversed(resident))
    left_bytes -= sum(resident[job] for job in latest if job in busy)
    gone = []
    for job in sorted(latest, key=lambda job: soon.get(job, len(coming))):
        if job in busy:
            continue
        if resident[job] <= left_bytes:
            left_bytes -= resident[job]
        else:
            gone.append(job)
    return gone[::-1]


class DeviceMemoryPlan:
    """The jobs' shares of a device's memory, and the choice of jobs that give theirs back.

    A trainer or rank that has built its app reports its need, and the free memory at that time. A
    device whose trainers report nothing (a processor) has room for every job. ``~job`` means the
    trainer that computes a job's tasks again.
    """

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}
        # In the order of their last use.
        self._resident: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._budget_bytes = 0

    def learn(self, job: int, said: Prepared | RankReady) -> None:
        """Note a process's need of memory, whether it has that now, and the free memory."""
        self.left(job)
        if said.device_bytes:
            self._needs[job] = said.device_bytes
            if said.resident:
                self._resident[job] = said.device_bytes
            self._budget_bytes = said.free_bytes + sum(self._resident.values())

    def admit(
        self, job: int, coming: Sequence[int], busy: Collection[int]
    ) -> tuple[bool, Sequence[int]]:
        """Tell whether a job's state may be brought to the device now, and which jobs leave first.

        ``coming`` and ``busy`` as for ``evicted``. A job that fits nowhere is let in when it would
        be alone: its task will then report too little memory.
        """
        need = self._needs.get(job, 0)
        if not need or job in self._resident:
            if job in self._resident and job not in self._leaving:
                self._resident[job] = self._resident.pop(job)
            return job not in self._leaving, ()
        staying = {one: size for one, size in self._resident.items() if one not in self._leaving}
        gone = evicted(staying, coming, busy, self._budget_bytes - need)
        self._leaving.update(gone)
        others = set(busy) & staying.keys()
        full = sum(self._resident.values()) + need > self._budget_bytes
        if self._leaving or (full and others):
            return False, gone
        self._resident[job] = need
        return True, ()

    def clear(self) -> Sequence[int]:
        """Return all jobs that must leave for an empty device, and have no order to leave yet."""
        gone = [one for one in self._resident if one not in self._leaving]
        self._leaving.update(gone)
        return gone

    @property
    def is_empty(self) -> bool:
        """Tell whether no job has memory of the device."""
        return not self._resident

    def left(self, job: int) -> None:
        """Note that a job has given its memory back, or that its process has ended."""
        self._resident.pop(job, None)
        self._leaving.discard(job)
