"""The first server's means to keep the other servers of a job in step."""

from __future__ import annotations

from warren.live.training.block_ownership import ranges_of
from warren.live.training.memory.shared_memory import MappedMemories
from warren.live.training.parameter_store import ParameterStore
from warren.live.transport.server_messages import BeginRound, LastRound, PartDone, Squares
from warren.live.transport.sockets import Hub


class PeerServers:
    """The other servers of a job, by part: those that are here, and those that made the step.

    ``parts`` counts all servers of the job, the first one too.
    """

    def __init__(self, hub: Hub, store: ParameterStore, parts: int) -> None:
        self._hub = hub
        self._store = store
        self._parts = parts
        self._peers: dict[int, bytes] = {}
        self._done: dict[int, list[memoryview]] = {}
        self._windows = MappedMemories(read_only=True, disk=store.disk)

    @property
    def all_here(self) -> bool:
        """Tell whether every other server has said that it stands where the job goes on."""
        return len(self._peers) == self._parts - 1

    @property
    def all_done(self) -> bool:
        """Tell whether every other server has made the step of the round in progress."""
        return len(self._done) == self._parts - 1

    def hear(self, peer: bytes, said: PartDone, blocks: list[memoryview]) -> None:
        """Note that a server is here, or has made a step; with its blocks where they are wanted."""
        self._peers[said.part] = peer
        if said.round < 0:  # it stands where the job goes on, and has made no step
            return
        if said.spot is not None:
            whole = self._windows.look(said.spot)
            if whole is None:
                return  # that server is gone, and the job goes back
            owned = ranges_of(self._store.layout, self._store.owners, said.part)
            blocks = [whole[begin:end] for begin, end in owned]
        self._done[said.part] = blocks

    def take(self) -> None:
        """Put the others' blocks into the whole model, when this server has made the step too."""
        layout = self._store.layout
        for part, blocks in self._done.items():
            if blocks:
                self._store.take(ranges_of(layout, self._store.owners, part), blocks)

    def tell(self, message: BeginRound | LastRound | Squares) -> None:
        """Send a message to all other servers."""
        for peer in self._peers.values():
            self._hub.send(peer, message)

    def turn(self, round_no: int, *, save: bool) -> None:
        """Let all other servers begin the next round, and save its state if ``save``."""
        self.tell(BeginRound(round_no, save))
        self._done.clear()
