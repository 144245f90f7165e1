"""Models compiled by ``torch.compile``: the bits of the model as it is, and no state by mistake."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_bench import Points, a_job, serve_split

from warren.live.gpu.trainer_device import memory_on
from warren.live.oracle.plain import train
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner

pytestmark = pytest.mark.slow


class Line(nn.Module):
    """Of a class of its own: torch leaves its own modules uncompiled."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).tanh()


class Lines(Points):
    def model(self) -> nn.Module:
        return Line()


class Compiled(Lines):
    """Compiled in place; this backend is torch's own interpreter, which needs no C++ compiler."""

    def model(self) -> nn.Module:
        net = super().model()
        net.compile(backend="eager")
        return net


class BreaksLine(Line):
    """What its graph is cut by, so that compiled code goes on from globals of its file."""

    def forward(self, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return self.line(x).tanh()


class Breaks(Compiled):
    def model(self) -> nn.Module:
        net = BreaksLine()
        net.compile(backend="eager")
        return net


class CompiledLoss(Lines):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        compiled: Any = torch.compile(super().loss, backend="eager")
        loss: Tensor = compiled(model, batch)
        return loss


class Loads(Lines):
    """Its first task does to SGD what the first call of compiled code does."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        kind: Any = torch.optim.SGD
        if not hasattr(kind._init_group, "_torchdynamo_orig_callable"):
            kind._init_group = torch._dynamo.disable(kind._init_group)
        return super().loss(model, batch)


def _graphs() -> int:
    counters: Any = torch._dynamo.utils.counters
    return int(counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("app", [Compiled, Breaks, CompiledLoss])
def test_compiled_code_has_the_bits_of_the_code_as_it_is_with_two_servers_too(app: Any) -> None:
    job = a_job()
    plain = train(Lines(), job).digest
    before = _graphs()
    assert train(app(), job).digest == plain
    assert _graphs() > before, "nothing was compiled"
    store, _ = serve_split(app, job, 2)
    assert store.digest() == plain


def test_what_compiled_code_keeps_in_globals_of_the_app_stays_there_after_a_task() -> None:
    store = ParameterStore(Breaks(), a_job())
    runner = TaskRunner(Breaks(), a_job())
    runner.run(b"".join(store.state()), 0, 0)
    assert any(name.startswith("__builtins_dict__") for name in globals())


class Normed(Points):
    """Writes its buffers in each pass, which a compiler of backward passes must allow."""

    compiled = True

    def model(self) -> nn.Module:
        net = Line()
        net.line = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        if self.compiled:
            net.compile(backend="aot_eager")
        return net


class NormedAsItIs(Normed):
    compiled = False


def on_device(app: Any) -> TaskRunner:
    return TaskRunner(app(), a_job(), memory_on(torch.device("cpu")))


def test_a_model_on_a_device_is_compiled_though_its_tensors_lie_side_by_side() -> None:
    state = b"".join(ParameterStore(Normed(), a_job()).state())
    compiled, bare = on_device(Normed), on_device(NormedAsItIs)
    before = _graphs()
    assert compiled.run(state, 0, 0).marks == bare.run(state, 0, 0).marks
    assert _graphs() > before, "nothing was compiled"
    compiled.evict()
    assert compiled.run(state, 0, 1).marks == bare.run(state, 0, 1).marks


def test_states_of_a_compiled_model_come_whole_to_a_device() -> None:
    """Compiled code hides which tensors it reads."""
    state = b"".join(ParameterStore(Compiled(), a_job()).state())
    compiled, bare = on_device(Compiled), on_device(Lines)
    assert compiled._memory.transfer.whole  # type: ignore[attr-defined]
    assert not bare._memory.transfer.whole  # type: ignore[attr-defined]
    for shard in range(3):
        assert compiled.run(state, 0, shard).marks == bare.run(state, 0, shard).marks


def test_what_the_first_compiled_call_does_to_optimizers_is_no_state_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = torch.optim.SGD._init_group
    # Another test may have compiled something in this process.
    bare = getattr(kept, "_torchdynamo_orig_callable", kept)
    monkeypatch.setattr(torch.optim.SGD, "_init_group", bare)
    assert train(Loads(), a_job()).digest == train(Lines(), a_job()).digest
