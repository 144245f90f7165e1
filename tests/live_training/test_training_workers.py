"""Worker processes build the batches that a trainer would build, and end with it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from processes import wait_until
from torch import Tensor
from torch.utils.data import Dataset
from training_bench import MixedApp, Points, a_job, mixed_job, whole

from warren.live.oracle.plain import train
from warren.live.training.app.app_calls import build
from warren.live.training.data_order import start_workers
from warren.live.training.input_data.batch_memory import load, same_contents, store
from warren.live.training.input_data.batch_workers import BatchWorkers
from warren.live.training.input_data.coming_tasks import ComingTasks
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.errors import SpecError
from warren.model.job import Job


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


class Drawn(Dataset[Any]):
    """Points that are moved by chance, by all three generators."""

    def __init__(self) -> None:
        self.x, self.y = Points().dataset()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, item: int) -> Any:
        moved = random.random() + float(np.random.rand())
        return self.x[item] + moved * torch.rand(3), self.y[item]


class Augmented(Points):
    def dataset(self) -> Any:
        return Drawn()

    def collate(self, samples: list[Any]) -> Any:
        x, y = zip(*samples, strict=True)
        return Pair(torch.stack(x) + torch.rand(()), torch.stack(y))

    def sampler(self, epoch: int, length: int) -> Sequence[int]:
        return torch.randint(length, (20,)).tolist()

    def loss(self, model: Any, batch: Any) -> Tensor:
        return super().loss(model, (batch.x + torch.rand(()), batch.y))


@contextmanager
def runner_of(
    make: Callable[[], Points], job: Job, count: int
) -> Iterator[tuple[TaskRunner, BatchWorkers]]:
    app = make()
    built = build(app, job)
    workers = start_workers(built, job, count)
    assert workers is not None
    try:
        yield TaskRunner(app, job, built=built, workers=workers), workers
    finally:
        workers.close()


def trained(runner: TaskRunner, job: Job, between: Callable[[], None] = lambda: None) -> str:
    store = ParameterStore(Augmented(), job)
    while not store.finished:
        for shard in range(job.scale):
            store.add(shard, runner.run(whole(store), store.version, shard))
            between()
        store.step()
        store.conclude()
    return store.digest()


@pytest.mark.parametrize("count", [1, 4])
def test_draws_of_samples_and_orders_are_those_of_plain_for_any_number_of_workers(
    count: int,
) -> None:
    job = a_job(rounds=8)
    right = train(Augmented(), job).digest
    assert trained(TaskRunner(Augmented(), job), job) == right
    with runner_of(Augmented, job, count) as (runner, _):
        assert trained(runner, job) == right
        assert runner.run(whole(ParameterStore(Augmented(), job)), 0, 0).data_ns > 0


def test_a_killed_worker_is_replaced_and_changes_no_bit() -> None:
    job = a_job(rounds=8)
    right = train(Augmented(), job).digest
    with runner_of(Augmented, job, 2) as (runner, workers):
        killed = set()

        def kill() -> None:
            for pid in workers.pids:
                with suppress(ProcessLookupError):  # it may be dead, and not yet known to be
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)

        assert trained(runner, job, kill) == right
        assert len(killed) > 3


def test_a_trainer_whose_workers_are_gone_for_good_builds_its_batches_itself() -> None:
    job = a_job(rounds=8)
    right = train(Augmented(), job).digest
    with runner_of(Augmented, job, 2) as (runner, workers):
        os.kill(workers.parent, signal.SIGKILL)
        assert trained(runner, job) == right


def test_workers_end_with_their_trainer() -> None:
    seen, write = os.pipe()
    trainer = os.fork()
    if not trainer:
        with runner_of(Augmented, a_job(), 2) as (runner, workers):
            state = whole(ParameterStore(Augmented(), a_job()))
            for round_no in range(5):
                runner.run(state, round_no, 0)
            os.write(write, " ".join(map(str, [workers.parent, *workers.pids])).encode())
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(trainer, 0)
    pids = [int(one) for one in os.read(seen, 100).split()]
    assert len(pids) > 1
    assert wait_until(lambda: not any(_lives(pid) for pid in pids))
    os.close(seen)
    os.close(write)


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


class Trouble(Augmented):
    """Odd samples make trouble in workers."""

    def dataset(self) -> Any:
        parent = os.getpid()

        class Bad(Drawn):
            def __getitem__(self, item: int) -> Any:
                if os.getpid() != parent and item % 2:
                    trouble(item)
                return super().__getitem__(item)

        return Bad()


def trouble(item: int) -> None:
    raise NotImplementedError


def _fails(item: int) -> None:
    raise ValueError(f"no picture {item}")


def _crashes(item: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _leaves(item: int) -> None:
    os._exit(3)


def _exits(item: int) -> None:
    raise SystemExit(4)


def _hangs(item: int) -> None:
    time.sleep(1000)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (_fails, r"dataset\(\): sample \d+: ValueError: no picture \d+ \(test_training_wor"),
        (_crashes, r"dataset\(\): sample \d+: 3 worker processes ended there, .*SIGSEGV"),
        (_leaves, r"dataset\(\): sample \d+: 3 worker processes ended there, .*exit status 3"),
        (_exits, r"dataset\(\): sample \d+: SystemExit: 4"),
        (_hangs, r"dataset\(\): sample \d+ did not end within its limit of 0.2 s \(task_limit\)"),
    ],
)
def test_trouble_in_a_worker_is_one_line_with_the_sample(
    how: Callable[[int], None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "trouble", how)
    limit_ns = 200_000_000 if how is _hangs else 600 * 10**9
    job = a_job(task_limit_ns=limit_ns)
    state = whole(ParameterStore(Augmented(), job))
    with runner_of(Trouble, job, 1) as (runner, _), pytest.raises(SpecError, match=said) as error:
        runner.run(state, 0, 0)
    assert "\n" not in str(error.value)


class Uneven(Augmented):
    """Its samples differ from process to process."""

    def dataset(self) -> Any:
        class Own(Drawn):
            def __getitem__(self, item: int) -> Any:
                return self.x[item] + os.getpid(), self.y[item]

        return Own()


class Reads(Augmented):
    """Its samples depend on the model, whose states no worker has."""

    def model(self) -> Any:
        self.net = super().model()
        return self.net

    def collate(self, samples: list[Any]) -> Any:
        x, y = zip(*samples, strict=True)
        return Pair(torch.stack(x) * self.net.weight.detach(), torch.stack(y))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Uneven, r"dataset\(\): gives other samples in a worker process \(task 0 of round 0\)"),
        (Reads, r"collate\(\): RuntimeError: "),
    ],
)
def test_samples_that_workers_cannot_give_are_refused(make: Any, said: str) -> None:
    state = whole(ParameterStore(Augmented(), a_job()))
    with runner_of(make, a_job(), 1) as (runner, _), pytest.raises(SpecError, match=said):
        runner.run(state, 0, 0)


def test_tasks_in_any_order_and_after_going_back_have_their_bits() -> None:
    job = mixed_job()

    class Shuffled(Augmented):
        def sampler(self, epoch: int, length: int) -> Sequence[int]:
            return np.random.permutation(length)

    state = whole(ParameterStore(Shuffled(), job))
    alone = TaskRunner(Shuffled(), job)
    tasks = [(r, k) for r in range(5) for k in range(job.scale)]
    chance = random.Random(3)
    with runner_of(Shuffled, job, 2) as (runner, _):
        for task in [*tasks, *chance.sample(tasks, len(tasks)), *tasks]:
            if chance.random() < 0.5:
                runner.read_ahead(*chance.choice(tasks))
            assert runner.run(state, *task).marks == alone.run(state, *task).marks


def test_tensors_alone_need_no_workers() -> None:
    assert start_workers(build(MixedApp(), mixed_job()), mixed_job(), 4) is None


@dataclass
class Named:
    name: str
    x: Tensor


def _batches() -> Iterator[Any]:
    square = torch.arange(12.0).reshape(3, 4)
    yield square
    yield {"a": square.t(), "b": [square[:, 1], (square.bool(), torch.zeros(0, 3))]}
    yield square.to(torch.bfloat16), torch.complex(square, square), torch.tensor(3)
    yield square.expand(2, 3, 4), np.arange(6).reshape(2, 3), ["a", None, 1.5]
    yield Pair(square, square), Named("n", square)


@pytest.mark.parametrize("batch", tuple(_batches()))
def test_a_batch_arrives_with_its_types_strides_and_bytes(batch: Any) -> None:
    again = load(store(batch))
    assert type(again) is type(batch)
    assert same_contents(batch, again)

    def strides(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.stride(), value.dtype, value.tolist()
        if isinstance(value, dict):
            return [strides(one) for one in value.values()]
        return [strides(one) for one in value] if isinstance(value, list | tuple) else type(value)

    assert strides(again) == strides(batch)


def test_a_class_that_no_module_has_arrives_too() -> None:
    class Unlike(type):
        def __hash__(cls) -> int:
            raise ValueError

    class Beside(metaclass=Unlike):
        pass

    @dataclass
    class Local:
        x: Tensor

    (again,) = load(store([Local(torch.ones(2))]))
    assert type(again) is Local


@pytest.mark.parametrize(
    ("seen", "after", "coming"),
    [
        ([(0, 0)], (0, 0), [(1, 0)]),
        ([(0, 0), (1, 0)], (1, 0), [(2, 0), (3, 0)]),
        ([(0, 0), (0, 2), (1, 0)], (1, 0), [(1, 2), (2, 0), (2, 2), (3, 0), (3, 2)]),
        ([(0, 1), (1, 0)], (1, 0), [(2, 0), (3, 0)]),
        ([(2, 1), (3, 1)], (3, 1), []),
    ],
)
def test_later_rounds_are_expected_to_bring_the_same_tasks(
    seen: list[tuple[int, int]], after: tuple[int, int], coming: list[tuple[int, int]]
) -> None:
    tasks = ComingTasks(4)
    for task in seen:
        tasks.note(*task)
    assert list(tasks.after(*after)) == coming
