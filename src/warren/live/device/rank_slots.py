"""An executor's side of rings: the ranks of its device, and their permission to begin rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live.device.lanes import LaneTask
from warren.live.transport.messages import Evict
from warren.live.transport.ring_messages import AssignRank, BeginRing, RankReady
from warren.live.transport.server_messages import FlowClass
from warren.live.transport.sockets import Hub


@dataclass(slots=True)
class _RankSlot:
    """The place of a job's rank on this device; ``peer`` is empty until a rank has come.

    ``allowed``: by first round of an assignment, the incarnation whose turn it is, and the time
    from which it may begin (host's monotonic ns). ``flow_class``: the class of the ranks' traffic.
    """

    peer: bytes = b""
    incarnation: int = 0
    allowed: dict[int, tuple[int, int]] = field(default_factory=dict)
    flow_class: int = 0


class RankSlots:
    """The ranks of one device, at most one a job."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ranks: dict[int, _RankSlot] = {}

    def sat_down(self, peer: bytes, said: RankReady) -> bool:
        """Note that a rank has come; False: one of a later gang is here already."""
        slot = self._slot(said.job)
        if said.incarnation <= slot.incarnation:
            return False
        slot.peer, slot.incarnation = peer, said.incarnation
        # Its connections are new, so they have no mark.
        if slot.flow_class:
            self._hub.send(peer, FlowClass(said.job, slot.flow_class))
        return True

    def gone(self, job: int, incarnation: int) -> bool:
        """Note that a rank has ended; False: it was not here, or one of a later gang is."""
        slot = self._slot(job)
        if incarnation != slot.incarnation:
            return False
        slot.peer = b""
        return True

    def here(self, job: int) -> bool:
        """Tell whether a rank of the job is here."""
        slot = self._ranks.get(job)
        return slot is not None and bool(slot.peer)

    def holds(self, peer: bytes, job: int) -> bool:
        """Tell whether this is the job's rank here."""
        slot = self._ranks.get(job)
        return slot is not None and slot.peer == peer

    def evict(self, job: int) -> bool:
        """Let a job's rank give its memory of the device back; False if it is gone."""
        return self._hub.send(self._slot(job).peer, Evict())

    def classify(self, job: int, flow_class: int) -> None:
        """Note the class of a job's traffic, and send it to its rank if that is here."""
        slot = self._slot(job)
        if flow_class != slot.flow_class:
            slot.flow_class = flow_class
            self._hub.send(slot.peer, FlowClass(job, flow_class))

    def muster(self, said: AssignRank) -> None:
        """Note that an assignment may begin, with the rank of the incarnation it names."""
        self._slot(said.job).allowed[said.round] = said.incarnation, said.opens_ns

    def ready(self, work: LaneTask) -> bool:
        """Tell whether an assignment may begin and its rank is here."""
        slot = self._slot(work.job)
        # Incarnations count from 1: 0 is that of an assignment which may not begin yet.
        incarnation, _ = slot.allowed.get(work.round, (0, 0))
        return bool(incarnation) and incarnation == slot.incarnation and bool(slot.peer)

    def begin(self, work: LaneTask, free_ns: int) -> bool:
        """Give the device to the rank of an assignment that is ready; False: it is gone.

        Parameters
        ----------
        work
            The rounds of the assignment; gets the rank's incarnation and its start.
        free_ns
            When the device became free.
        """
        slot = self._slot(work.job)
        incarnation, opens_ns = slot.allowed[work.round]
        # As a task: it begins when device, decision and arrival allow it, not when the order comes.
        at_ns = max(free_ns, work.decided_ns, opens_ns)
        if not self._hub.send(slot.peer, BeginRing(work.round, work.rounds, at_ns)):
            return False
        del slot.allowed[work.round]
        work.incarnation, work.start_ns = incarnation, at_ns
        return True

    def drop(self, job: int) -> None:
        """Withdraw the permissions of the job's assignments."""
        self._slot(job).allowed.clear()

    def _slot(self, job: int) -> _RankSlot:
        return self._ranks.setdefault(job, _RankSlot())
