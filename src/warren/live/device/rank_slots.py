"""An executor's side of rings: the ranks of its device, and which of them may begin what."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live.device.lanes import Work
from warren.live.transport.ring_messages import Begin, Muster, RankReady
from warren.live.transport.sockets import Hub


@dataclass(slots=True)
class _Seat:
    """A job's rank here. ``mustered``: by first round, the life whose turn it is, and from when."""

    peer: bytes = b""
    life: int = 0
    mustered: dict[int, tuple[int, int]] = field(default_factory=dict)


class LocalRanks:
    """Ranks of one device, at most one a job."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._ranks: dict[int, _Seat] = {}

    def sat_down(self, peer: bytes, said: RankReady) -> None:
        """A rank is here, unless one that came after it is already."""
        seat = self._seat(said.job)
        if said.life > seat.life:
            seat.peer, seat.life = peer, said.life

    def muster(self, said: Muster) -> None:
        """An assignment may begin, with the rank of this life."""
        self._seat(said.job).mustered[said.round] = said.life, said.opens_ns

    def begin(self, work: Work, free_ns: int) -> bool:
        """Give the device to the rank of an assignment; False while it is not here."""
        seat = self._seat(work.job)
        life, opens_ns = seat.mustered.get(work.round, (0, 0))
        if not life or life != seat.life:
            return False
        at_ns = max(free_ns, work.decided_ns, opens_ns)
        if not self._hub.send(seat.peer, Begin(work.round, work.rounds, at_ns)):
            return False
        del seat.mustered[work.round]
        work.life, work.start_ns = life, at_ns
        return True

    def drop(self, job: int) -> None:
        """What was mustered of a job does not count any more."""
        self._seat(job).mustered.clear()

    def _seat(self, job: int) -> _Seat:
        return self._ranks.setdefault(job, _Seat())
