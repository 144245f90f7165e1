"""One task on the trainer's side: state in, update out, nothing kept in between."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from warren.apps.protocol import TorchApp
from warren.live.training.batches import Batches
from warren.live.training.contract import build_dataset, build_model, checked_loss, refuse
from warren.live.training.layout import Buffer, Layout, flat_of, raw, tensors
from warren.live.training.result import TaskResult, marks_of
from warren.live.training.seeding import reseed
from warren.model.job import Job


class TaskRunner:
    """Computes any task of a job, in any order and in any process, with the same result."""

    def __init__(self, app: TorchApp, job: Job) -> None:
        self._app, self._job = app, job
        self._model = build_model(app, job)
        self._batches = Batches(build_dataset(app, job), job)
        self.layout = Layout.of(self._model)
        self._places = _buffer_places(self._model)

    def run(
        self, state: Buffer, round_no: int, shard: int, update: Buffer | None = None
    ) -> TaskResult:
        """Gradients and buffers of task (round_no, shard) from the state of that round.

        Parameters
        ----------
        state
            ``layout.total_bytes`` bytes, as all parts of a store together give them. Only read.
        update
            As many bytes to write the update to, every one of them; new ones if not given.
        """
        place = bytearray(self.layout.total_bytes) if update is None else update
        for buffer in (state, place):
            if memoryview(buffer).nbytes != self.layout.total_bytes:
                raise ValueError(f"a state of this job has {self.layout.total_bytes} bytes")
        self._reset(state)
        reseed(self._job.seed, round_no, shard)
        batch = self._batches.of(round_no, shard)
        loss = checked_loss(self._app.loss(self._model, batch), self._job)
        loss.backward()  # type: ignore[no-untyped-call]
        return self._collect(float(loss.detach()), place)

    def warm(self) -> None:
        """Compute a task and forget it, so that the first real one pays for no loading."""
        self.run(raw(self.layout.pack(self._model)), 0, 0)

    @torch.no_grad()
    def _reset(self, state: Buffer) -> None:
        for owner, leaf, tensor in self._places.values():
            owner._buffers[leaf] = tensor  # a forward pass may have put another one there
        target = tensors(self._model)
        for name, view in self.layout.views(flat_of(state)).items():
            target[name].copy_(view)
        for parameter in self._model.parameters():
            parameter.grad = None
        self._model.train()

    def _collect(self, loss: float, update: Buffer) -> TaskResult:
        flat, end = flat_of(update), 0
        source = tensors(self._model)
        present = bytearray()
        for entry, view in zip(self.layout.entries, self.layout.views(flat).values(), strict=True):
            if end < entry.offset:
                flat[end : entry.offset] = 0
            end = entry.offset + entry.nbytes
            value: Tensor | None = source.get(entry.name)
            if entry.kind == "param":
                value = None if value is None else value.grad
                present.append(value is not None)
            if value is None:
                view.zero_()
            else:
                self._check(entry.name, value, view)
                view.copy_(value.detach())
        flat[end:] = 0
        mask, whole = bytes(present), memoryview(update)
        marks = marks_of(self.layout, loss, mask, whole)
        return TaskResult(loss=loss, present=mask, marks=marks, update=(whole,))

    def _check(self, name: str, value: Tensor, view: Tensor) -> None:
        if value.layout is not torch.strided:
            raise refuse(self._job, name, "has a sparse gradient; use dense ones (sparse=False)")
        if value.shape != view.shape or value.dtype != view.dtype:
            was, now = f"{view.dtype} {tuple(view.shape)}", f"{value.dtype} {tuple(value.shape)}"
            raise refuse(self._job, name, f"changed from {was} to {now} during a task")


def _buffer_places(model: nn.Module) -> dict[str, tuple[nn.Module, str, Tensor]]:
    """For each buffer its module, its name there and the tensor it was built with."""
    modules = dict(model.named_modules())
    places = {}
    for name, tensor in model.named_buffers():
        path, _, leaf = name.rpartition(".")
        places[name] = (modules[path], leaf, tensor)
    return places
