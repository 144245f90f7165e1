"""Large states and updates are read where they lie, and nobody writes there too early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.server.state_sender import ServedState, StateSender
from warren.live.server.update_reader import UpdateReader
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.memory.shared_memory import SHARED_FROM_BYTES, MappedMemories
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.transport.message import SharedSlot
from warren.live.transport.server_messages import Pull, StateSent
from warren.live.transport.sockets import Hub, Link, Poller
from warren.model.job import Job

pytestmark = pytest.mark.live

SIZE = 4 * SHARED_FROM_BYTES
STANDING = ServedState(first=True, passed=0, over=0, since_ns=7, unsure=False, done=())


class Wide(TorchApp):
    """One large tensor, whose gradient is one everywhere."""

    def model(self) -> nn.Module:
        return nn.Linear(SHARED_FROM_BYTES, 1, bias=False)

    def dataset(self) -> Tensor:
        return torch.ones(8, SHARED_FROM_BYTES)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        value: Tensor = model(batch)
        return value.mean()


JOB = Job(index=0, name="wide", scale=1, rounds=9, batch=1, seed=1)


def _await(end: Hub | Link) -> None:
    poller = Poller()
    poller.register(end)
    assert end in poller.poll(5000)
    poller.unregister(end)
    poller.close()


class World:
    """A server's store and handout, and an executor's end of the socket."""

    def __init__(self, folder: Path) -> None:
        self.address = f"{folder}/s"
        self.hub = Hub(self.address)
        self.store = ParameterStore(Wide(), JOB, shared=str(folder))
        self.runner = TaskRunner(Wide(), JOB)
        self.handout = StateSender(self.hub, self.store)
        self.windows = MappedMemories()
        self._ends: list[Hub | Link] = [self.hub]

    def link(self) -> Link:
        """An executor's end."""
        self._ends.append(link := Link(self.address))
        return link

    def close(self) -> None:
        """Let go of all."""
        self.windows.close()
        for end in self._ends:
            end.close()

    def pull(self, link: Link, round_no: int, device: int = 0) -> tuple[bytes, SharedSlot]:
        """An executor asks for a state: its id, and where the state lies."""
        link.send(Pull(round_no, device))
        _await(self.hub)
        ((peer, _, _),) = self.hub.drain()
        self.handout.park(peer, round_no, device)
        self.handout.answer(STANDING)
        _await(link)
        ((state, buffers),) = link.drain()
        assert isinstance(state, StateSent)
        assert state.spot is not None
        assert not buffers
        return peer, state.spot

    def round(self) -> None:
        """One round goes by."""
        state = self.store.state()[0]
        self.store.add(0, self.runner.run(state, self.store.version, 0))
        self.store.step()
        self.store.conclude()
        self.store.forget_previous()

    def spots(self, rounds: int) -> set[SharedSlot | None]:
        """Where the states of these rounds come to lie."""
        found = set()
        for _ in range(rounds):
            self.round()
            found.add(self.store.spot(self.store.state()))
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.close()


def test_a_state_stays_as_it_is_until_it_was_taken_and_then_its_memory_is_used_again(
    world: World,
) -> None:
    peer, spot = world.pull(world.link(), 0)
    seen = world.windows.view(spot)
    before = bytes(seen)
    assert before == bytes(world.store.state()[0])
    assert spot not in world.spots(4)
    assert bytes(seen) == before
    world.handout.taken(peer, 5)  # another round is no answer
    assert spot not in world.spots(2)
    world.handout.taken(peer, 0)
    assert spot in world.spots(2)
    assert bytes(seen) != before


def test_what_was_asked_for_twice_is_held_until_it_was_taken_twice(world: World) -> None:
    link = world.link()
    peer, spot = world.pull(link, 0)
    assert world.pull(link, 0) == (peer, spot)
    world.handout.taken(peer, 0)
    assert spot not in world.spots(3)
    world.handout.taken(peer, 0)
    assert spot in world.spots(2)


def test_what_a_lost_executor_held_is_let_go_of_when_its_successor_asks(world: World) -> None:
    _, spot = world.pull(world.link(), 0, device=3)
    other, _ = world.pull(world.link(), 0, device=4)
    successor, _ = world.pull(world.link(), 0, device=3)
    assert spot not in world.spots(3), "two still read it"
    world.handout.taken(successor, 0)
    assert spot not in world.spots(3), "device 4 still reads it"
    world.handout.taken(other, 0)
    assert spot in world.spots(2)


def test_an_update_is_copied_in_the_pieces_of_its_server_and_may_then_be_overwritten() -> None:
    arena = Arena.create(SIZE, 2)
    whole = arena.slot(1)
    whole[:] = bytes(range(256)) * (SIZE // 256)
    ranges = ((0, 100), (1000, SIZE))
    expected = [bytes(whole[begin:end]) for begin, end in ranges]
    intake = UpdateReader(ranges)
    first = intake.fetch(arena.spot(1))
    lying = intake.look(arena.spot(1))
    whole[:] = bytes(SIZE)
    second = intake.fetch(arena.spot(1))
    assert first is not None
    assert second is not None
    assert lying is not None
    assert [bytes(piece) for piece in first] == expected
    assert [bytes(piece) for piece in second] == [bytes(end - begin) for begin, end in ranges]
    assert [bytes(piece) for piece in lying] == [bytes(piece) for piece in second]
    addresses = {_address(first), _address(second)}
    del first, second
    third = intake.fetch(arena.spot(1))
    assert third is not None
    assert _address(third) in addresses, "memory is used again"
    arena.close()


def test_memory_that_is_gone_is_no_memory_and_a_path_that_leads_elsewhere_neither() -> None:
    windows = MappedMemories()
    first = Arena.create(100, 1)
    spot = first.spot(0)
    first.slot(0)[:2] = b"ok"
    assert windows.view(spot)[:2] == b"ok"
    first.close()
    second = Arena.create(100, 1)
    assert second.path == spot.path, "the file number is used again"
    assert windows.view(second.spot(0))[:2] == b"\0\0"
    assert windows.look(spot) is None
    second.close()
    assert windows.look(Arena.create(100, 1).spot(0)) is not None
    windows.close()


def _address(pieces: list[memoryview]) -> int:
    return torch.frombuffer(pieces[0], dtype=torch.uint8).data_ptr()
