"""The orders of samples that an app's ``sampler`` gives, checked: one an epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from torch import Tensor

from warren.live.training.app.app_contract import refuse
from warren.live.training.seeding import generator_states, seed_sampler, set_generator_states
from warren.model.costs import IntArray
from warren.model.job import Job


class SamplerOrders:
    """Asks an app's ``sampler`` for the order of an epoch, right after seeding.

    Generators stand afterwards where they stood before, so an order may be asked for at any time.

    Parameters
    ----------
    sampler
        The method of the app.
    job
        The job.
    items
        Number of samples of the data set.
    shared
        A folder of all the job's processes on this host, in which they compare orders; None: they
        do not.

    Raises
    ------
    SpecError
        The sampler gives something else than indices, or another order when it is asked again.
    """

    def __init__(
        self,
        sampler: Callable[[int, int], Any],
        job: Job,
        items: int,
        shared: Path | None = None,
    ) -> None:
        self._sampler, self._job, self._items, self._shared = sampler, job, items, shared
        self.size = 0
        """Number of indices of each epoch."""
        first = self._asked(0)
        self.size = len(first)
        self._asked(1)
        # What it keeps, or draws from a generator of its own, shows in a second answer.
        if not np.array_equal(first, self._asked(0)):
            self._refuse(
                "gives another order of epoch 0 when it is asked again; draw from the global "
                "generators, which are seeded before each call, and keep nothing"
            )

    def __call__(self, epoch: int) -> IntArray:
        """Return the indices of an epoch, shape (size,)."""
        order = self._asked(epoch)
        if self._shared is not None and not _agreed(
            self._shared / f"order-{self._job.index}-{epoch}",
            hashlib.sha256(order.tobytes()).digest(),
        ):
            self._refuse(
                f"gives another order of epoch {epoch} in another process of the job; it may "
                "depend on epoch, length and the global generators alone"
            )
        return order

    def _asked(self, epoch: int) -> IntArray:
        states = generator_states()
        try:
            seed_sampler(self._job.seed, epoch)
            given = self._sampler(epoch, self._items)
        finally:
            set_generator_states(states)
        try:
            # Tensors and arrays as they are: a list of their elements is slow.
            found = np.asarray(given if isinstance(given, np.ndarray | Tensor) else list(given))
        except (TypeError, ValueError, RuntimeError):
            self._refuse(f"must give a list of indices, not {type(given).__name__}")
        if len(found.shape) != 1 or (found.size and found.dtype.kind not in "iu"):
            self._refuse("must give whole numbers, one after another")
        if len(found) < self._job.batch:
            self._refuse(f"gives {len(found)} indices, less than the batch of {self._job.batch}")
        wrong = found[(found < 0) | (found >= self._items)]
        if wrong.size:
            allowed = f"0 to {self._items - 1}"
            self._refuse(f"gives index {int(wrong[0])} for epoch {epoch}; allowed: {allowed}")
        if self.size and len(found) != self.size:
            self._refuse(
                f"gives {len(found)} indices for epoch {epoch} and {self.size} for epoch 0; each "
                "epoch must have equally many"
            )
        return np.ascontiguousarray(found, dtype=np.int64)

    def _refuse(self, message: str) -> NoReturn:
        raise refuse(self._job, "sampler()", message)


def _agreed(path: Path, digest: bytes) -> bool:
    """Leave a hash for other processes; tell whether another has left the same."""
    with suppress(FileExistsError):
        with path.open("xb") as file:
            file.write(digest)
        return True
    other = path.read_bytes()
    # The other process may still write.
    return len(other) < len(digest) or other == digest
