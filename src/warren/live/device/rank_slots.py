"""An executor's side of rings: the ranks of its device, and which of them may begin what."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live.device.lanes import LaneTask
from warren.live.transport.ring_messages import AssignRank, BeginRing, RankReady
from warren.live.transport.sockets import Hub


@dataclass(slots=True)
class _Seat:
    """A job's rank here. ``mustered``: by first round, the life whose turn it is, and from when."""

    peer: bytes = b""
    incarnation: int = 0
    mustered: dict[int, tuple[int, int]] = field(default_factory=dict)


class RankSlots:
    """Ranks of one device, at most one a job."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ranks: dict[int, _Seat] = {}

    def sat_down(self, peer: bytes, said: RankReady) -> None:
        """A rank is here, unless one that came after it is already."""
        identity = self._identity(said.job)
        if said.incarnation > identity.incarnation:
            identity.peer, identity.incarnation = peer, said.incarnation

    def muster(self, said: AssignRank) -> None:
        """An assignment may begin, with the rank of this life."""
        self._identity(said.job).mustered[said.round] = said.incarnation, said.opens_ns

    def begin(self, work: LaneTask, free_ns: int) -> bool:
        """Give the device to the rank of an assignment; False while it is not here."""
        identity = self._identity(work.job)
        incarnation, opens_ns = identity.mustered.get(work.round, (0, 0))
        if not incarnation or incarnation != identity.incarnation:
            return False
        at_ns = max(free_ns, work.decided_ns, opens_ns)
        if not self._hub.send(identity.peer, BeginRing(work.round, work.rounds, at_ns)):
            return False
        del identity.mustered[work.round]
        work.incarnation, work.start_ns = incarnation, at_ns
        return True

    def drop(self, job: int) -> None:
        """What was mustered of a job does not count any more."""
        self._identity(job).mustered.clear()

    def _identity(self, job: int) -> _Seat:
        return self._ranks.setdefault(job, _Seat())
