"""What a stepping process does, on a device: WARREN_TEST_DEVICE=cuda, or the stand-in by default.

Not collected by itself, since a process with a stand-in device is of no use to other tests:
``tests/live_training/test_training_on_device.py`` runs it in a process of its own. On a machine
with a GPU: ``WARREN_TEST_DEVICE=cuda python -m pytest tests/standin/on_device.py -n 0``.
"""

from __future__ import annotations

import os
import sys
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

from warren.live.gpu.app_tensors import move
from warren.live.oracle.plain import PlainResult, train
from warren.live.training.app.app_calls import build
from warren.live.training.app.app_loader import build_app
from warren.live.training.gradient_clipping import squares_of
from warren.live.training.mixed_devices import meeting
from warren.live.training.numerics import pin
from warren.live.training.tensor_layout import device_of, digest
from warren.live.training.weight_average import averaged_state, safetensors_of, update_average
from warren.model.job import Evaluate, Job

REAL = os.environ.get("WARREN_TEST_DEVICE", "") == "cuda"
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


def same(one: PlainResult, other: PlainResult) -> bool:
    return (one.digest, one.losses, one.metrics) == (other.digest, other.losses, other.metrics)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_trains_and_evaluates_on_the_device(name: str) -> None:
    pytest.importorskip("sklearn")
    job = example(name)
    make = partial(build_app, job, str(APPS))
    there, again, here = (train(make(), job, None, at) for at in (DEVICE, DEVICE, None))
    assert same(there, again)
    assert all(one.is_cpu for one in there.state_dict.values())
    assert there.losses == pytest.approx(here.losses, rel=1e-3)
    for done, metrics in there.metrics.items():
        assert metrics == pytest.approx(here.metrics[done], rel=2e-2, abs=2e-2)
    # Its kernels are those of processors, but for one that is written out there.
    assert REAL or name == "charlm" or same(there, here)


@pytest.mark.parametrize("chosen", OPTIMIZERS)
def test_every_optimizer_steps_on_the_device(chosen: str) -> None:
    job = a_job(params={"chosen": chosen}, evaluate=Evaluate(every=2))

    class Chosen(MixedApp):
        ema = 0.9
        clip_norm = 1.0

    Chosen.chosen = chosen
    there, again, here = (train(Chosen(), job, None, at) for at in (DEVICE, DEVICE, None))
    assert same(there, again)
    assert there.losses == pytest.approx(here.losses, rel=1e-2)
    assert there.averaged_state_dict is not None
    assert all(one.is_cpu for one in there.averaged_state_dict.values())


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
    for state in built.optimizer.state.values():
        assert (state["step"].device.type, state["sum"].device) == ("cpu", DEVICE)
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
    there, here = train(Meets(), job, None, DEVICE), train(Meets(), job)
    for done, metrics in here.metrics.items():
        assert there.metrics[done] == pytest.approx(metrics, rel=1e-4)
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
