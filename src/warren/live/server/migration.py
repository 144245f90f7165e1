"""The move of all blocks of a job's servers to others at a barrier: ownership first, then bytes.

The servers that take over, the *heirs*, have been started and listen before anything moves. At a
barrier the first of the old servers, the *donors*, reports to the other donors and the controller
that the next round begins at the heirs. From then on donors answer no pull of it, and executors are
sent to the heirs. Their pulls wait there until the blocks have come: each donor sends each heir the
heir's blocks of its part.

Source: Cruise, 3.3.2 (ownership first; requests queue at the new owner). Deviations: blocks move at
a barrier, where no update is under way, so nothing is applied twice or lost, and no update has to
be passed on; the new table goes to executors from the controller, not from the old owner; an
owner's kept state moves too, from its process to the next one on the same host.
"""

from __future__ import annotations

from collections.abc import Container

from warren.live import run_clock
from warren.live.process.specs import ServerRole
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import BlocksCame, LastRound, Migrate, Piece
from warren.live.transport.sockets import Link, Poller, link_to_server, server_address


class Donor:
    """One server's side of giving its blocks away.

    ``to``: the servers that get them, from the next barrier on; None: none. ``gave``: that barrier
    has passed, and this server serves no more. ``flow_class``: the class of its traffic.
    """

    def __init__(self, role: ServerRole, store: ParameterStore) -> None:
        self._role = role
        self._store = store
        self._heirs: list[Link] = []
        self.to: Migrate | None = None
        self.gave = False
        self.flow_class = 0

    def give(self, last: LastRound, poller: Poller) -> None:
        """Send each heir its blocks of this server's part."""
        role, to = self._role, last.to
        self.to, self.gave = to, True
        times = last.kept, last.saved, last.save_not_before_ns
        piece = Piece(role.part, last.round, last.since_ns, *times)
        for part, home in enumerate(to.homes):
            address = server_address(role.folder, role.job.index, to.generation, part)
            heir = link_to_server(address, home, role.identity)
            heir.mark(self.flow_class)
            poller.register(heir)
            heir.send(piece, self._store.piece_for(part, len(to.homes), to.model_bytes))
            self._heirs.append(heir)

    def go_on(self, ready: Container[object]) -> None:
        """Send more of the messages that wait for room; ``ready``: links that have some."""
        for heir in self._heirs:
            if heir in ready:
                for message, _ in heir.drain():
                    raise ValueError(f"an heir does not send {message}")


class Inheritance:
    """The blocks received from ``donors`` donors so far. ``far_bytes``: bytes from other hosts."""

    def __init__(self, donors: int) -> None:
        self._donors = donors
        self._pieces: dict[int, memoryview] = {}
        self.far_bytes = 0
        self.at_ns = 0

    @property
    def lacking(self) -> bool:
        """Tell whether blocks are still to come."""
        return bool(self._donors)

    def take(self, piece: Piece, block: memoryview, *, far: bool) -> bool:
        """Take the piece of one donor; tell whether it was the last."""
        self._pieces[piece.part] = block
        self.far_bytes += block.nbytes if far else 0
        self.at_ns = run_clock.now_ns()
        return len(self._pieces) == self._donors

    def pop(self) -> list[memoryview]:
        """Return all pieces, and keep none."""
        pieces, self._pieces, self._donors = list(self._pieces.values()), {}, 0
        return pieces

    def report(self, role: ServerRole) -> BlocksCame:
        """Return the report to the controller that all blocks are here."""
        job = role.job.index
        return BlocksCame(job, role.generation, role.part, self.at_ns, self.far_bytes)
