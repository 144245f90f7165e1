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
    """Return the jobs that have to leave the memory of a device, those that may leave first.

    Jobs of coming tasks stay first, the next one before all others, then those that were used last,
    each if it fits into what is left.

    Parameters
    ----------
    resident
        Bytes of each job that is there, the one that was used longest ago first.
    coming
        The jobs of the next tasks, in their order.
    busy
        Jobs that must stay: their tasks compute, or their results are brought out.
    left_bytes
        What those of ``resident`` may have in all. Those of ``busy`` have theirs in any case.
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
    """What of a device's memory its jobs have, and who of them gives it back for another.

    A trainer or rank that has built its app says what it needs, and how much nobody has then. Of a
    device whose trainers say nothing (processors) everything fits. ``~job`` stands for the trainer
    that computes a job's tasks again.
    """

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}
        # In the order of their last use.
        self._resident: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._budget_bytes = 0

    def learn(self, job: int, said: Prepared | RankReady) -> None:
        """Note what a trainer or rank needs, whether it has that now, and how much is free."""
        self.left(job)
        if said.device_bytes:
            self._needs[job] = said.device_bytes
            if said.resident:
                self._resident[job] = said.device_bytes
            self._budget_bytes = said.free_bytes + sum(self._resident.values())

    def admit(
        self, job: int, coming: Sequence[int], busy: Collection[int]
    ) -> tuple[bool, Sequence[int]]:
        """Tell whether a job's state may be brought to the device now, and who has to leave first.

        ``coming`` and ``busy`` as for ``evicted``. A job that fits nowhere is let in when it would
        be alone: its task will say that the memory is too little.
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
        """Return all that are to leave so that the device is empty, and have not been told."""
        gone = [one for one in self._resident if one not in self._leaving]
        self._leaving.update(gone)
        return gone

    @property
    def is_empty(self) -> bool:
        """Tell whether nobody has memory of the device."""
        return not self._resident

    def left(self, job: int) -> None:
        """Note that a job has given its memory back, or that its process has ended."""
        self._resident.pop(job, None)
        self._leaving.discard(job)
