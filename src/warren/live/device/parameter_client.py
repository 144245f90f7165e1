"""An executor's side of the job servers: states ahead of their tasks, updates back.

Bytes lie in memory that the device's trainers share (``Arena``). It has two places for states, so
that the next can come while one is in use, and two for updates, so that one can be on its way while
the next is computed. A task without a free place waits; that is the credit of the tensors' flow. A
state that lies complete in the memory of its only server is read there and takes no place. With a
server on another host no memory is shared: bytes are sent, whatever their size.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from warren.live import run_clock
from warren.live.device.lanes import Key
from warren.live.training.memory.disk_memory import DiskMemory
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.memory.shared_memory import SHARED_FROM_BYTES, MappedMemories
from warren.live.transport.host_identity import NOWHERE, HostIdentity
from warren.live.transport.message import SharedSlot, TaskStamp, place_on_device
from warren.live.transport.messages import AnyMessage
from warren.live.transport.server_messages import (
    BarrierPassed,
    JobOver,
    Pull,
    Push,
    Pushed,
    StateReleased,
    StateSent,
)
from warren.live.transport.sockets import Link, Poller, link_to_server, server_address

AHEAD_BYTES: Final = 1 << 30
"""States that are fetched before their turn take at most this much, the very next one apart."""
STATES: Final = (0, 1)
"""The slots of an arena that hold states."""
UPDATES: Final = (2, 3)
"""The slots of an arena that hold updates."""
SLOTS: Final = len(STATES) + len(UPDATES)
"""Number of slots of an arena."""


@dataclass(frozen=True, slots=True)
class OwnedPart:
    """One server's part of a state; ``lent``: it lies in the server's memory."""

    part: int
    ranges: Sequence[tuple[int, int]]
    buffers: Sequence[memoryview]
    lent: bool


@dataclass(slots=True)
class StateTransfer:
    """A state on its way. ``frames`` wait for a place; ``slot`` is -1 until it has one.

    ``spot``: the place in the server's memory from which trainers read it instead, until it is
    released. ``missing``: servers whose blocks are not here. A server may send blocks twice, if
    they were requested, released and requested again. ``here_ns``: when the last blocks came.
    ``passed_ns``: when the barrier before the round passed; None: it has not. ``over``: the round
    is over, its tasks are not needed. ``done``: its tasks that are done, as the first server says.
    ``have``: the updates that each server except the first has.
    """

    missing: set[int]
    slot: int = -1
    here_ns: int = 0
    passed_ns: int | None = None
    over: bool = False
    done: tuple[TaskStamp, ...] = ()
    have: dict[int, tuple[int, ...]] = field(default_factory=dict)
    frames: list[OwnedPart] = field(default_factory=list)
    spot: SharedSlot | None = None

    @property
    def placed(self) -> bool:
        """Tell whether trainers can read the state."""
        return self.slot >= 0 or self.spot is not None

    def done_before(self, shard: int) -> TaskStamp | None:
        """Return the stamp of a task that need not run again; None: it has to run.

        The device that ran it was lost after the task was done.
        """
        # The first server's word is not enough: every other server must have its own blocks of it.
        stamps = [stamp for stamp in self.done if stamp.shard == shard]
        safe = stamps and all(shard in have for have in self.have.values())
        return stamps[0] if safe else None


@dataclass(slots=True)
class ServerLink:
    """The servers of a job in its present generation, and its states and updates under way.

    ``transfers``: states by round. ``ranges``: the part of each server. ``updates``: free slots of
    the arena for an update. ``windows``: memory of servers that is mapped here. ``local``: states
    and updates stay on the device, in the process of the server and of the device's trainer.
    """

    generation: int
    links: list[Link]
    transfers: dict[int, StateTransfer] = field(default_factory=dict)
    ranges: dict[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    total_bytes: int = 0
    local: bool = False
    updates: set[int] = field(default_factory=lambda: set(UPDATES))
    windows: MappedMemories = field(
        default_factory=lambda: MappedMemories(read_only=True, relay=True)
    )

    def let_go(self, round_no: int, frames: Iterable[OwnedPart]) -> None:
        """Tell servers that parts of a round's state are not needed any more where they lie."""
        for frame in frames:
            if frame.lent:
                self.links[frame.part].send(StateReleased(round_no))


class ParameterClient:
    """The connections of a device to the servers of its jobs, and states here or asked for."""

    def __init__(
        self, poller: Poller, folder: str, device: int, identity: HostIdentity = NOWHERE
    ) -> None:
        self._poller = poller
        self._folder = folder
        self._device = device
        self._identity = identity
        self._sources: dict[int, ServerLink] = {}
        self._arenas: dict[int, Arena] = {}
        self._outbox: list[tuple[Link, Push, list[memoryview]]] = []
        self._classes: dict[int, int] = {}
        # Gives pages up of jobs whose servers have their models on disk.
        self._disk: DiskMemory | None = None

    def meet(self, job: int, generation: int, homes: Sequence[int]) -> None:
        """Connect to a job's servers, on these hosts, unless these are connected already."""
        known = self._sources.get(job)
        if known is not None and known.generation == generation:
            return
        # A job that was rolled back has other servers, at other addresses: transfers with the old
        # servers cannot arrive any more.
        if known is not None:
            self.drop(job, ended=False)
        links = [
            link_to_server(
                server_address(self._folder, job, generation, part), home, self._identity
            )
            for part, home in enumerate(homes)
        ]
        source = ServerLink(generation, links)
        for link in source.links:
            link.mark(self._classes.get(job, 0))
            self._poller.register(link)
        self._sources[job] = source

    @property
    def broken(self) -> bool:
        """Whether the way to a server on another host has broken, without a report of its end."""
        # On one host there are no others, and this is asked at every turn.
        return bool(self._identity.address) and any(
            link.far and link.lost for one in self._sources.values() for link in one.links
        )

    def classify(self, job: int, flow_class: int) -> None:
        """Set the class on links of all traffic to a job's far servers, now and later."""
        self._classes[job] = flow_class
        for link in self._sources[job].links if job in self._sources else ():
            link.mark(flow_class)

    def move(self, job: int, generation: int, homes: Sequence[int]) -> None:
        """Connect to a job's new servers; transfers with the old ones are not needed."""
        # Of a job that this device has not met, the first assignment will name the servers.
        if job in self._sources:
            self.meet(job, generation, homes)

    def want(self, keys: Collection[Key], reading: Set[Key]) -> None:
        """Ask for the states of ``keys``, the most urgent first; let go of others.

        Those of ``reading`` stay: they are in use. The newest of a job that lies in a place of its
        own stays, too: a policy that assigns one task after another may have one more of its round.
        """
        left_bytes = AHEAD_BYTES
        wanted = set(reading)
        for job, round_no in keys:
            source = self._sources[job]
            # The most urgent state is free of charge: without it the device could not go on.
            left_bytes -= source.total_bytes if wanted - reading else 0
            if left_bytes < 0:
                break
            wanted.add((job, round_no))
            if round_no not in source.transfers:
                source.transfers[round_no] = StateTransfer(set(range(len(source.links))))
                for link in source.links:
                    link.send(Pull(round_no, self._device))
        for job, source in self._sources.items():
            newest = max(source.transfers, default=-1)
            for round_no in [r for r in source.transfers if (job, r) not in wanted]:
                if round_no < newest or source.transfers[round_no].slot < 0:
                    source.let_go(round_no, source.transfers.pop(round_no).frames)

    def ready(self, key: Key) -> StateTransfer | None:
        """Return the state of a task; None until it has its place and its barrier has passed."""
        job, round_no = key
        transfer = self._sources[job].transfers.get(round_no)
        if transfer is None or transfer.over:
            return transfer
        if transfer.missing or transfer.passed_ns is None:
            return None
        if not transfer.placed:
            self._place(job, round_no, transfer)
        return transfer if transfer.placed else None

    def spots(self, job: int, state: StateTransfer, slot: int) -> tuple[SharedSlot, SharedSlot]:
        """Return the place of a ready state for a trainer, and the place for its update."""
        if state.spot is not None and state.spot.on_device:
            return state.spot, place_on_device(self._sources[job].total_bytes, slot)
        arena = self._arenas[job]
        return state.spot or arena.spot(state.slot), arena.spot(slot)

    def lend(self, job: int) -> int | None:
        """Take a place for an update of the job; None if none is free."""
        updates = self._sources[job].updates
        return updates.pop() if updates else None

    def take_back(self, job: int, slot: int) -> None:
        """Free the place of an update that has reached its servers, or is not wanted."""
        # -1: the task never had one, or has given it back. The job may have been dropped meanwhile.
        if slot >= 0 and (source := self._sources.get(job)) is not None:
            source.updates.add(slot)

    def push(self, job: int, push: Push, slot: int) -> int:
        """Send an update with the next ``flush``, to each server its blocks.

        Returns
        -------
        int
            How many servers will acknowledge it.
        """
        source = self._sources[job]
        if source.local:
            spot = place_on_device(source.total_bytes, slot)
            self._outbox.append((source.links[0], msgspec.structs.replace(push, spot=spot), []))
            return 1
        arena = self._arenas[job]
        update = arena.slot(slot)
        shared = source.total_bytes >= SHARED_FROM_BYTES
        lying = msgspec.structs.replace(push, spot=arena.spot(slot)) if shared else push
        for part, link in enumerate(source.links):
            # A server on another host maps no memory of this one: it is sent the bytes.
            if shared and not link.far:
                self._outbox.append((link, lying, []))
            else:
                pieces = [update[begin:end] for begin, end in source.ranges[part]]
                self._outbox.append((link, push, pieces))
        return len(source.links)

    def flush(self) -> None:
        """Send the pushed updates.

        Call this when the next task has its trainer, since servers that wake up take the core.
        """
        for link, push, pieces in self._outbox:
            link.send(push, *pieces)
        self._outbox.clear()

    def send(self, job: int, message: AnyMessage) -> None:
        """Send a message to the job's first server."""
        self._sources[job].links[0].send(message)

    def hear(self, ready: Container[object]) -> Iterator[tuple[int, Pushed]]:
        """Take the messages of servers; yield acknowledgements, each with its job."""
        for job, source in self._sources.items():
            for part, link in enumerate(source.links):
                for message, buffers in link.drain() if link in ready else ():
                    if isinstance(message, Pushed):
                        yield job, message
                    else:
                        self._arrived(job, part, message, buffers)

    def drop(self, job: int, *, ended: bool) -> None:
        """Let go of the job's servers and, when it has ended, of its memory."""
        # Nothing may stay in the outbox for a link that is closed below.
        self.flush()
        if (source := self._sources.pop(job, None)) is not None:
            for link in source.links:
                self._poller.unregister(link)
                link.close()
            source.windows.close()
        if ended:
            self._classes.pop(job, None)
        if ended and (arena := self._arenas.pop(job, None)) is not None:
            arena.close()

    def _arrived(self, job: int, part: int, message: AnyMessage, buffers: list[memoryview]) -> None:
        """Take a server's message about a state; a message about a released state is ignored."""
        assert isinstance(message, StateSent | BarrierPassed | JobOver)
        transfer = self._sources[job].transfers.get(message.round)
        match message:
            case StateSent():
                self._state(job, part, message, buffers)
            case BarrierPassed(at_ns=at_ns) if transfer is not None:
                transfer.passed_ns = at_ns
            case JobOver() if transfer is not None:
                transfer.over = True

    def _state(self, job: int, part: int, state: StateSent, buffers: list[memoryview]) -> None:
        """Take a part of a state; it is not needed if it was released, or is here already."""
        source = self._sources[job]
        transfer = source.transfers.get(state.round)
        if state.on_disk and source.windows.disk is None:
            source.windows.disk = self._disk = self._disk or DiskMemory(self._folder)
        source.local = state.spot is not None and state.spot.on_device
        frame = self._frame(source, part, state, buffers)
        if frame is None:
            return  # their server is gone; others will come
        if transfer is None:
            source.let_go(state.round, [frame])
            return
        source.ranges[part], source.total_bytes = state.ranges, state.total_bytes
        # The first state tells how large an update is: the arena could not be made before.
        if job not in self._arenas and not source.local:
            self._arenas[job] = self._arena(source.total_bytes, on_disk=state.on_disk)
        if part in transfer.missing:
            transfer.missing.discard(part)
            transfer.here_ns = run_clock.now_ns()
            transfer.frames.append(frame)
            # The whole state lies in the memory of an only server: it is read there, not copied.
            if state.spot is not None and len(source.links) == 1:
                there = source.local
                transfer.spot = state.spot if there else source.windows.relayed(state.spot)
        else:
            source.let_go(state.round, [frame])
        # Also for a part that was here already: its list of done tasks is newer.
        if part:
            transfer.have[part] = state.have
        else:
            transfer.done = state.done
        if state.passed_ns is not None:
            transfer.passed_ns = state.passed_ns
        if not transfer.missing and not transfer.placed:
            self._place(job, state.round, transfer)

    def _arena(self, total_bytes: int, *, on_disk: bool) -> Arena:
        """Make the memory of a job: on disk, if its servers have their model there."""
        if on_disk:
            with suppress(OSError):  # the disk is full: the job's server will say so
                return Arena.create(total_bytes, SLOTS, self._folder, self._disk)
        return Arena.create(total_bytes, SLOTS, self._folder)

    def _frame(
        self, source: ServerLink, part: int, state: StateSent, buffers: list[memoryview]
    ) -> OwnedPart | None:
        """Return a part as it came or where it lies; None: the memory it lies in is gone."""
        if state.spot is None or source.local:
            return OwnedPart(part, state.ranges, buffers, lent=False)
        whole = source.windows.look(state.spot)
        if whole is None:
            return None
        return OwnedPart(
            part, state.ranges, [whole[begin:end] for begin, end in state.ranges], True
        )

    def _place(self, job: int, round_no: int, transfer: StateTransfer) -> None:
        """Copy a state to where trainers can read it, if a slot is free."""
        source = self._sources[job]
        taken = {other.slot for other in source.transfers.values()}
        free = [slot for slot in STATES if slot not in taken]
        if not free:
            return
        transfer.slot = free[0]
        memory = self._arenas[job].slot(transfer.slot)
        for frame in transfer.frames:
            for (begin, end), buffer in zip(frame.ranges, frame.buffers, strict=True):
                memory[begin:end] = buffer
        # Copied: servers may use lent memory again.
        source.let_go(round_no, transfer.frames)
        transfer.frames.clear()
