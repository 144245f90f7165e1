"""The batch of a task: samples by position in the stream, put together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from warren.live.training.app.app_contract import length, of_tensors
from warren.live.training.data_order import SampleStream
from warren.model.job import Job


class Batches:
    """Batches of one job's dataset, by task."""

    def __init__(self, dataset: Any, job: Job) -> None:
        self._dataset = dataset
        self._job = job
        self._stream = SampleStream(items=length(dataset), seed=job.seed)
        parts = [*dataset.values()] if type(dataset) is dict else dataset
        parts = parts if type(parts) in (list, tuple) else [parts]
        self.plain = all(type(part) is Tensor for part in parts)
        """Whether tensors alone are indexed: that runs no user code and draws from no generator."""

    def of(self, round_no: int, shard: int) -> Any:
        """The batch of task (round_no, shard); always ``job.batch`` samples."""
        job = self._job
        picked = self._stream.task(round_no, shard, scale=job.scale, batch=job.batch)
        index = torch.from_numpy(picked)
        data = self._dataset
        if isinstance(data, Tensor):
            return data[index]
        if isinstance(data, dict):
            return {name: part[index] for name, part in data.items()}
        if of_tensors(data):
            return tuple(part[index] for part in data)
        return default_collate([data[item] for item in picked.tolist()])
