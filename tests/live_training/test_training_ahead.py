"""What is made ready while others work gives the bits that it gives in its turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.nn import functional
from torch.utils.data import Dataset
from training_bench import MixedApp, a_job, mixed_job, whole

from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner


class Noisy(Dataset[Tensor]):
    """Samples of user code, which draws."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        return 90

    def __getitem__(self, index: int) -> Tensor:
        self.asked += 1
        return torch.randint(0, 7, ()) + 0 * index


class Subclass(Tensor):
    """A tensor whose indexing is user code."""


class OfSamples(MixedApp):
    scratch = ("dataset.asked",)

    def dataset(self) -> Any:
        return Noisy()


APPS = (MixedApp, OfSamples)


@pytest.mark.parametrize("make", APPS)
@pytest.mark.parametrize("disturbed", [False, True])
def test_an_expected_task_has_the_bits_of_one_that_was_not(
    make: type[MixedApp], disturbed: bool
) -> None:
    job = mixed_job()
    state = whole(ParameterStore(make(), job))
    runner = TaskRunner(make(), job)
    right = runner.run(state, 3, 1)
    runner.run(state, 3, 0)
    runner.expect(3, 1)
    if disturbed:
        runner.expect_nothing()
        torch.rand(3)  # what another job's task may do
    assert runner.run(state, 3, 1).marks == right.marks


@pytest.mark.parametrize("make", APPS)
def test_another_task_than_the_expected_and_the_same_once_more_are_right(
    make: type[MixedApp],
) -> None:
    job = mixed_job()
    state = whole(ParameterStore(make(), job))
    runner = TaskRunner(make(), job)
    right = {shard: runner.run(state, 2, shard).marks for shard in range(job.scale)}
    runner.expect(2, 1)
    assert runner.run(state, 2, 2).marks == right[2]
    assert runner.run(state, 2, 1).marks == right[1]
    runner.expect(2, 0)
    assert [runner.run(state, 2, 0).marks for _ in range(2)] == [right[0]] * 2


def test_samples_of_user_code_are_not_asked_for_early() -> None:
    job, app = mixed_job(), OfSamples()
    runner = TaskRunner(app, job)
    dataset = runner._batches._dataset
    runner.expect(0, 0)
    assert dataset.asked == 0
    runner.run(whole(ParameterStore(OfSamples(), job)), 0, 0)
    assert dataset.asked == job.batch


def _parts() -> Iterator[tuple[Any, bool]]:
    plain, odd = torch.zeros(20), torch.zeros(20).as_subclass(Subclass)
    yield plain, True
    yield (plain, plain), True
    yield [plain], True
    yield {"x": plain}, True
    yield odd, False
    yield (plain, odd), False
    yield {"x": odd}, False
    yield type("Rows", (tuple,), {})([plain]), False
    yield list(range(20)), False


@pytest.mark.parametrize(("dataset", "plain"), tuple(_parts()))
def test_only_tensors_of_the_library_itself_are_indexed_early(dataset: Any, plain: bool) -> None:
    class One(MixedApp):
        def dataset(self) -> Any:
            return dataset

    assert TaskRunner(One(), a_job())._batches.plain is plain


class Draws(optim.SGD):
    """Steps by chance."""

    def step(self, closure: Any = None) -> None:
        super().step()
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter += 0.01 * torch.rand_like(parameter)


class Chance(MixedApp):
    def model(self) -> nn.Module:
        return nn.Linear(4, 4)

    def dataset(self) -> Any:
        return torch.rand(40, 4)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return functional.mse_loss(model(batch), batch)

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return Draws([parameter for _, parameter in named_parameters], lr=0.1)


def _digest(*, early: bool) -> str:
    job = mixed_job(scale=1)
    store, runner = ParameterStore(Chance(), job), TaskRunner(Chance(), job)
    while not store.finished:
        store.add(0, runner.run(whole(store), store.version, 0))
        if early:
            store.seed()
            store.seed()
        store.step()
        store.conclude()
    return store.digest()


def test_a_barrier_that_was_seeded_early_draws_the_same() -> None:
    assert _digest(early=True) == _digest(early=False)
