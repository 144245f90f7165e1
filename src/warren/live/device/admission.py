"""Let jobs have memory of a device; those that come later in its queue give theirs back before.

A job whose memory ran out nevertheless has the device to itself while its app is built again and a
task rehearsed, which tells what it needs: rehearsals run beside each other, and beside tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from warren.live.device.rank_slots import RankSlots
from warren.live.device.residency import DeviceMemoryPlan
from warren.live.device.trainer_slots import TrainerSlots
from warren.live.transport.messages import MemoryShort, Prepared
from warren.live.transport.ring_messages import RankReady

TIMES: Final = 3
"""A job whose memory runs out so often on a device fails."""


class DeviceAdmission:
    """Who of a device's trainers and ranks has memory there, and who is told to give it back."""

    def __init__(self, slots: TrainerSlots, ranks: RankSlots) -> None:
        self._slots, self._ranks = slots, ranks
        self._plan = DeviceMemoryPlan()
        # Jobs that wait for the whole device, in the order in which theirs ran out; and how often
        # that was so.
        self._short: list[int] = []
        self._times: Counter[int] = Counter()

    def learn(self, key: int, said: Prepared | RankReady) -> None:
        """Note what a trainer or rank needs, whether it has that now, and how much is free."""
        self._plan.learn(key, said)

    def left(self, key: int) -> None:
        """Note that a job has given its memory back, or that its process has ended."""
        self._plan.left(key)
        if key in self._short:
            self._short.remove(key)

    def evicted(self, peer: bytes, job: int) -> None:
        """Note that a trainer or rank has given its memory back, unless another has come since."""
        if self._slots.holds(peer, job) or self._ranks.holds(peer, job):
            self._plan.left(job)

    def admit(self, key: int, coming: Sequence[int], busy: Collection[int]) -> bool:
        """Tell whether a job's state may be brought to the device; let others leave if need be.

        ``coming`` and ``busy`` as for ``residency.evicted``. Nobody comes before those that wait
        for the whole device.
        """
        if self._short and key not in self._short:
            return False
        admitted, leaving = self._plan.admit(key, coming, busy)
        for one in leaving:
            holder = self._ranks if self._ranks.here(one) else self._slots
            if not holder.evict(one):
                self._plan.left(one)
        return admitted

    def ran_out(self, said: MemoryShort) -> bool:
        """Note that memory ran out for a job's trainer, which has none now; False: too often."""
        self.left(said.job)
        self._times[said.job] += 1
        if self._times[said.job] >= TIMES:
            return False
        self._plan.needs_all(said.job, said.free_bytes)
        self._short.append(said.job)
        return True

    def rebuild(self, coming: Sequence[int], busy: Collection[int]) -> None:
        """Let the trainer that waits for the whole device build its app, if it is free now."""
        job = next(iter(self._short), None)
        if job is None or self._slots.others_build(self._short):
            return
        if self.admit(job, coming, {*busy, job}):
            self._short.remove(job)
            self._slots.rebuild(job)
