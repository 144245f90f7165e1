"""A model on a device: its bits are those of the plain loop, whatever it reads first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.device.trainer import Trainer
from warren.live.gpu.app_tensors import bring, moved
from warren.live.gpu.gpu_memory import DeviceMemory
from warren.live.gpu.transfer import PipelinedTransfer, pieces_of, whole_is_sooner
from warren.live.oracle.plain import _There, train
from warren.live.rings.gradient_mean import RingMeans
from warren.live.training.app.app_calls import BuiltApp, build
from warren.live.training.memory.model_memory import DeviceMemoryShort, ModelMemory, ran_out
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner, in_main_memory
from warren.live.training.tensor_layout import Layout, flat_of, raw, tensors
from warren.model.errors import SpecError
from warren.model.job import Job

CPU = torch.device("cpu")
JOB = Job(index=0, name="job", app="app.py:App", scale=2, rounds=3, batch=4, seed=3)


class LateLane:
    """A stand-in for a stream: bytes are copied when somebody waits for them, and not before."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Tensor, Tensor]] = []
        self.copied = 0

    def copy(self, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Sequence[object]:
        """Note copies; until one is waited for its target holds what no state does."""
        for target in targets:
            target.fill_(0xFF)
        pairs = list(zip(targets, sources, strict=True))
        self.under_way += pairs
        return pairs

    def wait(self, copied: object) -> bool:
        """Copy now."""
        found = [pair for pair in self.under_way if pair is copied]
        self.under_way = [pair for pair in self.under_way if pair is not copied]
        with torch._C.DisableTorchFunction():
            for target, source in found:
                target.copy_(source)
                self.copied += 1
        return True

    def synchronize(self) -> None:
        """Copy all that is left."""
        for pair in list(self.under_way):
            self.wait(pair)

    def read(self, source: Tensor) -> Callable[[], Tensor]:
        """Copy when it is waited for."""
        return source.clone

    def asked(self) -> object:
        """All that was asked for is done."""

    def bring_out(self, target: Tensor, source: Tensor, after: object) -> None:
        """Copy now."""
        target.copy_(source)


class Net(nn.Module):
    """Layers in an order of their own; some are read without being called, and two are tied."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.spare = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.recurrent = nn.GRU(6, 8, batch_first=True)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.spare.weight
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))])
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of shape (batch, 3)."""
        hidden, _ = self.recurrent(x)
        hidden = nn.functional.linear(hidden[:, -1], self.spare.weight)
        hidden = torch.stack([hidden * scale for scale in self.scales]).sum(dim=0)
        self.seen += 1
        result: Tensor = self.last(torch.relu(self.tied(self.norm(hidden))))
        return result


class NetApp(TorchApp):
    """Classes of random sequences, by a table that the app keeps."""

    def model(self) -> nn.Module:
        """The layers."""
        self.table = torch.arange(3).float()
        return Net()

    def dataset(self) -> Any:
        """Sequences and classes."""
        return torch.randn(20, 5, 6), torch.arange(20) % 3

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Cross entropy, with noise."""
        x, y = batch
        scores = model(x + 0.01 * torch.rand(x.shape)) + self.table
        return nn.functional.cross_entropy(scores, y)


def in_late_memory(built: BuiltApp, layout: Layout) -> ModelMemory:
    """A device whose copies are as late as they may be."""
    return DeviceMemory(built, layout, CPU, LateLane())


def digest_of(*, pipelined: bool = True, staged: bool = False) -> str:
    """Train the job with a trainer whose model is on the stand-in; its digest."""
    store, runner = ParameterStore(NetApp(), JOB), TaskRunner(NetApp(), JOB, in_late_memory)
    memory = runner._memory
    assert isinstance(memory, DeviceMemory)
    memory.transfer.whole = not pipelined
    for round_no in range(3):
        state = b"".join(store.state())
        for shard in range(JOB.scale):
            if staged:
                runner.stage(state, round_no)
            store.add(shard, runner.run(state, round_no, shard))
        store.step()
        store.conclude()
    return store.digest()


def test_a_model_that_was_evicted_comes_back_with_its_state_and_gives_the_same_bits() -> None:
    store, runner = ParameterStore(NetApp(), JOB), TaskRunner(NetApp(), JOB, in_late_memory)
    for round_no in range(3):
        state = b"".join(store.state())
        for shard in range(JOB.scale):
            runner.evict()
            assert not any(one.numel() for one in runner.built.model.parameters())
            assert runner._memory._gathering is None  # type: ignore[attr-defined]
            if shard:
                runner.stage(state, round_no)
            store.add(shard, runner.run(state, round_no, shard))
        store.step()
        store.conclude()
    assert store.digest() == train(NetApp(), JOB).digest


def test_a_rank_of_a_ring_steps_a_model_of_its_own_where_tasks_are_computed_on_a_device() -> None:
    job = replace(JOB, sync="ring")
    runners = [TaskRunner(NetApp(), job, in_late_memory) for _ in range(job.scale)]
    stores = [ParameterStore(NetApp(), job, runner=one) for one in runners]
    means = RingMeans(stores[0].layout, job)
    for round_no in range(3):
        results = [
            runner.run(b"".join(store.state()), round_no, rank)
            for rank, (runner, store) in enumerate(zip(runners, stores, strict=True))
        ]
        mean = raw(means.of([flat_of(one.update[0]) for one in results]))
        for store, runner in zip(stores, runners, strict=True):
            runner.evict()  # a step needs nothing of the device
            store.add(0, replace(results[0], update=(mean,)))
            store.step()
            store.conclude()
    assert [one.digest() for one in stores] == 2 * [train(NetApp(), job).digest]


def test_results_that_are_brought_out_after_the_next_task_has_computed_have_the_same_bits() -> None:
    store, runner = ParameterStore(NetApp(), JOB), TaskRunner(NetApp(), JOB, in_late_memory)
    places = runner._memory._updates_there  # type: ignore[attr-defined]
    for round_no in range(3):
        state = b"".join(store.state())
        ends = []
        for shard in range(JOB.scale):
            runner.build_ahead(round_no, shard + 1)  # the last one does not come
            ends.append(runner.start(state, round_no, shard))
            runner.expect(round_no, shard + 1)
        for shard, end in enumerate(ends):
            store.add(shard, end())
        store.step()
        store.conclude()
    assert store.digest() == train(NetApp(), JOB).digest
    assert len(places) == JOB.scale + 1  # the last results are held; all others are used again


@pytest.mark.parametrize(("pipelined", "staged"), [(True, False), (False, False), (True, True)])
def test_states_that_come_late_piece_by_piece_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, pipelined: bool, staged: bool
) -> None:
    monkeypatch.setattr("warren.live.gpu.transfer.PIECE_BYTES", 256)
    assert digest_of(pipelined=pipelined, staged=staged) == train(NetApp(), JOB).digest


class ThreadedApp(NetApp):
    """Reads its model in a thread of its own, which nobody watches."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The same, computed elsewhere."""
        found: list[Tensor] = []

        def work() -> None:
            weights = model.spare.weight
            found.append((batch[0][:, 0] @ weights[:6, :6]).square().mean())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]


@pytest.mark.parametrize(("kind", "whole"), [(NetApp, False), (ThreadedApp, True)])
def test_a_rehearsal_finds_who_reads_what_it_does_not_wait_for(
    monkeypatch: pytest.MonkeyPatch, kind: type[NetApp], whole: bool
) -> None:
    monkeypatch.setattr("warren.live.gpu.transfer.PIECE_BYTES", 256)
    store, runner = ParameterStore(kind(), JOB), TaskRunner(kind(), JOB, in_late_memory)
    runner.warm()
    assert runner._memory.transfer.whole == whole  # type: ignore[attr-defined]
    for round_no in range(3):
        state = b"".join(store.state())
        for shard in range(JOB.scale):
            store.add(shard, runner.run(state, round_no, shard))
        store.step()
        store.conclude()
    assert store.digest() == train(kind(), JOB).digest


@pytest.mark.parametrize("whole", [True, False])
def test_states_come_in_the_way_that_was_sooner(whole: bool) -> None:
    model = nn.Linear(4, 4)
    layout = Layout.of(model)
    transfer = PipelinedTransfer(model, layout, torch.zeros(layout.total_bytes), LateLane())
    now_s = 0.0
    slow = iter([5.0, 5.0, 0.0, 0.0] * 4)  # what others take of the machine

    def trial() -> None:
        nonlocal now_s
        now_s += (1.0 if transfer.whole is whole else 1.1) + next(slow)

    assert whole_is_sooner(transfer, trial, lambda: now_s) is whole


def test_a_second_stream_waits_too() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))  # both are in one piece
    layout, lane = Layout.of(model), LateLane()
    flat, state = torch.zeros(layout.total_bytes, dtype=torch.uint8), layout.pack(model)
    for tensor, view in zip(model.parameters(), layout.views(flat).values(), strict=True):
        tensor.data = view
    transfer = PipelinedTransfer(model, layout, flat, lane)
    transfer.begin(state)
    waits: list[object] = []
    # Whoever waits is on a stream of his own: nobody else waits by that.
    lane.wait = lambda copied: waits.append(copied)  # type: ignore[assignment,method-assign,return-value]
    model(torch.ones(1, 4))
    assert len(waits) == 2
    assert transfer.left == 1


def test_the_plain_loop_gives_the_same_bits_with_its_tasks_on_a_device() -> None:
    assert train(NetApp(), JOB, NetApp(), CPU).digest == train(NetApp(), JOB).digest


def test_a_forward_pass_that_reads_too_early_would_be_seen() -> None:
    # The stand-in must be able to fail: without waiting, the model computes with other numbers.
    model = nn.Linear(4, 4)
    layout = Layout.of(model)
    flat, lane = torch.zeros(layout.total_bytes, dtype=torch.uint8), LateLane()
    state = layout.pack(model)
    for tensor, view in zip(model.parameters(), layout.views(flat).values(), strict=True):
        tensor.data = view
    transfer = PipelinedTransfer(model, layout, flat, lane)
    expected = nn.functional.linear(torch.ones(1, 4), *layout.views(state).values())
    transfer.begin(state)
    early = nn.functional.linear(torch.ones(1, 4), *(p.detach() for p in model.parameters()))
    assert not torch.equal(early, expected)
    assert torch.equal(model(torch.ones(1, 4)), expected)


def test_a_first_layer_computes_before_the_last_one_is_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warren.live.gpu.transfer.PIECE_BYTES", 256)
    built = build(NetApp(), JOB)
    layout, lane, waited = Layout.of(built.model), LateLane(), []
    memory = DeviceMemory(built, layout, CPU, lane)
    state = raw(layout.pack(built.model))
    memory.load(list(tensors(built.model).values()), state, 0)
    for name, module in built.model.named_modules():
        module.register_forward_hook(lambda *_, name=name: waited.append((name, lane.copied)))
    with memory.computing():
        NetApp.loss(built.app, built.model, tuple(part[:4] for part in built.dataset))
    # As the app does it, and in the order of its forward pass: each layer waits for its own.
    assert [name for name, _ in waited] == ["recurrent", "norm", "tied", "last", ""]
    counts = [copied for _, copied in waited]
    assert 0 < counts[0] < counts[3] == len(memory.transfer._pieces)
    assert lane.under_way == []


def test_pieces_are_all_bytes_once_with_buffers_first() -> None:
    layout = Layout.of(Net())
    for piece_bytes in (1, 200, 10**9):
        pieces = pieces_of(layout, piece_bytes)
        ordered = sorted(pieces)
        assert ordered[0][0] == 0
        assert ordered[-1][1] == layout.total_bytes
        assert all(end == begin for (_, end), (begin, _) in pairwise(ordered))
        buffers = layout.entries[len(layout.params)].offset
        kinds = [begin < buffers for begin, _ in pieces]
        assert kinds == sorted(kinds)


def test_a_model_has_the_numbers_that_it_was_built_with() -> None:
    # A rehearsal computes with them, and an app may check what it reads.
    runner = TaskRunner(NetApp(), JOB, in_late_memory)
    assert torch.equal(
        runner.layout.pack(runner.built.model),
        Layout.of(build(NetApp(), JOB).model).pack(build(NetApp(), JOB).model),
    )


def test_compiled_code_gets_its_state_in_one_piece() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0]._compiled_call_impl = model[0]._call_impl  # as ``compile()`` leaves it
    layout, lane = Layout.of(model), LateLane()
    transfer = PipelinedTransfer(
        model, layout, torch.zeros(layout.total_bytes, dtype=torch.uint8), lane
    )
    transfer.begin(layout.pack(model))
    assert (transfer.left, lane.under_way) == (0, [])


def test_tensors_that_an_app_keeps_are_moved_and_data_stay_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = NetApp()
    built = build(app, JOB)
    table, data = app.table, built.dataset[0].clone()
    monkeypatch.setattr("warren.live.gpu.app_tensors.moved", lambda tensor, _: tensor + 7)
    bring(built, CPU)
    assert app.table is table
    assert table.tolist() == [7, 8, 9]
    assert torch.equal(built.dataset[0], data)


class KeepingApp(NetApp):
    """Keeps a net beside its model, and a buffer of the model."""

    def model(self) -> nn.Module:
        """The layers, one of them with other strides."""
        self.teacher = nn.Linear(6, 3)
        model = Net()
        model.register_module("image", nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
        self.seen = model.seen
        return model


def test_parameters_outside_the_model_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    app = KeepingApp()
    built = build(app, JOB)
    monkeypatch.setattr("warren.live.gpu.app_tensors.moved", lambda one, _: torch.full_like(one, 7))
    bring(built, CPU)
    assert app.teacher.weight.eq(7).all()
    assert not built.model.last.weight.eq(7).any()


def test_the_plain_loop_has_the_strides_and_the_objects_that_trainers_have() -> None:
    there = _There(build(KeepingApp(), JOB), CPU, JOB).built
    built = build(KeepingApp(), JOB)
    DeviceMemory(built, Layout.of(built.model), CPU, LateLane())
    for model, app in ((there.model, there.app), (built.model, built.app)):
        assert model.image.weight.is_contiguous()
        assert app.seen is model.seen


def test_a_mixed_job_may_compute_a_task_again_on_another_kind_of_device() -> None:
    mixed = replace(JOB, numerics="mixed")
    store, runner = ParameterStore(NetApp(), mixed), TaskRunner(NetApp(), mixed)
    state = b"".join(store.state())
    first = runner.run(state, 0, 0)
    other = replace(first, marks=bytes(4) + first.marks[4:])
    store.add(0, first)
    store.add(0, other)
    strict = ParameterStore(NetApp(), JOB)
    strict.add(0, first)
    with pytest.raises(SpecError, match="app is not deterministic"):
        strict.add(0, other)


class FastApp(NetApp):
    """Sets what training scripts often set."""

    seen: ClassVar[list[bool]] = []
    scratch = ("FastApp.seen",)

    def model(self) -> nn.Module:
        """The layers."""
        torch.backends.cudnn.benchmark = True
        return super().model()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The same."""
        self.seen.append(torch.backends.cudnn.benchmark)
        return super().loss(model, batch)


def test_a_rehearsal_is_pinned_whatever_building_the_model_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    role: Any = SimpleNamespace(
        base="", rehearse=True, gpu=None, verifies=False, tmp=None, inputs=None, job=JOB
    )
    trainer: Any = SimpleNamespace(
        _runner=None, _job=JOB, _role=role, _memory_of=in_main_memory, _inputs=None,
        _prebuilt=None, _workers=None, _app=FastApp, _settle=lambda runner: runner.settle(),
    )  # fmt: skip
    Trainer._make_runner(trainer, Trainer._build_app(trainer))
    assert set(FastApp.seen) == {False}


def test_shortages_of_a_device_are_distinguished_from_errors_that_came_of_them() -> None:
    wrapped = ValueError("the app's own words")
    wrapped.__cause__ = torch.OutOfMemoryError("tried to allocate 2 GiB")
    library = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")
    assert all(map(ran_out, (wrapped, library, DeviceMemoryShort("short"))))
    assert not any(map(ran_out, (ValueError("out of memory"), RuntimeError("shapes differ"))))


def test_batches_of_any_form_are_moved() -> None:
    meta = torch.device("meta")
    batch = {"x": torch.ones(1), "rest": (torch.ones(1), [torch.ones(1), "word"])}
    there = moved(batch, meta)
    assert there["x"].device == there["rest"][0].device == there["rest"][1][0].device == meta
    assert there["rest"][1][1] == "word"
