"""The order of samples: one endless stream of epoch permutations, cut into batches of tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import (
    length,
    of_tensors,
    own_collate,
    own_sampler,
    refuse,
)
from warren.live.training.app.sampler_orders import SamplerOrders
from warren.live.training.input_data.batch_memory import same_contents
from warren.live.training.input_data.batch_workers import BatchWorkers
from warren.live.training.input_data.coming_tasks import ComingTasks
from warren.live.training.input_data.input_reader import InputReader, Task
from warren.live.training.seeding import reseed, reseed_sample, stream_key
from warren.live.training.tensor_layout import tensors
from warren.model.costs import IntArray
from warren.model.job import Job

# Tasks of neighboring rounds lie in one or two epochs; older permutations are drawn again.
_EPOCHS_KEPT: Final = 4


class SampleStream:
    """Orders of ``items`` samples, one an epoch, laid end to end.

    An app's sampler gives them (``orders``); None: they are permutations. The permutation of an
    epoch orders the samples by 64 random bits each (Philox, keyed by seed and epoch), so it does
    not depend on how a library happens to shuffle.
    """

    def __init__(self, *, items: int, seed: int, orders: SamplerOrders | None = None) -> None:
        if items < 1:
            raise ValueError("a stream needs at least one sample")
        self._items = items
        self._seed = seed
        self._orders = orders
        self._size = items if orders is None else orders.size
        self._cache: dict[int, IntArray] = {}

    def indices(self, start: int, count: int) -> IntArray:
        """Return the samples at positions [start, start + count) of the stream, shape (count,)."""
        parts = []
        end = start + count
        while start < end:
            # A batch may run over the end of an epoch into the next one, so none is ever short.
            epoch, offset = divmod(start, self._size)
            part = self.order(epoch)[offset : offset + end - start]
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def task(self, round_no: int, shard: int, *, scale: int, batch: int) -> IntArray:
        """Return the samples of a task: positions [(round_no*scale + shard)*batch, +batch)."""
        return self.indices((round_no * scale + shard) * batch, batch)

    def order(self, epoch: int) -> IntArray:
        """Return the order of one epoch's samples, shape (items,), or as the sampler gives it."""
        if epoch not in self._cache:
            order = self.permutation(epoch) if self._orders is None else self._orders(epoch)
            while len(self._cache) >= _EPOCHS_KEPT:
                del self._cache[next(iter(self._cache))]
            self._cache[epoch] = order
        return self._cache[epoch]

    def permutation(self, epoch: int) -> IntArray:
        """Return the permutation of one epoch's samples, shape (items,)."""
        # The stable sort decides even between equal keys, so the order is the same everywhere.
        bits = np.random.Philox(key=stream_key(self._seed, epoch)).random_raw(self._items)
        return np.argsort(bits, kind="stable").astype(np.int64)


class UserSamples:
    """Builds batches by user code: samples of a ``Dataset``, and ``collate``.

    The generators are set for each sample by the task and the number of the sample in it. So it
    makes no difference which process builds a batch, and when.

    Parameters
    ----------
    dataset
        The data set.
    job
        The job.
    collate
        Makes a batch of samples; None: torch's ``default_collate`` does.
    """

    def __init__(
        self, dataset: Any, job: Job, collate: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self._dataset, self._job, self._collate = dataset, job, collate

    def batch(
        self,
        task: Task,
        picked: IntArray,
        begin: Callable[[int], None] = lambda item: None,
    ) -> Any:
        """Return a task's batch; ``begin`` is called before each sample, and with -1 at the end.

        Raises
        ------
        SpecError
            The samples do not make a batch.
        """
        seed, data = self._job.seed, self._dataset
        samples = []
        for at, item in enumerate(picked.tolist()):
            begin(item)
            reseed_sample(seed, *task, at)
            samples.append(data[item])
        begin(-1)
        reseed_sample(seed, *task, len(samples))
        if self._collate is not None:
            return self._collate(samples)
        try:
            return default_collate(samples)
        except (RuntimeError, TypeError) as error:
            message = f"its samples do not make a batch ({error}); define collate(samples)"
            raise refuse(self._job, "dataset()", message) from error


class Batches:
    """The batches of one job's dataset, by task.

    Parameters
    ----------
    dataset
        The data set.
    job
        The job.
    reader
        Reads data that were spilled; None: they are in memory.
    collate
        The app's own ``collate``; None: it has none.
    orders
        The orders of the app's own ``sampler``; None: it has none.
    workers
        Processes that build batches of user code; None: they are built here.
    """

    def __init__(
        self,
        dataset: Any,
        job: Job,
        reader: InputReader | None = None,
        *,
        collate: Callable[[list[Any]], Any] | None = None,
        orders: SamplerOrders | None = None,
        workers: BatchWorkers | None = None,
    ) -> None:
        self._dataset = dataset
        self._job = job
        self._reader = reader
        self.workers = workers
        self._coming = ComingTasks(job.rounds)
        self._stream = SampleStream(items=length(dataset), seed=job.seed, orders=orders)
        self._samples = UserSamples(dataset, job, collate)
        parts = [*dataset.values()] if type(dataset) is dict else dataset
        parts = parts if type(parts) in (list, tuple) else [parts]
        self.plain = all(type(part) is Tensor for part in parts)
        """Whether tensors alone are indexed: that runs no user code and draws from no generator."""

    @property
    def spilled(self) -> bool:
        """Tell whether data are on disk, at least in part."""
        return self._reader is not None

    def ahead(self, round_no: int, shard: int) -> None:
        """Begin to read the batch of a task from disk, or to build it in a worker."""
        if self._reader is not None:
            self._reader.ahead((round_no, shard), self._picked(round_no, shard))
        elif self.workers is not None:
            self.workers.ask((round_no, shard), self._picked(round_no, shard))

    def guess(self, round_no: int, shard: int) -> None:
        """Begin to read the batch of a task that may come, where data are spilled."""
        if self._reader is not None:
            self._reader.guess((round_no, shard), self._picked(round_no, shard))

    def of(self, round_no: int, shard: int) -> Any:
        """Return the batch of task (round_no, shard); always ``job.batch`` samples.

        The generators are set for the task, whatever samples have drawn.
        """
        return self.later(round_no, shard)()

    def later(self, round_no: int, shard: int) -> Callable[[], Any]:
        """Return the function that gives a task's batch.

        Any thread may call it if the data are plain, or if there are workers.
        """
        task, picked = (round_no, shard), self._picked(round_no, shard)
        if self._reader is not None:
            return partial(self._reader.take, task, picked)
        if self.workers is None:
            return partial(self._indexed, task, picked)
        self.workers.ask(task, picked)
        self._coming.note(*task)
        self.workers.guess(self._coming.after(*task), lambda one: self._picked(*one))
        return partial(self.workers.take, task, picked)

    def here(self, round_no: int, shard: int) -> Any:
        """Return the batch of a task as ``of`` does, built by this process."""
        return self._indexed((round_no, shard), self._picked(round_no, shard))

    def compare(self, round_no: int, shard: int, batch: Any) -> None:
        """Refuse a data set that gives a worker another batch than this process has built.

        Raises
        ------
        SpecError
            The batches differ.
        """
        if not same_contents(self.of(round_no, shard), batch):
            message = (
                f"gives other samples in a worker process (task {shard} of round {round_no}); a "
                "sample may depend on its index and the global generators alone"
            )
            raise refuse(self._job, "dataset()", message)

    def _indexed(self, task: Task, picked: IntArray) -> Any:
        index = torch.from_numpy(picked)
        data = self._dataset
        if isinstance(data, Tensor):
            return data[index]
        if isinstance(data, dict):
            return {name: part[index] for name, part in data.items()}
        if of_tensors(data):
            return tuple(part[index] for part in data)
        batch = self._samples.batch(task, picked)
        reseed(self._job.seed, *task)  # for the loss
        return batch

    def _picked(self, round_no: int, shard: int) -> IntArray:
        job = self._job
        return self._stream.task(round_no, shard, scale=job.scale, batch=job.batch)


def batches_of(
    built: BuiltApp,
    job: Job,
    reader: InputReader | None = None,
    *,
    workers: BatchWorkers | None = None,
    shared: str | None = None,
) -> Batches:
    """Return the batches of a built app.

    ``shared``: a folder of all the job's processes on this host, in which they compare the orders
    of a sampler; None: they do not.
    """
    sampler, data = own_sampler(built.app), built.dataset
    place = None if shared is None else Path(shared)
    orders = None if sampler is None else SamplerOrders(sampler, job, length(data), place)
    collate = own_collate(built.app)
    return Batches(data, job, reader, collate=collate, orders=orders, workers=workers)


def start_workers(built: BuiltApp, job: Job, count: int) -> BatchWorkers | None:
    """Return workers that build the batches of an app that was just built.

    None if ``count`` is 0, or if batches are indexed: that is faster here. Nor are there workers if
    this process uses CUDA already, as where ``model()`` does: it cannot be forked any more.
    """
    parts = [*built.dataset.values()] if isinstance(built.dataset, dict) else built.dataset
    if count < 1 or isinstance(parts, Tensor) or of_tensors(parts):
        return None
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        print("warren: CUDA is in use, so no workers can be forked", file=sys.stderr)
        return None
    samples = UserSamples(built.dataset, job, own_collate(built.app))
    return BatchWorkers(samples.batch, job, count, tensors(built.model).values())
