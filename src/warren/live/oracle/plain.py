"""``engine: plain``: a job's computation as one loop. Every other engine must equal it.

The means of a barrier are taken in the order of servers, or of a ring.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.gpu.app_tensors import bring, move, moved
from warren.live.rings.gradient_mean import RingMeans
from warren.live.training import numerics
from warren.live.training.app.app_calls import BuiltApp, build
from warren.live.training.app.app_contract import (
    check_converges,
    check_job,
    checked_loss,
    ends,
)
from warren.live.training.checkpoints.barrier_state import BarrierState
from warren.live.training.data_order import batches_of
from warren.live.training.evaluation import Evaluation
from warren.live.training.gradient_clipping import factor_of, squares_of
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.seeding import reseed
from warren.live.training.tensor_layout import Layout, device_of, digest, host_copy, tensors
from warren.live.training.weight_average import averaged_state, update_average
from warren.model.job import Job

Gradients = Mapping[str, Tensor | None]
Buffers = Mapping[str, Tensor]
Combine = Callable[
    [Sequence[Gradients], Sequence[Buffers]], tuple[dict[str, Tensor | None], dict[str, Tensor]]
]
"""Gradients and buffers of all shards, by name, become those of the round."""


def in_shard_order(
    gradients: Sequence[Gradients], buffers: Sequence[Buffers]
) -> tuple[dict[str, Tensor | None], dict[str, Tensor]]:
    """Combine as servers do: (g_0 + g_1 + ...) / shards, each tensor by itself."""
    means = {name: _combine([one[name] for one in gradients]) for name in gradients[0]}
    return means, {name: _average([one[name] for one in buffers]) for name in buffers[0]}


def in_ring_order(model: nn.Module, job: Job) -> Combine:
    """Return a ring's combination: all tensors of a type as one, each piece in its own order.

    Raises
    ------
    SpecError
        A tensor of the model is of a type that a ring cannot add.
    """
    layout, device = Layout.of(model), device_of(model)
    means = RingMeans(layout, job)

    def combine(
        gradients: Sequence[Gradients], buffers: Sequence[Buffers]
    ) -> tuple[dict[str, Tensor | None], dict[str, Tensor]]:
        """Combine the gradients and buffers of all shards, packed as a ring's ranks do."""
        shards = zip(gradients, buffers, strict=True)
        updates = [_update(layout, *one, device) for one in shards]
        found = layout.views(means.of(updates))
        # In flat updates an absent gradient is zero. A gradient that no shard has must stay absent,
        # since an optimizer skips None and does step by zeros.
        absent = {name for name in gradients[0] if all(one[name] is None for one in gradients)}
        mean = {name: None if name in absent else found[name].clone() for name in gradients[0]}
        return mean, {name: found[name] for name in buffers[0]}

    return combine


def _combine(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """Return the mean in shard order; None counts as zero, unless it is None on all shards."""
    given = [gradient for gradient in gradients if gradient is not None]
    if not given:
        return None
    first, *rest = (torch.zeros_like(given[0]) if g is None else g for g in gradients)
    # Written out: sums of floats depend on their order, which is part of this definition.
    for gradient in rest:
        first = first + gradient
    return first / len(gradients)


def _average(buffers: Sequence[Tensor]) -> Tensor:
    """Return the mean in shard order of a float buffer; shard 0's value of an integer buffer."""
    first = buffers[0]
    if not (first.is_floating_point() or first.is_complex()):
        return first
    return sum(buffers[1:], start=first) / len(buffers)


@torch.no_grad()
def _update(layout: Layout, gradients: Gradients, buffers: Buffers, device: torch.device) -> Tensor:
    """Return a shard's update as its trainer would have made it, shape (bytes,)."""
    flat = torch.zeros(layout.total_bytes, dtype=torch.uint8, device=device)
    for name, view in layout.views(flat).items():
        value = gradients[name] if name in gradients else buffers[name]
        if value is not None:
            view.copy_(value)
    return flat


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainResult:
    """The result of training: the state, the mean loss of each round, and metrics by rounds done.

    ``digest`` is the SHA-256 of the state, ``rounds`` the number of rounds made;
    ``averaged_state_dict`` has the averaged weights of an app with ``ema``.
    """

    state_dict: Mapping[str, Tensor]
    losses: tuple[float, ...]
    metrics: Mapping[int, Mapping[str, float]]
    digest: str
    rounds: int
    averaged_state_dict: Mapping[str, Tensor] | None


class _Here:
    """Computes tasks with a built model; a ring's rank does so with that of its barrier."""

    def __init__(self, built: BuiltApp, job: Job) -> None:
        self.built, self.model, self._job = built, built.model, job
        self.rules = TaskRules(built, job)
        self._batches = batches_of(built, job)

    def compute(self, r: int, k: int, state: Buffers) -> Tensor:
        """Compute task k of round r from the state of that round; return the loss."""
        for _ in self.rules.passes():  # a second time if the app may keep a forbidden value
            self.model.train()
            self.model.zero_grad()
            _put(self.model, state)
            self.rules.begin(r, k)
            reseed(self._job.seed, r, k)
            loss = checked_loss(self._loss(self._batches.of(r, k)), self._job)
            loss.backward()  # type: ignore[no-untyped-call]
            self.rules.end(loss, state.values())
            numerics.pin()  # user code may change any setting
        return loss

    def _loss(self, batch: Any) -> object:
        """Return the app's loss of a batch."""
        return self.built.app.loss(self.model, batch)


class _There(_Here):
    """Computes tasks on a device."""

    def __init__(self, built: BuiltApp, device: torch.device, job: Job) -> None:
        self._device = device
        # In place, and in row-major order, as states lie: kernels depend on strides.
        for one in tensors(built.model).values():
            one.data = one.data.to(device).contiguous()
        bring(built, device)
        super().__init__(built, job)

    def _loss(self, batch: Any) -> object:
        """Return the app's loss of a batch that was brought to the device."""
        with self._device:
            return self.built.app.loss(self.model, moved(batch, self._device))


def _place_of_tasks(
    built: BuiltApp, job: Job, tasks: TorchApp, device: torch.device | None
) -> _Here:
    if device is not None:
        return _There(build(tasks, job), device, job)
    return _Here(built if job.sync == "ring" else build(tasks, job), job)


def _built(app: TorchApp, job: Job, device: torch.device | None) -> BuiltApp:
    """Return an app whose barriers are made in this process, where they are made."""
    built = build(app, job)
    if device is not None and job.sync != "ring":
        move(built, device)
    return built


def train(
    app: TorchApp,
    job: Job,
    tasks: TorchApp | None = None,
    device: torch.device | None = None,
) -> PlainResult:
    """Train a job from beginning to end in this process.

    Tasks are computed with a build of their own, as trainers do: they do not see what a barrier
    changes in the app. A rank of a ring has one build for both, except on a device.

    Parameters
    ----------
    app
        The job's app.
    job
        The logical job; where and when its tasks run does not matter here.
    tasks
        Another object of the app, which computes the tasks; None: a copy of ``app``.
    device
        The device on which all is computed: tasks, sums, steps and evaluations; None: main memory.
        Ranks of a ring compute tasks there, and do all else in main memory.

    Raises
    ------
    SpecError
        The app breaks its contract with the job, or a round's mean loss is NaN.
    """
    check_job(app, job)
    tasks = _copied(app) if tasks is None else tasks
    built = _built(app, job, device)
    model, home = built.model, device_of(built.model)
    optimizer, schedule = built.optimizer, built.schedule
    at = _place_of_tasks(built, job, tasks, device)
    kept = at.rules.kept
    barrier = BarrierState(built, lambda: [*evaluation.left, *kept.left.values()])
    evaluation = Evaluation(built, job, at.rules)
    # The data are kept once, with the tasks, unless the app keeps them.
    built = replace(built, dataset=None)
    barrier.check(job, 0)
    every = _evaluates_every(job)
    combine = in_ring_order(model, job) if job.sync == "ring" else in_shard_order
    losses: list[float] = []
    metrics: dict[int, Mapping[str, float]] = {}
    for r in count():
        before = {name: value.detach().clone() for name, value in tensors(model).items()}
        round_losses = []
        gradients = []
        buffers = []
        for k in range(job.scale):  # a task: always from the state of the round's beginning
            loss = at.compute(r, k, before)
            round_losses.append(loss.item())
            gradients.append({name: _to(home, p.grad) for name, p in at.model.named_parameters()})
            buffers.append({name: b.clone().to(home) for name, b in at.model.named_buffers()})
        # The barrier: combine in shard order, step once, evaluate if due.
        losses.append(sum(round_losses) / job.scale)
        check_converges(losses[-1], r, job)
        means, means_of_buffers = combine(gradients, buffers)
        _put(model, before | means_of_buffers)  # whatever a task has written into parameters
        # The clip is by the global norm: of the means of all tensors together.
        factor = app.clip_norm and factor_of(squares_of(means.values()), app.clip_norm)
        for name, parameter in model.named_parameters():
            mean = means[name]
            clipped = mean if mean is None or factor is None else mean * factor
            # Tasks on a device have other strides, and some kernels round by them.
            parameter.grad = clipped if device is None else _laid_as(parameter, clipped)
        reseed(job.seed, r, -1)  # -1: the step's own stream of random numbers, no shard's
        optimizer.step()
        if schedule:
            schedule.step()
        update_average(built.averages, model.parameters(), built.ema)
        done = r + 1
        barrier.check_tasks(job, done)
        barrier.check(job, done)
        if every and (done % every == 0 or done == job.rounds):
            metrics[done] = evaluation.of(model)
        numerics.pin()
        stopped = done in metrics and ends(app, job, metrics[done])
        if stopped or done == job.rounds:
            break
    return _result(built, losses, metrics)


def _to(device: torch.device, gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.to(device)


def _laid_as(parameter: Tensor, gradient: Tensor | None) -> Tensor | None:
    """Return a gradient with the strides of its parameter."""
    if gradient is None or parameter.is_contiguous():
        return gradient
    return torch.empty_like(parameter, requires_grad=False).copy_(gradient)


def _result(
    built: BuiltApp, losses: Sequence[float], metrics: Mapping[int, Mapping[str, float]]
) -> PlainResult:
    """Return the result of a trained app."""
    state = {name: host_copy(value) for name, value in built.model.state_dict().items()}
    return PlainResult(
        state_dict=state,
        losses=tuple(losses),
        metrics=metrics,
        digest=digest(state),
        rounds=len(losses),
        averaged_state_dict=averaged_state(built.model, built.averages),
    )


def _copied(app: TorchApp) -> TorchApp:
    """Return a copy of an app that was not built yet."""
    try:
        return copy.deepcopy(app)
    except Exception:  # it may keep an object that refuses in any way
        return copy.copy(app)


def _evaluates_every(job: Job) -> int | None:
    """Return after how many rounds a job evaluates; None: never."""
    if job.evaluate:
        return job.evaluate.every
    return 1 if job.stop else None


@torch.no_grad()
def _put(model: torch.nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy values into the model's tensors of the same names, in place."""
    found = tensors(model)
    for name, value in values.items():
        found[name].copy_(value)
