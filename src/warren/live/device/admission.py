"""Admit jobs to the memory of a device, and have apps built there; others first give memory back.

On a GPU a trainer builds its app, and rehearses a task, on order. Rehearsals run beside each other
and beside tasks, so that memory may run out. A trainer without enough memory ends: libraries of its
process may have chosen other algorithms for good. The trainer that follows it builds its app when
it has the device to itself, and then reports its need.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warren.live.device.rank_slots import RankSlots
from warren.live.device.residency import DeviceMemoryPlan
from warren.live.device.trainer_slots import TrainerSlots
from warren.live.device.verification import Verifier
from warren.live.transport.messages import Prepared
from warren.live.transport.ring_messages import RankReady


class DeviceAdmission:
    """The trainers and ranks that have memory of a device, and those that build their apps.

    A key is a job, or ``~job`` for the trainer that computes its tasks again. ``told``: trainers
    wait for an order before they build their apps; otherwise they build them by themselves.
    """

    def __init__(
        self, slots: TrainerSlots, ranks: RankSlots, verifier: Verifier, *, told: bool
    ) -> None:
        self._slots, self._ranks, self._verifier = slots, ranks, verifier
        self._told = told
        self._plan = DeviceMemoryPlan()
        # Trainers that wait for the order, in the order of coming, and those that build their apps.
        self._waiting: list[int] = []
        self._building: set[int] = set()
        # Trainers that ended for lack of memory; and the trainer that has the device to itself.
        self._short: set[int] = set()
        self._alone: int | None = None

    # Messages of trainers and ranks.

    def came(self, key: int) -> None:
        """Note that a trainer is here, which has nothing on the device yet."""
        self._forget(key)
        if self._told:
            self._waiting.append(key)

    def prepared(self, key: int, said: Prepared) -> None:
        """Note that a trainer has built its app, or failed to, and the memory that it needs."""
        self._forget(key)
        self._short.discard(key)
        self._plan.learn(key, said)

    def learn(self, job: int, said: RankReady) -> None:
        """Note the memory that a rank has and needs."""
        self._plan.learn(job, said)

    def left(self, key: int) -> None:
        """Note that a job has given its memory back."""
        self._plan.left(key)

    def evicted(self, peer: bytes, job: int) -> None:
        """Note that the process behind a connection has given its memory back, if it is here."""
        if self._verifier.owns(peer):
            self._plan.left(~job)
        elif self._slots.holds(peer, job) or self._ranks.holds(peer, job):
            self._plan.left(job)

    def gone(self, key: int, *, short: bool, late: bool) -> None:
        """Note that the trainer of a key has ended; ``short``: for lack of memory.

        ``late``: its successor is here, of which all is that is known of memory.
        """
        if not late:
            self._forget(key)
        if short and (not late or key in self._waiting):
            self._short.add(key)

    # Admission.

    def admit(self, key: int, coming: Sequence[int], busy: Collection[int]) -> bool:
        """Tell whether a job's state may be brought to the device; evict others if need be.

        ``coming`` and ``busy`` as for ``residency.evicted``. No job comes before the trainers that
        wait for the device to themselves.
        """
        if self._alone is not None or self._next_alone() is not None:
            return False
        admitted, leaving = self._plan.admit(key, coming, busy)
        self._evict(leaving)
        return admitted

    def let_build(self, *, at_work: bool) -> None:
        """Tell trainers that wait to build their apps, as far as they may.

        ``at_work``: the device computes a task, or brings its result out.
        """
        if not self._waiting or self._alone is not None:
            return
        first = self._next_alone()
        if first is None:
            for key in list(self._waiting):
                self._build(key)
        elif not (self._building or at_work):
            self._evict(self._plan.clear())
            if self._plan.is_empty and self._build(first):
                self._alone = first

    def _next_alone(self) -> int | None:
        """Return the trainer that waits to build with the device to itself; None: none does."""
        return next((key for key in self._waiting if key in self._short), None)

    def _build(self, key: int) -> bool:
        """Tell a trainer to build its app; False if it is gone."""
        self._waiting.remove(key)
        sent = self._verifier.build(~key) if key < 0 else self._slots.build(key)
        if sent:
            self._building.add(key)
        return sent

    def _evict(self, leaving: Collection[int]) -> None:
        for key in leaving:
            if key < 0:
                sent = self._verifier.evict(~key)
            else:
                holder = self._ranks if self._ranks.here(key) else self._slots
                sent = holder.evict(key)
            if not sent:
                self._plan.left(key)

    def _forget(self, key: int) -> None:
        """Forget all facts about a trainer."""
        self._plan.left(key)
        self._building.discard(key)
        if key in self._waiting:
            self._waiting.remove(key)
        if self._alone == key:
            self._alone = None
