"""What a stepping process does on a device.

It is the GPU if ``WARREN_TEST_DEVICE`` is ``cuda``, otherwise the stand-in; ``standin`` runs all of
it there, not a part. It is not collected by itself, since a process with a stand-in device is of no
use to other tests: ``tests/live_training/test_training_on_device.py`` runs it in a process of its
own. On a machine with a GPU:

    WARREN_TEST_DEVICE=cuda PYTHONPATH=src python -m pytest tests/standin/on_device.py -n 0
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "live_training")]
# ruff: noqa: E402

import standin_device
from training_bench import APPS, OPTIMIZERS, MixedApp, Points, a_job
from zoo_bench import fresh, zoo_job
from zoo_table import ONE_SERVER, SAME, TABLE, Kind

from warren.apps.protocol import TorchApp
from warren.live.gpu.app_tensors import move
from warren.live.gpu.mixed_devices import meeting
from warren.live.gpu.trainer_device import memory_on
from warren.live.oracle.plain import train
from warren.live.training.app.app_calls import build
from warren.live.training.app.app_loader import build_app
from warren.live.training.checkpoints import state
from warren.live.training.checkpoints.archive import Archive
from warren.live.training.checkpoints.barrier_state import BarrierState
from warren.live.training.gradient_clipping import squares_of
from warren.live.training.memory.device_bytes import DevicePlaces
from warren.live.training.numerics import pin
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import Layout, device_of, digest, tensors
from warren.live.training.weight_average import averaged_state, safetensors_of, update_average
from warren.model.errors import SpecError
from warren.model.job import Evaluate, Job

REAL = os.environ.get("WARREN_TEST_DEVICE", "") == "cuda"
FULL = bool(os.environ.get("WARREN_TEST_DEVICE"))
if REAL:
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
DEVICE = torch.device("cuda", 0) if REAL else standin_device.device()
pin()

EXAMPLES: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "mlp": ("digits.py:Digits", 3, 32, {}),
    "cnn": ("digits.py:DigitsCNN", 3, 16, {}),
    "cancer": ("cancer.py:Cancer", 4, 16, {"hidden": 8}),
    "diabetes": ("diabetes.py:Diabetes", 1, 32, {}),
    "charlm": ("charlm.py:CharLM", 2, 8, {}),
    "mlr": ("mlr.py:Mlr", 3, 64, {}),
    "lasso": ("lasso.py:Lasso", 2, 100, {"decay": 0.9, "period": 5}),
    "fista": (
        "lasso.py:Lasso", 4, 250, {"data": "synthetic", "accelerated": True, "l1": 0.2},
    ),
    "nmf": ("nmf.py:Nmf", 3, 64, {}),
    "lda": ("lda.py:Lda", 3, 40, {"scale": 3, "batch": 40, "topics": 5, "length": 25}),
    "porting": ("../porting/app.py:Digits", 2, 32, {}),
}  # fmt: skip


def example(name: str) -> Job:
    app, scale, batch, params = EXAMPLES[name]
    return a_job(app=app, scale=scale, batch=batch, params=params, rounds=5,
                 evaluate=Evaluate(every=2))  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """What a job came to."""

    digest: str
    average: str
    losses: tuple[float, ...]
    metrics: Mapping[int, Mapping[str, float]]


def plainly(make: Callable[[], TorchApp], job: Job, device: torch.device | None) -> Ended:
    found = train(make(), job, make(), device)
    every = [found.state_dict, found.averaged_state_dict or {}]
    assert all(one.is_cpu for state in every for one in state.values())
    return Ended(found.digest, digest(every[1]), found.losses, found.metrics)


def served(make: Callable[[], TorchApp], job: Job, stop_at: int | None = None) -> ParameterStore:
    """A store on the device, on its way to the end, and two trainers there."""
    store = ParameterStore(make(), job, device=DEVICE)
    return store if stop_at == 0 else go_on(store, make, stop_at)[0]


def go_on(
    store: ParameterStore, make: Callable[[], TorchApp], stop_at: int | None = None
) -> tuple[ParameterStore, Ended]:
    job = store._job
    runners = [TaskRunner(make(), job, memory_on(DEVICE)) for _ in range(2)]
    places, draw, outcomes = DevicePlaces(store.layout, DEVICE), random.Random(3), []
    while not store.finished and store.version != stop_at:
        state = store.there(store.version)
        for shard in draw.sample(range(job.scale), job.scale):
            runner = draw.choice(runners)
            store.add(shard, runner.run(state, store.version, shard, places.lend()))
        store.step()
        outcomes.append(store.conclude())
    metrics = {one.round + 1: one.metrics for one in outcomes if one.metrics is not None}
    losses = tuple(one.loss for one in outcomes)
    return store, Ended(store.digest(), digest(store.averaged_state_dict() or {}), losses, metrics)


def some(names: Iterable[str], part: str) -> list[str]:
    """All names, or a part of them where a processor does the work."""
    return [name for name in names if FULL or name in part.split(", ")]


@pytest.mark.parametrize("name", some(EXAMPLES, "cnn, charlm, mlr, fista"))
def test_every_example_has_the_bits_of_the_plain_loop_on_the_device(name: str) -> None:
    pytest.importorskip("sklearn")
    job = example(name)
    make = partial(build_app, job, str(APPS))
    there, here = (plainly(make, job, at) for at in (DEVICE, None))
    assert go_on(served(make, job, 0), make)[1] == there
    if not (REAL and name in ("cnn", "lda", "porting")):  # their tasks draw, and a GPU does so too
        assert there.losses == pytest.approx(here.losses, rel=1e-2)
        for done, metrics in there.metrics.items():
            assert metrics == pytest.approx(here.metrics[done], rel=2e-2, abs=2e-2)
    # Its kernels are those of processors, but for one that is written out there.
    assert REAL or name == "charlm" or there == here


@pytest.mark.parametrize("chosen", some(OPTIMIZERS, "sgd, adamw foreach, adagrad"))
def test_every_optimizer_has_the_bits_of_the_plain_loop_on_the_device(chosen: str) -> None:
    class Chosen(MixedApp):
        ema = 0.9
        clip_norm = 1.0

    Chosen.chosen = chosen
    job = a_job(rounds=4, evaluate=Evaluate(every=2))
    there, here = (plainly(Chosen, job, at) for at in (DEVICE, None))
    half = served(Chosen, job, 2)
    assert go_on(served(Chosen, job, 0), Chosen)[1] == there
    # It goes on from a checkpoint.
    copy = ParameterStore(Chosen(), job, device=DEVICE)
    copy.restore([bytes(half.checkpoint_part())])
    assert go_on(copy, Chosen)[1].digest == there.digest
    assert REAL or there.losses == pytest.approx(here.losses, rel=1e-2)


KINDS = [
    kind
    for kind in TABLE
    if kind.app.partition(":")[2]
    in {
        "BatchNorm", "AugmentedByTorch", "BFloat16", "Float16", "Autocast", "Transposed", "Tied",
        "SpectralNew", "Complex", "ClipNormMixed", "NaNs", "Hooks", "Small", "Ema",
        "AverageOfMixed", "Columns", "TableInEvaluate", "TwoOptimizers", "CountsSteps",
        "ClampsData", "TorchGenerator", "RunningMean", "Adversary", "DrawsInEvaluate",
        "WrittenLarge",
    }
][:: 1 if FULL else 3]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.app)
def test_a_kind_of_app_has_the_same_bits_or_the_same_refusal_on_the_device(kind: Kind) -> None:
    job = zoo_job(kind.app)

    def attempt(run: Callable[[], Ended]) -> str:
        try:
            return repr(run())  # NaN is like NaN
        except SpecError as error:
            return str(error)
        except RuntimeError as error:  # some kinds have no kernel, or draw in main memory
            if not REAL:
                raise
            return f"RuntimeError: {error}"
        finally:
            pin()

    make = partial(fresh, job)
    there = attempt(lambda: plainly(make, job, DEVICE))
    assert attempt(lambda: go_on(served(make, job, 0), make)[1]) == there
    refused = kind.outcome not in (SAME, ONE_SERVER)
    assert kind.says in there if refused and not there.startswith("RuntimeError") else True


def test_all_that_a_step_needs_is_brought_and_counters_of_steps_stay() -> None:
    class Keeps(Points):
        def optimizer(self, named_parameters: Any) -> optim.Optimizer:
            params = [one for _, one in named_parameters]
            found = optim.Adagrad(params, lr=torch.tensor(0.1), initial_accumulator_value=0.1)
            slow = [one.detach().clone() for one in params]

            def hook(optimizer: Any, *_: Any) -> None:
                for one, own in zip(slow, params, strict=True):
                    one.lerp_(own.detach(), 0.5)

            found.register_step_post_hook(hook)
            self.slow = slow
            return found

    built = build(Keeps(), a_job())
    move(built, DEVICE)
    assert {one.device for one in built.model.parameters()} == {DEVICE}
    assert {one.device for one in built.app.slow} == {DEVICE}
    for kept in built.optimizer.state.values():
        assert (kept["step"].device.type, kept["sum"].device) == ("cpu", DEVICE)
    assert built.optimizer.param_groups[0]["lr"].is_cpu
    assert all(one.is_cpu for one in built.dataset)


class Meets(Points):
    """Evaluates with tensors of main memory in many ways."""

    def dataset(self) -> tuple[Tensor, Tensor]:
        self.data = super().dataset()
        self.order = torch.randperm(50)
        return self.data

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        x, y = self.data
        found = model(x).squeeze(1)
        picked = x[self.order[:7]]
        total = torch.zeros(())
        total += (found - y).square().mean()
        counts = torch.zeros(50, dtype=torch.int64)
        counts[found.argsort()] += 1
        joined = torch.cat([found, y])
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
        parts = sum(float(self.loss(model, batch)) * len(batch[0]) for batch in loader)
        out = torch.empty(50)
        torch.sub(found, y, out=out)
        return {
            "total": float(total), "counts": float(counts.sum()), "joined": float(joined.norm()),
            "picked": float(model(picked).sum()), "parts": parts,
            "numpy": float(model(x).numpy().sum()), "kept": float(out.is_cpu and total.is_cpu),
        }  # fmt: skip


def test_an_evaluation_written_for_main_memory_meets_a_model_on_the_device() -> None:
    job = a_job(evaluate=Evaluate(every=1), rounds=3)
    there, here = (plainly(Meets, job, at) for at in (DEVICE, None))
    for done, metrics in here.metrics.items():
        assert there.metrics[done] == pytest.approx(metrics, rel=1e-4, abs=1e-3)
        assert metrics["kept"] == there.metrics[done]["kept"] == 1.0


def test_what_is_wrong_in_both_memories_is_refused_as_ever() -> None:
    x = torch.ones(3, device=DEVICE)
    with meeting(DEVICE):
        with pytest.raises(RuntimeError, match="size"):
            x + torch.ones(4)
        assert (x + torch.ones(3)).device == DEVICE
        assert x.numpy().sum() == 3.0


def test_squares_are_those_of_main_memory_and_come_in_one_copy() -> None:
    draw = torch.Generator().manual_seed(2)
    here = [torch.randn(n, generator=draw) for n in (5, 1 << 12, 0)] + [None, torch.tensor(3 + 4j)]
    there = [None if one is None else one.to(DEVICE) for one in here]
    before = 0 if REAL else standin_device.copies_out()
    assert squares_of(there) == pytest.approx(squares_of(here), rel=1e-12)
    assert REAL or standin_device.copies_out() == before + 1


def test_averages_and_files_are_those_of_main_memory() -> None:
    torch.manual_seed(1)
    here, there = nn.Linear(3, 2), nn.Linear(3, 2)
    there.load_state_dict(here.state_dict())
    there.to(DEVICE)
    averages: tuple[dict[Tensor, Tensor], ...] = ({}, {})
    for at in range(3):
        for model, kept in zip((here, there), averages, strict=True):
            with torch.no_grad():
                for one in model.parameters():
                    one.add_(at + 0.1)
            update_average(kept, model.parameters(), 0.9)
    states = [averaged_state(*one) for one in zip((here, there), averages, strict=True)]
    assert states[0] is not None
    assert states[1] is not None
    assert digest(states[0]) == digest(states[1]) != digest(here.state_dict())
    assert digest(here.state_dict()) == digest(there.state_dict())
    assert safetensors_of(here.state_dict()) == safetensors_of(there.state_dict())
    assert device_of(there) == DEVICE


class Odd(nn.Module):
    """Parameters and buffers of many kinds; they are stepped with drawn gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.tied = nn.Linear(6, 5, bias=False)
        self.tied.weight = self.linear.weight
        self.turned = nn.Parameter(torch.randn(3, 4).t())
        self.fp16 = nn.Parameter(torch.randn(7).half())
        self.bf16 = nn.Parameter(torch.randn(7).bfloat16())
        self.single = nn.Parameter(torch.tensor(0.5))
        self.nothing = nn.Parameter(torch.zeros(0))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))


class OddApp(Points):
    chosen: str = "sgd"
    complex: bool = False

    def model(self) -> nn.Module:
        model = Odd()
        if self.complex:
            model.rotated = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        return model

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return OPTIMIZERS[self.chosen]([one for _, one in named_parameters])

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.7)


class Kept(OddApp):
    """Keeps values at barriers outside ``state``: slow weights, a view of a weight, a generator."""

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        params = [one for _, one in named_parameters]
        found = optim.SGD(params, lr=0.1, momentum=0.9)
        slow = [one.detach().clone() for one in params]
        draw = torch.Generator()
        kept: dict[str, Any] = {}

        def hook(optimizer: Any, *_: Any) -> None:
            for one, own in zip(slow, params, strict=True):
                one.copy_(own.detach())
            kept["drawn"] = torch.rand(3, generator=draw)
            kept["last"] = params[0].detach()[1]
            kept["mean"] = params[0].detach().mean()
            kept["turned"] = params[1].detach().expand(2, -1).t().clone().t()

        found.register_step_post_hook(hook)
        return found


class Stepper:
    """What a checkpoint needs of a replica, with one server, on a device or in main memory."""

    def __init__(self, app: TorchApp, device: torch.device | None) -> None:
        self.job = a_job()
        self.built = build(app, self.job)
        if device is not None:
            move(self.built, device)
        self.model, self.optimizer = self.built.model, self.built.optimizer
        self.barrier = BarrierState(self.built)
        self.layout = Layout.of(self.model)
        self.owners = [0] * len(self.layout.entries)
        self.owned = self.current = frozenset(range(len(self.owners)))
        self.part, self.parts, self.disk = 0, 1, None
        self.archive = Archive()
        self.version = 0

    def step(self) -> None:
        draw = torch.Generator().manual_seed(self.version)
        for one in self.model.parameters():
            found = torch.randn(one.shape, generator=draw, dtype=torch.float32).to(one.dtype)
            one.grad = found.to(one.device)
        with torch.no_grad():
            self.model.norm.running_mean.add_(0.1)
            self.model.seen.add_(1)
        self.built.optimizer.step()
        self.built.schedule.step()
        self.version += 1
        self.barrier.check_tasks(self.job, self.version)
        self.barrier.check(self.job, self.version)

    def saved(self) -> bytes:
        return bytes(state.encode(self, self.archive, self.version, finished=False))

    def go_on_from(self, saved: bytes) -> None:
        self.version, _ = state.decode([saved], self)

    def kept(self) -> list[Any]:
        state = self.built.optimizer.state
        return [state[one] for one in self.model.parameters()]


def same_kept(one: Stepper, other: Stepper) -> bool:
    pairs = zip(one.kept(), other.kept(), strict=True)
    return all(
        a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a) for a, b in pairs
    )


def same_value(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor):
        return bool(one == other)
    return one.device == other.device and torch.equal(one.cpu(), other.cpu())


def makers() -> dict[str, Any]:
    found: dict[str, Any] = {
        name: type("Chosen", (OddApp,), {"chosen": name}) for name in OPTIMIZERS
    }
    return {**found, "complex": type("Turns", (OddApp,), {"complex": True}), "kept": Kept}


MAKERS = makers()


@pytest.mark.parametrize("name", some(MAKERS, "sgd, adam, adagrad, asgd, complex, kept"))
def test_a_checkpoint_goes_on_with_the_same_bits_on_the_device(name: str) -> None:
    make = MAKERS[name]
    whole = Stepper(make(), DEVICE)
    for _ in range(3):
        whole.step()
    saved = whole.saved()
    copy = Stepper(make(), DEVICE)
    copy.step()
    copy.go_on_from(saved)
    assert copy.version == 3
    state.check_same(whole, copy)
    assert same_kept(whole, copy)
    for _ in range(2):
        whole.step()
        copy.step()
    state.check_same(whole, copy)
    assert whole.saved() == copy.saved() != saved
    with torch.no_grad():
        copy.model.linear.bias[0].add_(1)
    with pytest.raises(SpecError, match=r"goes on with another 'linear\.bias'"):
        state.check_same(whole, copy)


@pytest.mark.parametrize("name", some(MAKERS, "sgd, adam, adagrad, asgd, complex, kept"))
@pytest.mark.parametrize("there", [True, False])
def test_a_checkpoint_moves_between_a_device_and_main_memory(name: str, there: bool) -> None:
    make = MAKERS[name]
    one, other = (Stepper(make(), DEVICE if at else None) for at in (there, not there))
    for _ in range(3):
        one.step()
    other.go_on_from(one.saved())
    assert digest(one.model.state_dict()) == digest(other.model.state_dict())
    for a, b in zip(one.kept(), other.kept(), strict=True):
        for key, value in a.items():
            assert not isinstance(value, Tensor) or torch.equal(value.cpu(), b[key].cpu())
    alone = Stepper(make(), None if there else DEVICE)
    alone.go_on_from(other.saved())
    assert same_kept(alone, other)
    other.step()


def test_a_checkpoint_holds_the_state_as_it_was_when_it_was_begun() -> None:
    stepper = Stepper(MAKERS["adam"](), DEVICE)
    stepper.step()
    whole = stepper.saved()
    waits = state.begin_encode(stepper, stepper.archive, stepper.version, finished=False)
    stepper.step()
    assert bytes(waits()) == whole != stepper.saved()


def test_views_of_a_flat_model_are_kept_as_views_of_their_own_tensor() -> None:
    class Views(Points):
        def model(self) -> nn.Module:
            return nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1))

        def optimizer(self, named_parameters: Any) -> optim.Optimizer:
            first, *_ = params = [one for _, one in named_parameters]
            found = optim.SGD(params, lr=0.1)
            self.kept: dict[str, Any] = {}
            found.register_step_post_hook(lambda *_: self.kept.update(row=first.detach()[0, 1:]))
            return found

    app = Views()
    built = build(app, a_job())
    layout = Layout.of(built.model)
    memory = layout.pack(built.model).to(DEVICE)
    for one, view in zip(tensors(built.model).values(), layout.views(memory).values(), strict=True):
        one.data = view
    barrier = BarrierState(built)
    for one in built.model.parameters():
        one.grad = torch.ones_like(one)
    built.optimizer.step()
    entries, _ = barrier.write(lambda _: True)
    assert "'view': ['0.weight', 1, [2], [1]]" in str(entries)
