"""How the first server of a job keeps the others in step."""

from __future__ import annotations

from warren.live.training.block_ownership import ranges_of, static_owners
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import BeginRound, PartDone, Squares
from warren.live.transport.sockets import Hub


class PeerServers:
    """The other servers of a job, by part: who is here, and whose blocks have made the step."""

    def __init__(self, hub: Hub, store: ParameterStore, parts: int, round_no: int) -> None:
        self._hub, self._store, self._parts = hub, store, parts
        self._round = round_no
        self._peers: dict[int, bytes] = {}
        self._done: dict[int, list[memoryview]] = {}

    @property
    def all_here(self) -> bool:
        """Whether every one has said hello: that it stands where the job begins."""
        return len(self._peers) == self._parts - 1

    @property
    def all_done(self) -> bool:
        """Whether every one has made the step of the round in progress."""
        return len(self._done) == self._parts - 1

    def hear(self, peer: bytes, said: PartDone, blocks: list[memoryview]) -> None:
        """One is here, or has made a step; beside it its blocks where they are wanted."""
        self._peers[said.part] = peer
        if said.round < self._round:
            return
        self._done[said.part] = blocks

    def take(self) -> None:
        """This server has made the step too: put the others' blocks into the whole model."""
        layout = self._store.layout
        for part, blocks in self._done.items():
            if blocks:
                owners = static_owners(layout, self._parts)
                self._store.take(ranges_of(layout, owners, part), blocks)

    def tell(self, message: BeginRound | Squares) -> None:
        """Send to all of them."""
        for peer in self._peers.values():
            self._hub.send(peer, message)

    def turn(self, round_no: int, *, save: bool) -> None:
        """The barrier has passed: all begin the next round."""
        self.tell(BeginRound(round_no, save))
        self._round = round_no
        self._done.clear()
