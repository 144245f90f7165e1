"""The rules of what a job computes, each against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from training_bench import Points, a_job, serve, whole

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import TaskResult
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import tensors
from warren.model.errors import SpecError
from warren.model.job import Evaluate, Stop


def joined(result: TaskResult) -> bytes:
    return b"".join(result.update)


class Sometimes(nn.Module):
    """Three weights: one always used, one only for negative first items, one never."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Parameter(torch.ones(1))
        self.sometimes = nn.Parameter(torch.ones(1))
        self.never = nn.Parameter(torch.ones(1))


class SometimesApp(TorchApp):
    def model(self) -> nn.Module:
        return Sometimes()

    def dataset(self) -> Tensor:
        return torch.arange(-8.0, 8.0)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        assert isinstance(model, Sometimes)
        loss = (model.always * batch).mean()
        if batch[0] < 0:
            loss = loss + (model.sometimes * batch).mean()
        return loss.squeeze()

    def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(named_parameters, lr=1.0, weight_decay=0.5)


def test_a_gradient_missing_on_some_shards_counts_as_zero_and_on_all_stays_none() -> None:
    job = a_job(scale=4, rounds=1, batch=2)
    runner, store = TaskRunner(SometimesApp(), job), ParameterStore(SometimesApp(), job)
    results = [runner.run(whole(store), 0, shard) for shard in range(4)]
    masks = [result.present for result in results]
    assert all(mask[0] == 1 and mask[2] == 0 for mask in masks)
    assert 0 < sum(mask[1] for mask in masks) < 4
    stream = runner._batches._stream
    means = [float(stream.task(0, k, scale=4, batch=2).mean()) - 8 for k in range(4)]
    expected = sum(mean for mean, mask in zip(means, masks, strict=True) if mask[1]) / 4
    for shard, result in enumerate(results):
        store.add(shard, result)
    store.step()
    state = store.state_dict()
    assert state["always"].item() == 1 - (sum(means) / 4 + 0.5)
    assert state["sometimes"].item() == 1 - (expected + 0.5)
    assert state["never"].item() == 1, "without a gradient there is no weight decay either"
    assert store.digest() == train(SometimesApp(), job).digest


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("first", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("hidden", torch.zeros(1), persistent=False)
        self.register_buffer("flag", torch.tensor(False))


class BuffersApp(TorchApp):
    """Buffers that count what they saw; ``mean`` is replaced, ``first`` changed in place."""

    def model(self) -> nn.Module:
        return Buffers()

    def dataset(self) -> Tensor:
        return torch.arange(24.0)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        model.mean = model.mean + batch.sum()
        model.first += batch.sum().long()
        model.hidden += batch.sum()
        model.flag.fill_(True)
        return (model.weight * model.hidden).mean()


def test_float_buffers_are_averaged_and_integer_ones_are_those_of_shard_0() -> None:
    job = a_job(scale=3, rounds=2, batch=4)
    runner = TaskRunner(BuffersApp(), job)
    stream = runner._batches._stream
    sums = [[float(stream.task(r, k, scale=3, batch=4).sum()) for k in range(3)] for r in range(2)]
    store, _ = serve(BuffersApp, job)
    state = store.state_dict()
    assert state["mean"].item() == pytest.approx(sum(sums[0]) / 3 + sum(sums[1]) / 3)
    assert state["first"].item() == sums[0][0] + sums[1][0]
    assert state["flag"].item() is True
    assert "hidden" not in state
    hidden = tensors(store._replica.model)["hidden"].item()
    assert hidden == state["mean"].item(), "a buffer that is not persistent is carried as well"
    assert store.digest() == train(BuffersApp(), job).digest


class Normed(Points):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.3), nn.Linear(3, 1))


def test_batch_norm_statistics_are_the_mean_over_shards() -> None:
    job = a_job(scale=3, rounds=1)
    runner, store = TaskRunner(Normed(), job), ParameterStore(Normed(), job)
    results = [runner.run(whole(store), 0, shard) for shard in range(3)]
    name = "0.running_mean"
    seen = [
        runner.layout.views(torch.frombuffer(result.update[0], dtype=torch.uint8))[name].clone()
        for result in results
    ]
    for shard, result in enumerate(results):
        store.add(shard, result)
    store.step()
    assert torch.equal(store.state_dict()[name], ((seen[0] + seen[1]) + seen[2]) / 3)
    assert store.state_dict()["0.num_batches_tracked"].item() == 1


def test_a_task_gives_the_same_result_whatever_ran_before_it() -> None:
    job = a_job()
    store, runner = ParameterStore(Normed(), job), TaskRunner(Normed(), job)
    state = whole(store)
    first = runner.run(state, 2, 1)
    runner.run(state, 0, 0)
    torch.rand(5)
    runner._model.eval()
    again = runner.run(state, 2, 1)
    other = TaskRunner(Normed(), job).run(bytearray(state), 2, 1)
    assert first.marks == again.marks == other.marks
    assert joined(first) == joined(again) == joined(other)
    assert runner.run(state, 2, 2).marks != first.marks


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.output = nn.Linear(4, 7, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.embedding(x))


class TiedApp(TorchApp):
    def model(self) -> nn.Module:
        return Tied()

    def dataset(self) -> Tensor:
        return torch.arange(70) % 7

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return functional.cross_entropy(model(batch), (batch + 1) % 7)


def test_a_tied_weight_is_one_tensor_that_steps_once() -> None:
    job = a_job(rounds=3)
    store, _ = serve(TiedApp, job)
    assert [entry.name for entry in store.layout.entries] == ["embedding.weight"]
    state = store.state_dict()
    assert torch.equal(state["embedding.weight"], state["output.weight"])
    assert store.digest() == train(TiedApp(), job).digest
    assert len(store.save()) > 2 * 7 * 4 * 4, "the file names both"


class ChannelsLast(Points):
    def model(self) -> nn.Module:
        net = nn.Sequential(nn.Unflatten(1, (3, 1, 1)), nn.Conv2d(3, 5, 1), nn.Flatten())
        return nn.Sequential(net, nn.Linear(5, 1)).to(memory_format=torch.channels_last)

    def optimizer(self, named_parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(named_parameters, lr=0.01)


class Double(Points):
    def model(self) -> nn.Module:
        return nn.Linear(3, 1).double()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, (batch[0].double(), batch[1].double()))


@pytest.mark.parametrize("make", [ChannelsLast, Double, Normed])
@pytest.mark.parametrize("scale", [1, 3])
def test_strides_and_types_of_the_model_change_nothing(make: type[TorchApp], scale: int) -> None:
    job = a_job(scale=scale)
    assert serve(make, job)[0].digest() == train(make(), job).digest


def test_a_stop_rule_ends_the_job_at_the_evaluation_where_it_holds() -> None:
    plain = train(Points(), a_job(rounds=20, evaluate=Evaluate(every=2)))
    target = sorted(plain.metrics.values(), key=lambda metrics: metrics["weight"])[5]["weight"]
    stop = Stop(metric="weight", reaches=target)
    first = min(done for done, metrics in plain.metrics.items() if metrics["weight"] >= target)
    for rounds in (None, 20):
        job = a_job(rounds=rounds, evaluate=Evaluate(every=2), stop=stop)
        store, outcomes = serve(Points, job)
        assert store.version == len(outcomes) == first
        assert store.digest() == train(Points(), job).digest
        with pytest.raises(ValueError, match="no task 0 is awaited"):
            store.add(0, TaskRunner(Points(), job).run(whole(store), first, 0))


class Enough(Points):
    """Ends when its weight has grown so far."""

    target = 0.0

    def finished(self, metrics: Mapping[str, float]) -> bool:
        return metrics["weight"] >= self.target


def test_a_job_of_no_stated_rounds_ends_when_its_app_says_so() -> None:
    plain = train(Points(), a_job(rounds=20, evaluate=Evaluate(every=2)))
    Enough.target = sorted(one["weight"] for one in plain.metrics.values())[5]
    first = min(done for done, one in plain.metrics.items() if one["weight"] >= Enough.target)
    for rounds in (None, 20):
        job = a_job(rounds=rounds, evaluate=Evaluate(every=2))
        store, outcomes = serve(Enough, job)
        assert store.version == len(outcomes) == first
        assert store.digest() == train(Enough(), job).digest


def test_a_stop_rule_without_evaluate_is_looked_at_every_round() -> None:
    job = a_job(rounds=None, stop=Stop(metric="weight", reaches=0.0))
    store, outcomes = serve(Points, job)
    assert (store.version, outcomes[0].finished) == (1, True)
    assert train(Points(), job).rounds == 1


def test_a_repeated_task_is_counted_once_and_must_repeat_its_bits() -> None:
    job = a_job(scale=2)
    store, runner = ParameterStore(Points(), job), TaskRunner(Points(), job)
    result = runner.run(whole(store), 0, 0)
    store.add(0, result)
    store.add(0, runner.run(whole(store), 0, 0))
    assert not store.results.complete
    with pytest.raises(SpecError, match=r"not deterministic: task 0 of round 0.*'weight'"):
        store.add(0, runner.run(whole(store), 0, 1))


def test_a_result_of_another_job_is_refused() -> None:
    job = a_job()
    store = ParameterStore(Points(), job)
    other = TaskRunner(Normed(), job)
    foreign = other.run(whole(ParameterStore(Normed(), job)), 0, 0)
    with pytest.raises(ValueError, match="another layout"):
        store.add(0, foreign)
    with pytest.raises(ValueError, match="not complete"):
        store.step()


def test_an_old_state_stays_as_it_was() -> None:
    job = a_job(scale=1)
    store, runner = ParameterStore(Points(), job), TaskRunner(Points(), job)
    (state,) = store.state()
    before = bytes(state)
    store.add(0, runner.run(state, 0, 0))
    store.step()
    assert bytes(state) == before != whole(store)


class Averages(Points):
    """Keeps an average of the parameters, which tasks of the first round leave nearly as it was."""

    def model(self) -> nn.Module:
        net = super().model()
        self.average = {name: one.detach().clone() for name, one in net.named_parameters()}
        return net

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        for name, one in model.named_parameters():
            self.average[name] = torch.lerp(self.average[name], one.detach(), 0.5)
        return super().loss(model, batch)


def test_what_shows_only_once_parameters_were_stepped_is_refused_within_three_rounds() -> None:
    with pytest.raises(SpecError, match=r"self\.average"):
        serve(Averages, a_job(rounds=3, scale=2), trainers=1)
    with pytest.raises(SpecError, match=r"self\.average"):
        train(Averages(), a_job(rounds=3, scale=2))


class WritesLarge(Points):
    """Multiplies by the mean of a large tensor, which each task writes past autograd."""

    def model(self) -> nn.Module:
        self.table = torch.ones(2 << 20)
        return super().model()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.table.data.mul_(0.5)
        return super().loss(model, batch) * self.table[7]


def test_a_large_tensor_that_tasks_write_as_a_whole_past_autograd_is_refused() -> None:
    with pytest.raises(SpecError, match=r"writes 'self\.table'"):
        serve(WritesLarge, a_job(rounds=2), trainers=1)
