"""The order of samples: one endless stream of epoch permutations, cut into batches."""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.live.training.seeding import stream_key
from warren.model.costs import IntArray

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
        """Samples at positions [start, start + count) of the stream, shape (count,)."""
        parts = []
        end = start + count
        while start < end:
            epoch, offset = divmod(start, self._items)
            part = self.permutation(epoch)[offset : offset + end - start]
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def task(self, round_no: int, shard: int, *, scale: int, batch: int) -> IntArray:
        """Samples of a task: positions [(round_no*scale + shard)*batch, +batch)."""
        return self.indices((round_no * scale + shard) * batch, batch)

    def permutation(self, epoch: int) -> IntArray:
        """The order of one epoch, shape (items,)."""
        if epoch not in self._cache:
            while len(self._cache) >= _EPOCHS_KEPT:
                del self._cache[next(iter(self._cache))]
            bits = np.random.Philox(key=stream_key(self._seed, epoch)).random_raw(self._items)
            self._cache[epoch] = np.argsort(bits, kind="stable").astype(np.int64)
        return self._cache[epoch]
