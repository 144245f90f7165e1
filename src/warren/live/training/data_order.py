"""The order of samples: one endless stream of epoch permutations, cut into batches of tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from warren.live.training.app.app_contract import length, of_tensors, refuse
from warren.live.training.input_data.input_reader import InputReader
from warren.live.training.seeding import stream_key
from warren.model.costs import IntArray
from warren.model.job import Job

# Tasks of neighboring rounds lie in one or two epochs; older permutations are drawn again.
_EPOCHS_KEPT: Final = 4


class SampleStream:
    """Permutations of ``items`` samples, one an epoch, laid end to end.

    The permutation of an epoch orders the samples by 64 random bits each (Philox, keyed by seed
    and epoch), so it does not depend on how a library happens to shuffle.
    """

    def __init__(self, *, items: int, seed: int) -> None:
        if items < 1:
            raise ValueError("a stream needs at least one sample")
        self._items = items
        self._seed = seed
        self._cache: dict[int, IntArray] = {}

    def indices(self, start: int, count: int) -> IntArray:
        """Return the samples at positions [start, start + count) of the stream, shape (count,)."""
        parts = []
        end = start + count
        while start < end:
            # A batch may run over the end of an epoch into the next one, so none is ever short.
            epoch, offset = divmod(start, self._items)
            part = self.permutation(epoch)[offset : offset + end - start]
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def task(self, round_no: int, shard: int, *, scale: int, batch: int) -> IntArray:
        """Return the samples of a task: positions [(round_no*scale + shard)*batch, +batch)."""
        return self.indices((round_no * scale + shard) * batch, batch)

    def permutation(self, epoch: int) -> IntArray:
        """Return the order of one epoch's samples, shape (items,)."""
        if epoch not in self._cache:
            while len(self._cache) >= _EPOCHS_KEPT:
                del self._cache[next(iter(self._cache))]
            # The stable sort decides even between equal keys, so the order is the same everywhere.
            bits = np.random.Philox(key=stream_key(self._seed, epoch)).random_raw(self._items)
            self._cache[epoch] = np.argsort(bits, kind="stable").astype(np.int64)
        return self._cache[epoch]


class Batches:
    """The batches of one job's dataset, by task; those of spilled data come from ``reader``.

    ``collate`` makes a batch of the samples of a dataset that is not made of tensors; None: torch's
    ``default_collate`` does.
    """

    def __init__(
        self,
        dataset: Any,
        job: Job,
        reader: InputReader | None = None,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self._dataset = dataset
        self._collate = collate
        self._job = job
        self._reader = reader
        self._stream = SampleStream(items=length(dataset), seed=job.seed)
        parts = [*dataset.values()] if type(dataset) is dict else dataset
        parts = parts if type(parts) in (list, tuple) else [parts]
        self.plain = all(type(part) is Tensor for part in parts)
        """Whether tensors alone are indexed: that runs no user code and draws from no generator."""

    @property
    def spilled(self) -> bool:
        """Tell whether data are on disk, at least in part."""
        return self._reader is not None

    def ahead(self, round_no: int, shard: int) -> None:
        """Begin to read the batch of a task from disk, where data are spilled."""
        if self._reader is not None:
            self._reader.ahead((round_no, shard), self._picked(round_no, shard))

    def guess(self, round_no: int, shard: int) -> None:
        """Begin to read the batch of a task that may come, where data are spilled."""
        if self._reader is not None:
            self._reader.guess((round_no, shard), self._picked(round_no, shard))

    def of(self, round_no: int, shard: int) -> Any:
        """Return the batch of task (round_no, shard); always ``job.batch`` samples."""
        return self.later(round_no, shard)()

    def later(self, round_no: int, shard: int) -> Callable[[], Any]:
        """Return the function that gives a task's batch; for plain data any thread may call it."""
        picked = self._picked(round_no, shard)
        if self._reader is not None:
            return partial(self._reader.take, (round_no, shard), picked)
        return partial(self._indexed, picked)

    def _indexed(self, picked: IntArray) -> Any:
        index = torch.from_numpy(picked)
        data = self._dataset
        if isinstance(data, Tensor):
            return data[index]
        if isinstance(data, dict):
            return {name: part[index] for name, part in data.items()}
        if of_tensors(data):
            return tuple(part[index] for part in data)
        samples = [data[item] for item in picked.tolist()]
        if self._collate is not None:
            return self._collate(samples)
        try:
            return default_collate(samples)
        except (RuntimeError, TypeError) as error:
            message = f"its samples do not make a batch ({error}); define collate(samples)"
            raise refuse(self._job, "dataset()", message) from error

    def _picked(self, round_no: int, shard: int) -> IntArray:
        job = self._job
        return self._stream.task(round_no, shard, scale=job.scale, batch=job.batch)
