"""The jobs of random histories, and what the plain loop makes of each: every state, to the bit.

Updates follow from the state that a task is given, so a stale, lost or doubled one shows in all
later rounds. Those of ``Whole`` are whole numbers, whose sums are exact: its rounds are made by a
single dict of numbers, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import torch
from torch import nn

from warren.apps.protocol import TorchApp
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import TaskResult, marks_of
from warren.live.training.tensor_layout import Layout, TensorEntry
from warren.model.job import Checkpoint, Evaluate, Job

ROUNDS: Final = 8
_ABSENT: Final = 4
"""In one of so many tasks a parameter has no gradient."""
Numbers = dict[str, np.ndarray]


class Net(nn.Module):
    """Parameters, one of them empty, and a buffer of each kind."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for name, shape in {"a": (3,), "none": (0,), "b": (2, 3), "c": (5,), "d": (width,)}.items():
            self.register_parameter(name, nn.Parameter(torch.ones(shape)))
        self.register_buffer("seen", torch.arange(2))
        self.register_buffer("level", torch.arange(3, dtype=torch.float32))


class Whole(TorchApp):
    """All its numbers are whole."""

    width = 1

    def model(self) -> nn.Module:
        return Net(self.width)

    def dataset(self) -> torch.Tensor:
        return torch.zeros(1)

    def optimizer(self, named_parameters: object) -> torch.optim.Optimizer:
        return torch.optim.SGD([p for _, p in named_parameters], lr=1.0)  # type: ignore[attr-defined]

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        found = [*model.parameters(), *model.buffers()]
        return {"sum": float(sum(float(one.double().sum()) for one in found))}


class Large(Whole):
    """Its states lie in memory that processes share."""

    width = 18000


class Clipped(Whole):
    clip_norm = 0.7


class Heavy(Whole):
    """Optimizer and schedule have states."""

    def optimizer(self, named_parameters: object) -> torch.optim.Optimizer:
        parameters = [p for _, p in named_parameters]  # type: ignore[attr-defined]
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)


APPS: Final = {one.__name__: one for one in (Whole, Large, Clipped, Heavy)}
WHOLE: Final = ("Whole", "Large")


def a_job(app: str, scale: int, every: int | None, evaluate: int | None) -> Job:
    return Job(
        index=0, name="job", app=f"history.py:{app}", scale=scale, rounds=ROUNDS, batch=1, seed=5,
        checkpoint=None if every is None else Checkpoint(every=every),
        evaluate=None if evaluate is None else Evaluate(every=evaluate),
    )  # fmt: skip


def app_of(job: Job, base: str = "") -> TorchApp:
    assert job.app is not None
    return APPS[job.app.rpartition(":")[2]]()


@dataclass(frozen=True)
class Reference:
    """What is right: ``states[r]`` begins round r, which ``results[r][shard]`` and ``losses[r]``
    are of; ``metrics[r]`` and ``sha256[r]`` are of the state that round r leaves."""

    states: list[bytes]
    results: list[list[TaskResult]]
    losses: list[float]
    metrics: list[Mapping[str, float]]
    sha256: list[str]


@cache
def reference(app: str, scale: int) -> Reference:
    """The plain loop of a job; that of whole numbers has to agree with the single dict."""
    job = a_job(app, scale, None, 1)
    store = ParameterStore(app_of(job), job)
    right = Reference([], [], [], [], [])
    numbers = numbers_of(store.layout, b"".join(store.state()))
    for round_no in range(ROUNDS):
        state = b"".join(store.state())
        results = [a_task(store.layout, app, state, round_no, s, scale) for s in range(scale)]
        if app in WHOLE:
            assert state == bytes_of(store.layout, numbers), "the plain loop errs"
            numbers = next_numbers(store.layout, numbers, results)
        for shard in reversed(range(scale)):
            store.add(shard, results[shard])
        store.step()
        done = store.conclude()
        assert done.metrics is not None
        right.states.append(state)
        right.results.append(results)
        right.losses.append(done.loss)
        right.metrics.append(done.metrics)
        right.sha256.append(store.digest())
    right.states.append(b"".join(store.state()))
    return right


def a_task(
    layout: Layout, app: str, state: bytes, round_no: int, shard: int, scale: int
) -> TaskResult:
    """The update of a task, drawn from the state that it is given."""
    draw = np.random.default_rng([zlib.crc32(state), round_no, shard])
    whole = app in WHOLE
    numbers, update, present = numbers_of(layout, state), Numbers(), bytearray()
    for entry in layout.entries:
        # Multiples of the number of tasks, so that means are whole numbers.
        drawn = scale * draw.integers(-3, 4, entry.shape)
        value = drawn if whole else draw.normal(size=entry.shape)
        if entry.kind == "param":
            present.append(int(draw.integers(_ABSENT) > 0))
            update[entry.name] = value * present[-1]
        else:
            update[entry.name] = numbers[entry.name] + (drawn if whole else value.round(2))
    packed, loss = bytes_of(layout, update), float(draw.integers(100))
    marks = marks_of(layout, loss, bytes(present), packed)
    return TaskResult(loss=loss, present=bytes(present), marks=marks, update=(packed,))


def next_numbers(layout: Layout, numbers: Numbers, results: list[TaskResult]) -> Numbers:
    """Each task's update once: the single dict."""
    tasks = [numbers_of(layout, bytes(result.update[0])) for result in results]
    after = Numbers()
    for entry in layout.entries:
        mean = sum(task[entry.name] for task in tasks) / len(tasks)
        if entry.kind == "param":
            after[entry.name] = numbers[entry.name] - mean
        else:
            after[entry.name] = mean if entry.kind == "float_buffer" else tasks[0][entry.name]
    return after


def numbers_of(layout: Layout, state: bytes) -> Numbers:
    return {one.name: _view(one, state).astype(np.float64) for one in layout.entries}


def bytes_of(layout: Layout, numbers: Numbers) -> bytes:
    place = bytearray(layout.total_bytes)
    for one in layout.entries:
        _view(one, place)[...] = numbers[one.name]
    return bytes(place)


def _view(entry: TensorEntry, place: bytes | bytearray) -> np.ndarray:
    part = memoryview(place)[entry.offset : entry.offset + entry.nbytes]
    return np.frombuffer(part, getattr(np, entry.dtype)).reshape(entry.shape)
