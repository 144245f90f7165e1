"""Apps that break the contract are refused with one clear line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import LBFGS, SGD, Adam, lr_scheduler
from torch.utils.data import IterableDataset, TensorDataset
from training_bench import Points, a_job, serve

from warren.live.measure.task_times import alone
from warren.live.oracle.plain import train
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.errors import SpecError
from warren.model.job import Evaluate, Job, Stop


def _with(**methods: Callable[..., Any]) -> Any:
    return type("App", (Points,), dict(methods))()


class Endless(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(int, 1)


class Extra(nn.Linear):
    def get_extra_state(self) -> Any:
        return {"a": 1}

    def set_extra_state(self, state: Any) -> None:
        pass


SERVER = {
    "must give a torch.nn.Module, not int": {"model": lambda self: 3},
    "'weight' has no shape yet": {"model": lambda self: nn.LazyLinear(3)},
    "extra state '_extra_state' is neither parameter nor buffer": {
        "model": lambda self: Extra(3, 1)
    },
    "LBFGS.step needs a closure": {"optimizer": lambda self, ps: LBFGS(p for _, p in ps)},
    "Adam must be built with fused=False": {"optimizer": lambda self, ps: Adam(ps, fused=True)},
    "must give a torch.optim.Optimizer, not NoneType": {"optimizer": lambda self, ps: None},
    "ReduceLROnPlateau.step needs a metric": {
        "schedule": lambda self, o: lr_scheduler.ReduceLROnPlateau(o)
    },
    "must give an LRScheduler or None, not int": {"schedule": lambda self, o: 1},
    "makes a schedule and returns None; return the schedule": {
        "schedule": lambda self, o: setattr(self, "kept", lr_scheduler.ExponentialLR(o, 0.9))
    },
}
TRAINER = {
    "map-style Dataset or tensors, not Endless": {"dataset": lambda self: Endless()},
    "all of one length": {"dataset": lambda self: (torch.ones(3), torch.ones(4))},
    "has no samples": {"dataset": lambda self: torch.ones(0, 3)},
    r"is never called: dataset\(\) gives tensors": {"collate": lambda self, samples: samples},
    r"do not make a batch \(stack .* equal size.*; define collate\(samples\)": {
        "dataset": lambda self: [(torch.ones(1 + item % 3),) for item in range(8)],
    },
    r"the batch mean, not \(8,\)": {"loss": lambda self, m, b: m(b[0]).squeeze()},
    "the batch mean, not float": {"loss": lambda self, m, b: 0.5},
    "depends on no parameter": {"loss": lambda self, m, b: torch.tensor(0.5)},
}


@pytest.mark.parametrize("message", SERVER)
def test_a_server_and_the_plain_loop_refuse(message: str) -> None:
    app = _with(**SERVER[message])
    for start in (ParameterStore, train):
        with pytest.raises(SpecError, match=message):
            start(app, a_job())


@pytest.mark.parametrize("message", TRAINER)
def test_a_trainer_and_the_plain_loop_refuse(message: str) -> None:
    app = _with(**TRAINER[message])
    state = ParameterStore(Points(), a_job()).state()[0]
    with pytest.raises(SpecError, match=message):
        TaskRunner(app, a_job()).run(state, 0, 0)
    with pytest.raises(SpecError, match=message):
        train(app, a_job())


@pytest.mark.parametrize(
    ("job", "answer", "message"),
    [
        (a_job(rounds=None), {}, "never ends; it needs rounds, a stop rule"),
        (a_job(stop=Stop(metric="f1", reaches=1.0)), {"a": 1.0}, "gives no 'f1'; it gives: a"),
        (a_job(evaluate=Evaluate(every=1)), [1], "must give a dict of numbers, not list"),
        (a_job(evaluate=Evaluate(every=1)), {"a": "b"}, "must give a dict of numbers: could not"),
    ],
)
def test_what_evaluate_gives_is_checked(job: Job, answer: Any, message: str) -> None:
    app = _with(evaluate=lambda self, model: answer)
    with pytest.raises(SpecError, match=message):
        serve(lambda: app, job)
    with pytest.raises(SpecError, match=message):
        train(app, job)


def test_whether_an_app_has_finished_is_true_or_false() -> None:
    app = _with(evaluate=lambda self, model: {"a": 1.0}, finished=lambda self, metrics: 1)
    with pytest.raises(SpecError, match=r"finished\(\): must give True or False, not int"):
        train(app, a_job(evaluate=Evaluate(every=1)))


def test_an_app_that_says_when_it_has_finished_must_be_asked() -> None:
    app = _with(finished=lambda self, metrics: True)
    with pytest.raises(SpecError, match=r"never ends; it needs .* evaluate and an app with"):
        train(app, a_job(rounds=None))
    for start in (ParameterStore, train):
        with pytest.raises(SpecError, match=r"finished\(\): of job .* set evaluate: \{every: N\}"):
            start(app, a_job(rounds=3))


def test_a_job_that_ends_by_what_its_app_says_can_be_measured_as_far_as_it_is_measured() -> None:
    app = _with(evaluate=lambda self, model: {"a": 1.0}, finished=lambda self, metrics: True)
    measured = alone(
        replace(a_job(), rounds=None, evaluate=Evaluate(every=1)), index=0, scale=1, rounds=3
    )
    assert train(app, measured).rounds == 3


def test_a_job_that_evaluates_needs_an_app_that_can() -> None:
    from warren.apps.protocol import TorchApp

    app = _with(evaluate=TorchApp.evaluate)
    with pytest.raises(SpecError, match="has no evaluate"):
        ParameterStore(app, a_job(evaluate=Evaluate(every=1)))


def test_sparse_gradients_are_refused() -> None:
    app = _with(
        model=lambda self: nn.Embedding(5, 2, sparse=True),
        dataset=lambda self: torch.arange(5).repeat(2),
        loss=lambda self, model, batch: model(batch).sum(),
    )
    with pytest.raises(SpecError, match="weight: has a sparse gradient"):
        serve(lambda: app, a_job())


def test_a_buffer_that_changes_its_shape_is_refused() -> None:
    def grow(self: Any, model: Any, batch: Any) -> Any:
        model.seen = torch.cat([model.seen, torch.ones(1)])
        return model(batch[0]).mean()

    def model(self: Any) -> nn.Module:
        net = nn.Linear(3, 1)
        net.register_buffer("seen", torch.ones(1))
        return net

    app = _with(model=model, loss=grow)
    with pytest.raises(SpecError, match=r"seen: changed from torch.float32 \(1,\) to .*\(2,\)"):
        serve(lambda: app, a_job())


@pytest.mark.parametrize("form", ["dataset", "dict", "list of pairs"])
def test_all_forms_of_data_train_to_the_same_bits(form: str) -> None:
    def dataset(self: Any) -> Any:
        x, y = Points().dataset()
        pairs = list(zip(x, y, strict=True))
        return {"dataset": TensorDataset(x, y), "dict": {"x": x, "y": y}, "list of pairs": pairs}[
            form
        ]

    def loss(self: Any, model: Any, batch: Any) -> Any:
        pair = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
        return Points().loss(model, pair)

    make = type("App", (Points,), {"dataset": dataset, "loss": loss})
    expected = train(Points(), a_job()).digest
    assert serve(make, a_job())[0].digest() == expected
    assert train(make(), a_job()).digest == expected


def test_samples_of_unequal_lengths_train_as_collate_puts_them_together() -> None:
    def dataset(self: Any) -> Any:
        x, y = Points().dataset()
        # Zeros at the end of a sample are left out, and collate puts them back.
        return [(x[item, : 1 + item % 3], y[item]) for item in range(len(x))]

    def collate(self: Any, samples: list[Any]) -> Any:
        padded = [nn.functional.pad(one, (0, 3 - len(one))) for one, _ in samples]
        return torch.stack(padded), torch.stack([y for _, y in samples])

    def padded_first(self: Any) -> Any:
        x, y = Points().dataset()
        rows = [torch.where(torch.arange(3) < 1 + item % 3, one, 0.0) for item, one in enumerate(x)]
        return torch.stack(rows), y

    ragged = type("Ragged", (Points,), {"dataset": dataset, "collate": collate})
    expected = train(_with(dataset=padded_first), a_job()).digest
    assert train(ragged(), a_job()).digest == expected
    assert serve(ragged, a_job())[0].digest() == expected


def test_scratch_is_a_tuple_of_names() -> None:
    for start in (ParameterStore, train):
        with pytest.raises(
            SpecError, match=r"scratch: must be a tuple of names .* not 'self.calls'"
        ):
            start(_with(scratch="self.calls"), a_job())


def test_the_default_optimizer_is_plain_sgd() -> None:
    own = _with(optimizer=lambda self, ps: SGD(ps, lr=0.1, fused=False))
    assert train(own, a_job()).digest == train(Points(), a_job()).digest
