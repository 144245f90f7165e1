"""The processes in which ``warren check`` computes tasks: children of a zygote of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warren.live.process.preload import libraries
from warren.live.process.process_pool import ProcessPool, ZygoteLost, ZygoteStarts
from warren.live.process.scratch import ScratchFolder
from warren.live.process.specs import CostRole, ProbeRole
from warren.live.training.app.app_imports import sources_of
from warren.live.training.app.pinned_files import APPS, save_pins
from warren.model.job import Job


class ProbeEnded(Exception):
    """A process ended before it had written its output: a crash, or a kill from outside."""


@dataclass(frozen=True, slots=True)
class ProbePool:
    """A warm zygote, the folder for outputs of its children, and their numerics class."""

    folder: Path
    numerics: str
    pool: ProcessPool

    def output_of(self, role: ProbeRole | CostRole) -> bytes:
        """Run one process to its end; return the content of its ``role.result``.

        Raises
        ------
        ProbeEnded
            It wrote none; the message says how it ended.
        """
        ticket = self.pool.fork(role)
        while True:
            for ended, _, exited in self.pool.hear(*self.pool.fds):
                if ended == ticket:
                    result = Path(role.result)
                    if not result.exists():
                        raise ProbeEnded(f"its process ended: {exited.how}")
                    output = result.read_bytes()
                    result.unlink()  # the next process writes its own there
                    return output


@contextmanager
def probe_pool(jobs: Sequence[Job], base: str) -> Iterator[ProbePool]:
    """Start a zygote for these jobs' apps, which are read once; end it afterwards.

    Raises
    ------
    EngineError
        If it cannot be started.
    """
    with ScratchFolder() as folder:
        sources = sources_of(jobs, base)
        save_pins(folder / APPS, sources)
        pool, numerics = _warm_pool(folder, libraries(sources))
        try:
            yield ProbePool(folder, numerics, pool)
        finally:
            pool.close(last=False)


def _warm_pool(folder: Path, wanted: Sequence[str]) -> tuple[ProcessPool, str]:
    """Return a pool with a warm zygote, and the numerics class of that."""
    starts = ZygoteStarts(wanted)
    while True:
        pool = ProcessPool(folder, folder / "log", starts.libraries)
        try:
            return pool, pool.await_zygote().numerics
        except BaseException as error:
            pool.close(last=False)
            if not isinstance(error, ZygoteLost):
                raise
            starts.lost(error)
