"""One trainer after the other, if a GPU has little memory left: a rehearsal takes the most."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch


def most_is_free(gpu: int) -> bool:
    """Tell whether most of a GPU's memory is free."""
    free_bytes, total_bytes = torch.cuda.mem_get_info(gpu)
    return 2 * free_bytes > total_bytes


class DeviceTurn:
    """The turns of a run's trainers on a GPU, which a lock in the folder of the run gives."""

    def __init__(self, gpu: int, folder: str) -> None:
        self._gpu = gpu
        self._path = Path(folder) / f"gpu-{gpu}.lock"

    @contextmanager
    def building(self) -> Iterator[None]:
        """Build an app inside, and rehearse: alone, if others have most of the memory."""
        with nullcontext() if most_is_free(self._gpu) else self._alone():
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._path.open("a") as lock:
            # Released with the file, however this process ends.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
