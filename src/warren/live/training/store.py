"""The server's side of a job: combine a round's updates in shard order, step, evaluate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors.torch import save
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.training import checkpoint
from warren.live.training.contract import (
    build_model,
    build_optimizer,
    build_schedule,
    check_job,
    checked_metrics,
    refuse,
)
from warren.live.training.layout import Layout, copy_in, digest, raw, tensors
from warren.live.training.result import RoundOutcome, TaskResult
from warren.live.training.seeding import BARRIER, reseed
from warren.model.job import Job


class ParameterStore:
    """Parameters, buffers, optimiser and schedule of one job.

    ``version`` counts barriers passed, so it is the round whose tasks may be computed next.
    """

    def __init__(self, app: TorchApp, job: Job) -> None:
        check_job(app, job)
        self._app, self._job = app, job
        self._model = build_model(app, job)
        self._optimizer = build_optimizer(app, job, self._model)
        self._schedule = build_schedule(app, job, self._optimizer)
        self.layout = Layout.of(self._model)
        self.version = 0
        self.finished = False
        self._start_round()

    def state(self) -> memoryview:
        """The bytes of the current version; never written again, so they may be sent as is."""
        return raw(self._state)

    def add(self, shard: int, result: TaskResult) -> None:
        """Take the result of task (version, shard). A repeated one must have the same hash.

        Raises
        ------
        SpecError
            The same task was computed twice with different results.
        ValueError
            The result cannot belong to this job's current round.
        """
        if self.finished or not 0 <= shard < self._job.scale:
            raise ValueError(f"no task {shard} is awaited in round {self.version}")
        if (len(result.update), len(result.present)) != (
            self.layout.total_bytes,
            len(self.layout.params),
        ):
            raise ValueError(f"task {shard} of round {self.version} has another layout")
        if shard in self._results:
            self._compare(shard, result)
            return
        self._results[shard] = result
        flat = torch.empty(self.layout.total_bytes, dtype=torch.uint8)
        copy_in(flat, result.update)
        self._updates[shard] = flat

    @property
    def complete(self) -> bool:
        """Whether all tasks of the round are in."""
        return len(self._results) == self._job.scale

    def step(self) -> RoundOutcome:
        """Pass the barrier: combine, step the optimiser and the schedule, evaluate if due."""
        if not self.complete:
            raise ValueError(f"round {self.version} is not complete")
        round_no, job = self.version, self._job
        loss = sum(self._results[shard].loss for shard in range(job.scale)) / job.scale
        reseed(job.seed, round_no, BARRIER)
        self._combine()
        self._optimizer.step()
        self._optimizer.zero_grad()
        if self._schedule is not None:
            self._schedule.step()
        self.version = round_no + 1
        last = job.rounds is not None and self.version >= job.rounds
        metrics = self._evaluate(self._model) if evaluation_due(job, self.version) else None
        stopped = metrics is not None and job.stop is not None and job.stop.holds(metrics)
        self.finished = last or stopped
        self._start_round()
        return RoundOutcome(round=round_no, loss=loss, metrics=metrics, finished=self.finished)

    def warm(self) -> None:
        """Evaluate another untrained model and forget it, so that no barrier pays for loading."""
        if self._job.evaluate is not None or self._job.stop is not None:
            self._evaluate(build_model(self._app, self._job))

    def state_dict(self) -> dict[str, Tensor]:
        """The model's own state_dict, as copies, sorted by name."""
        return {name: value.clone() for name, value in sorted(self._model.state_dict().items())}

    def save(self) -> bytes:
        """The state_dict as a safetensors file."""
        return save({name: value.contiguous() for name, value in self.state_dict().items()})

    def digest(self) -> str:
        """``params_sha256``: the hash of the state_dict."""
        return digest(self._model.state_dict())

    def checkpoint(self) -> bytes:
        """Everything the next round depends on; the round in progress is not part of it."""
        return checkpoint.encode(
            self._model,
            self._optimizer,
            self._schedule,
            {"version": self.version, "finished": self.finished},
        )

    def restore(self, data: bytes) -> None:
        """Go back to a ``checkpoint()`` of the same job; what was added since is dropped."""
        meta = checkpoint.decode(data, self._model, self._optimizer, self._schedule)
        self.version, self.finished = int(meta["version"]), bool(meta["finished"])
        self._start_round()

    def _start_round(self) -> None:
        self._state = self.layout.pack(self._model)
        self._results: dict[int, TaskResult] = {}
        self._updates: dict[int, Tensor] = {}

    @torch.no_grad()
    def _combine(self) -> None:
        scale, target = self._job.scale, tensors(self._model)
        views = [self.layout.views(self._updates[shard]) for shard in range(scale)]
        for index, entry in enumerate(self.layout.entries):
            parts = [view[entry.name] for view in views]
            tensor = target[entry.name]
            if entry.kind == "param":
                has = [self._results[shard].present[index] for shard in range(scale)]
                mean = shard_mean(
                    [part if on else None for part, on in zip(parts, has, strict=True)]
                )
                tensor.grad = None if mean is None else torch.empty_like(tensor).copy_(mean)
            else:
                mean = shard_mean(parts) if entry.kind == "float_buffer" else None
                tensor.copy_(parts[0] if mean is None else mean)

    def _evaluate(self, model: nn.Module) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            metrics = self._app.evaluate(model)
        model.train()
        return checked_metrics(metrics, self._job)

    def _compare(self, shard: int, result: TaskResult) -> None:
        if result.sha == self._results[shard].sha:
            return
        names = self.layout.differing(raw(self._updates[shard]), memoryview(result.update))
        what = f"tensor {names[0]!r} differs" if names else "only its loss or its mask differs"
        message = (
            f"app is not deterministic: task {shard} of round {self.version} ran twice, {what}"
        )
        raise refuse(self._job, "", message)


def shard_mean(parts: Sequence[Tensor | None]) -> Tensor | None:
    """(p_0 + p_1 + ...) / number of parts, in this order; None counts as 0 unless all are None."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    total = torch.zeros_like(some) if parts[0] is None else parts[0].clone()
    for part in parts[1:]:
        total += 0 if part is None else part
    return total.div_(len(parts))


def evaluation_due(job: Job, rounds_done: int) -> bool:
    """Whether the barrier that makes ``rounds_done`` rounds evaluates.

    Every ``evaluate.every`` rounds (every round for a job with a stop rule that does not say),
    and after the last round.
    """
    if job.evaluate is None and job.stop is None:
        return False
    every = 1 if job.evaluate is None else job.evaluate.every
    return rounds_done % every == 0 or rounds_done == job.rounds
