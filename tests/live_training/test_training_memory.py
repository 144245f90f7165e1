"""Memory that is used again: never while someone reads it, and never with other bits."""

from __future__ import annotations

import gc
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch import Tensor, nn
from training_bench import OPTIMIZERS, MixedApp, Points, a_job, drive, mixed_job, serve, whole

from warren.live.oracle.plain import train
from warren.live.training.block_ownership import ranges_of, static_owners
from warren.live.training.checkpoints.archive import Archive, unpack
from warren.live.training.gradient_sum import GradientMeans
from warren.live.training.memory.shared_memory import LentMemory, StateMemories, StatePool, fresh
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import Layout, flat_of
from warren.live.transport.frames import Stream
from warren.model.errors import WarrenError

pytestmark = pytest.mark.slow


def test_fresh_memory_is_zero_and_aligned() -> None:
    for nbytes in (0, 1, 4095, 3 << 20):
        flat = fresh(nbytes)
        assert flat.numel() == nbytes
        assert not flat.any()
        assert flat.data_ptr() % 64 == 0


def test_a_place_is_free_when_the_last_view_of_any_kind_is_gone() -> None:
    place = LentMemory(1000)
    assert place.free
    view: Any = place.lend()
    piece, array = view[10:20], np.frombuffer(view, np.uint8)
    tensor = flat_of(view[100:])
    for _ in range(3):
        assert not place.free
        view, piece, array = piece, array, None
        gc.collect()
    del view, piece
    assert not place.free
    del tensor
    assert place.free


def test_a_state_on_its_way_is_not_overwritten_and_then_its_memory_is_used_again() -> None:
    model = nn.Linear(300, 300)
    layout = Layout.of(model)
    pool = StatePool(layout, ((0, layout.total_bytes),))
    sender, receiver = (Stream(end) for end in socket.socketpair())
    sender.send(b"", (bytes(1 << 20),))  # more than the kernel takes
    sent: list[bytes] = []
    for value in range(6):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(value)
        (state,) = pool.pack(list(model.parameters()))
        sent.append(bytes(state))
        sender.send(b"", (state,))
        del state
    assert len(pool) == 6, "nobody takes them yet"
    heard: list[bytes] = []
    while len(heard) < 7:
        sender.flush()
        heard += [bytes(buffer) for _, (buffer,) in receiver.drain()]
    assert heard[1:] == sent
    assert all(place.free for place, _ in pool._places)
    for _ in range(4):
        pool.pack(list(model.parameters()))
    assert len(pool) == 6
    sender.close()
    receiver.close()


def test_rounds_that_are_let_go_take_no_more_memory() -> None:
    job = a_job(rounds=12, scale=2)
    store = ParameterStore(Points(), job)
    drive(store, Points, job)
    assert len(store._replica._pool) <= 3
    assert store.digest() == train(Points(), job).digest


class Types(nn.Module):
    """Every kind of float, in neighbors of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(3)
        for index, (dtype, shape) in enumerate(
            [(torch.float32, (7, 3)), (torch.float32, ()), (torch.float32, (100_000,)),
             (torch.float64, (5,)), (torch.bfloat16, (33, 2)), (torch.bfloat16, (9,)),
             (torch.float16, (11,)), (torch.complex64, (13,)), (torch.complex64, (3, 3)),
             (torch.float32, (0,)), (torch.float32, (2, 2))]
        ):  # fmt: skip
            value = torch.randn(shape, generator=chance, dtype=torch.float64).to(dtype)
            self.register_parameter(f"p{index}", nn.Parameter(value))
        self.register_buffer("count", torch.tensor(4))
        self.register_buffer("mean", torch.randn(70, generator=chance))


def updates(layout: Layout, count: int) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    found = []
    for _ in range(count):
        flat = torch.zeros(layout.total_bytes, dtype=torch.uint8)
        for view in layout.views(flat).values():
            noise = torch.randn(view.shape, generator=chance, dtype=torch.float64)
            view.copy_((noise * 1000).to(view.dtype))
        found.append(flat)
    return found


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("scale", [1, 2, 3, 5])
def test_sums_have_the_bits_of_tensor_by_tensor_ones_wherever_the_bytes_lie(
    scale: int, parts: int
) -> None:
    layout = Layout.of(Types())
    given = updates(layout, scale)
    views = [layout.views(flat) for flat in given]
    owners = static_owners(layout, parts)
    for part in range(parts):
        ranges = ranges_of(layout, owners, part)
        for shift in (0, 1, 2, 3, 5, 8, 16, 33):
            means = GradientMeans(layout, ranges)
            means.compute([moved(flat, ranges, shift) for flat in given])
            for index, entry, view in means.views():
                assert owners[index] == part
                if entry.kind == "int_buffer":
                    continue
                first, *rest = (one[entry.name] for one in views)
                expected = sum(rest, start=first) / scale
                assert torch.equal(view, expected), (entry, shift)


def moved(flat: Tensor, ranges: Any, shift: int) -> list[memoryview]:
    """Copies of these ranges that begin ``shift`` bytes behind an aligned address."""
    pieces = []
    for begin, end in ranges:
        copy = fresh(end - begin + shift)[shift:]
        copy[:] = flat[begin:end]
        pieces.append(copy.numpy().data)
    return pieces


def test_a_state_at_any_address_gives_the_same_task() -> None:
    store, runner = ParameterStore(Points(), a_job()), TaskRunner(Points(), a_job())
    state = whole(store)
    flat = flat_of(state)
    expected = runner.run(state, 0, 1)
    for shift in (1, 4, 7, 32):
        (at,) = moved(flat, store.ranges, shift)
        (place,) = moved(flat, store.ranges, shift + 3)
        result = runner.run(at, 0, 1, place)
        assert result.marks == expected.marks
        assert bytes(place) == b"".join(expected.update)


@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize("chosen", OPTIMIZERS)
def test_updates_at_odd_addresses_step_to_the_bits_of_the_plain_loop(
    chosen: str, scale: int
) -> None:
    job = mixed_job(scale=scale, batch=24)
    store = ParameterStore(MixedApp(chosen=chosen), job)
    runner = TaskRunner(MixedApp(chosen=chosen), job)
    while not store.finished:
        for shard in range(scale):
            result = runner.run(whole(store), store.version, shard)
            update = moved(flat_of(result.update[0]), store.ranges, 1 + 2 * store.version)
            store.add(shard, replace(result, update=tuple(update)))
        store.step()
        store.conclude()
    assert store.digest() == train(MixedApp(chosen=chosen), job).digest


class Half(Points):
    """A second layer that only some tasks use, and a tensor that ends inside a line of 64."""

    def model(self) -> nn.Module:
        return nn.ModuleList([nn.Linear(3, 1), nn.Linear(5, 7)])

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        assert isinstance(model, nn.ModuleList)
        return super().loss(model[0], batch)


def test_every_byte_of_an_update_is_written() -> None:
    job = a_job()
    store, runner = ParameterStore(Half(), job), TaskRunner(Half(), job)
    places = [bytearray(value * store.total_bytes) for value in (b"\0", b"\xff")]
    results = [runner.run(whole(store), 0, 0, place) for place in places]
    assert places[0] == places[1]
    assert results[0].marks == results[1].marks
    assert results[0].present == b"\1\1\0\0"
    (update,) = results[0].update
    assert update is not places[0]
    assert memoryview(update).obj is places[0]
    with pytest.raises(ValueError, match="a state of this job has 384 bytes"):
        runner.run(whole(store), 0, 0, bytearray(383))
    with pytest.raises(ValueError, match="a state of this job has 384 bytes"):
        runner.run(whole(store)[:-1], 0, 0)
    with pytest.raises(ValueError, match="memory that may be written"):
        runner.run(whole(store), 0, 0, bytes(384))


def test_frames_of_few_buffers_are_kept_and_each_keeps_its_memory() -> None:
    layout = Layout.of(nn.Linear(3, 1))
    frames = StateMemories(layout)
    buffers = [bytearray(layout.total_bytes) for _ in range(5)]
    first = frames.at(buffers[0])
    assert frames.at(memoryview(buffers[0])) is first
    with pytest.raises(BufferError):
        buffers[0].append(0)  # it cannot move while its address is known
    for buffer in buffers[1:]:
        frames.at(buffer)
    assert frames.at(buffers[1]) is frames.at(buffers[1])
    assert frames.at(buffers[0]) is not first, "the one used least recently goes"
    buffers[2][:] = b"\1" * layout.total_bytes
    assert bytes(frames.at(buffers[2]).views[1].view(torch.uint8).numpy()) == b"\1" * 4
    assert [piece.numel() for piece in frames.at(buffers[2]).padding] == [52, 60]


class Keeps(torch.optim.SGD):
    """Steps by the last round's gradient, of which it keeps no copy."""

    def step(self, closure: Any = None) -> None:
        parameters = self.param_groups[0]["params"]
        kept = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = self.state[parameter].get("last", parameter.grad)
        super().step()
        for parameter, gradient in zip(parameters, kept, strict=True):
            self.state[parameter]["last"] = gradient


def test_an_optimizer_that_keeps_gradients_finds_them_unchanged() -> None:
    class KeepsApp(Points):
        def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
            return Keeps([p for _, p in named_parameters], lr=0.05)

    job = a_job(rounds=5)
    assert serve(KeepsApp, job)[0].digest() == train(KeepsApp(), job).digest


def test_an_archive_is_a_file_of_the_library_and_comes_back_with_its_tree(tmp_path: Path) -> None:
    found = {name: value.detach() for name, value in Types().state_dict().items()}
    found["turned"] = torch.arange(12.0).reshape(3, 4).t()
    archive, tree = Archive(), {"a": [1, None, {"b": 0.1}]}
    data = bytes(archive.pack(found, tree))
    assert {name: value.tolist() for name, value in load(data).items()} == {
        name: value.tolist() for name, value in found.items()
    }
    again, read = unpack(data)
    assert read == tree
    assert all(again[name].dtype == value.dtype for name, value in found.items())
    assert all(torch.equal(again[name], value) for name, value in found.items())


def test_an_archive_that_someone_holds_stays_as_it_is() -> None:
    archive = Archive()
    one = archive.pack({"a": torch.zeros(1000)}, 1)
    before = bytes(one)
    other = archive.pack({"a": torch.ones(1000)}, 1)
    assert bytes(one) == before != bytes(other)
    place = archive._place
    del one, other
    archive.pack({"a": torch.ones(999)}, 1)
    assert archive._place is place


def test_what_is_no_archive_is_refused() -> None:
    data = bytes(Archive().pack({"a": torch.ones(3)}, 1))
    for wrong in (b"", b"abc", data[:-1], data + b"\0", b"\xff" * 100):
        with pytest.raises(WarrenError, match="not a checkpoint"):
            unpack(wrong)
    with pytest.raises(WarrenError, match=r"a is of torch\.complex128"):
        Archive().pack({"a": torch.ones(1, dtype=torch.complex128)}, 1)
