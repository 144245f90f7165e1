"""What an app is when its first task comes: built in one order, and not changed by a rehearsal."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from training_bench import Points, a_job, whole

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train
from warren.live.training.app.app_calls import build
from warren.live.training.isolation.kept_values import content, keep, now, put_back
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.job import Evaluate


class Drawing(Points):
    """Writes down which method drew what; ``more``: one of them draws more than the others do."""

    said: ClassVar[list[tuple[str, float]]] = []
    scratch = ("Drawing.said",)
    more: str = ""

    def draw(self, method: str) -> None:
        drawn = random.random() + float(np.random.rand()) + float(torch.rand(()))
        self.said.append((method, drawn))
        if method == self.more:
            random.random(), np.random.rand(), torch.rand(7)

    def model(self) -> nn.Module:
        self.draw("model")
        return super().model()

    def dataset(self) -> Any:
        self.draw("dataset")
        return super().dataset()

    def optimizer(self, named_parameters: Any) -> Any:
        self.draw("optimizer")
        return super().optimizer(named_parameters)

    def schedule(self, optimizer: Any) -> Any:
        self.draw("schedule")


METHODS = ["model", "dataset", "optimizer", "schedule"]


def said_by(more: str, start: Any) -> list[tuple[str, float]]:
    Drawing.said.clear()
    start(Drawing(more=more), a_job(rounds=1))
    return list(Drawing.said)


@pytest.mark.parametrize("more", ["", *METHODS])
def test_what_a_method_draws_is_the_same_in_every_engine_whatever_others_draw(more: str) -> None:
    expected = said_by("", build)
    assert [method for method, _ in expected] == METHODS
    assert len({drawn for _, drawn in expected}) == 4
    for start in (TaskRunner, ParameterStore):
        assert said_by(more, start) == expected
    # The plain loop has a build for its barriers and one for its tasks.
    assert said_by(more, train) == 2 * expected


KEPT = {
    "torch generator": (torch.Generator, lambda one: torch.rand(3, generator=one)),
    "numpy generator": (lambda: np.random.default_rng(3), lambda one: one.normal()),
    "old numpy generator": (lambda: np.random.RandomState(3), lambda one: one.rand()),
    "python generator": (lambda: random.Random(3), lambda one: one.random()),
    "tensor": (lambda: torch.ones(3), lambda one: one.mul_(2)),
    "array": (lambda: np.ones(3), lambda one: one.__imul__(2)),
    "list": (lambda: [1], lambda one: one.append(2)),
    "set": (lambda: {1}, lambda one: one.add(2)),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_kept_is_put_back_with_its_content_be_it_written_or_replaced(kind: str) -> None:
    make, change = KEPT[kind]
    holder: dict[str, Any] = {"x": make()}
    value, before = holder["x"], content(holder["x"])
    kept = keep("self.x", holder, "x", value, copied=True)
    change(value)
    changed = now(kept)
    assert changed is not None
    assert changed.mark != kept.mark
    assert content(value) != before
    holder["x"] = None
    put_back(kept)
    assert holder["x"] is value
    assert content(value) == before


class Normed(Points):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.3), nn.Linear(3, 1))


class Meddling(Normed):
    """Its evaluation counts as a batch."""

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        model.train()
        model(torch.ones(4, 3))
        return super().evaluate(model)


@pytest.mark.parametrize("make", [Normed, Meddling])
def test_warming_up_changes_nothing(make: type[TorchApp]) -> None:
    job = a_job(scale=1, evaluate=Evaluate(every=2))
    store, runner = ParameterStore(make(), job), TaskRunner(make(), job)
    before = whole(ParameterStore(make(), job))
    store.warm()
    runner.warm()
    store.add(0, runner.run(whole(store), 0, 0))
    assert before == whole(store)
    while not store.finished:
        store.step()
        store.conclude()
        if not store.finished:
            store.add(0, runner.run(whole(store), store.version, 0))
    assert store.digest() == train(make(), job).digest
