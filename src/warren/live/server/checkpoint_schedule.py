"""The times at which a server saves its part of a checkpoint, and a checkpoint is whole.

State in main memory is saved before the round goes on. State of a device leaves it beside the
rounds that follow, and a thread writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from warren.live import run_clock
from warren.live.training.app.app_contract import refuse
from warren.live.training.checkpoints.files import load_parts, prune, publish, save_part
from warren.live.training.parameter_store import ParameterStore
from warren.model.job import Job

EVERY_NS: Final = 20_000_000_000
"""Nanoseconds between two saves of a job without a stated interval, if saving costs little."""
_SHARE: Final = 50
"""Least interval between saves of such a job, in times of one save: saving takes 2 % at most."""


class CheckpointSchedule:
    """One server's checkpoints. The first server publishes one when all parts are on disk.

    ``last`` and ``previous`` are the rounds of the newest two. ``kept`` is the round of a
    checkpoint that the controller's journal has reached: older ones are not needed any more. A
    barrier does not pass before the checkpoint at its round's beginning is complete, so that a loss
    costs at most one interval. A thread writes that of a store on a device meanwhile: then a loss
    costs at most one interval and the time of writing, and the next save waits for it.

    Parameters
    ----------
    store
        The server's part of the job; it goes back to the checkpoint of ``begin``, if that is not 0.
    folder
        Where the job's checkpoints lie.
    begin
        The round that the job goes on from.
    part, parts
        Which server this is, and how many the job has.
    """

    def __init__(
        self, store: ParameterStore, job: Job, folder: str, begin: int, part: int, parts: int
    ) -> None:
        self._store = store
        self._folder = Path(folder)
        self._part = part
        self._parts = parts
        self._every = None if job.checkpoint is None else job.checkpoint.every
        self.not_before_ns = run_clock.now_ns() + EVERY_NS
        # On the first server: the others whose part of the newest checkpoint is not on disk.
        self._missing: set[int] = set()
        # Several servers tell each other when their parts are on disk, and wait for that.
        beside = store.device is not None and parts == 1
        self._writer = ThreadPoolExecutor(1, "checkpoint") if beside else None
        self._writing: tuple[int, int, Future[int]] | None = None
        self.previous = self.last = self.kept = begin
        if begin:
            store.restore(load_parts(self._folder, begin, store.disk))
            # Else the controller waits for a round that is over here, or is still to come.
            if store.version != begin:
                message = f"{self._folder}: checkpoint {begin} holds round {store.version}"
                raise refuse(job, "", message)

    def follow(self, kept: int, saved: int, not_before_ns: int) -> None:
        """Go on with the checkpoints of other servers.

        ``kept`` is the oldest of them that counts, ``saved`` the newest; a job that does not say
        how often it is saved has another one not before ``not_before_ns``.
        """
        self.previous = self.kept = kept
        self.last, self.not_before_ns = saved, not_before_ns

    @property
    def published(self) -> bool:
        """Tell whether no checkpoint is under way."""
        return not self._missing

    def due(self, round_no: int) -> bool:
        """Tell whether the state that a round begins with should be saved."""
        if self._every is not None:
            return round_no % self._every == 0
        return self._writing is None and run_clock.now_ns() >= self.not_before_ns

    def save(self, round_no: int) -> None:
        """Put this server's part of the state that a round begins with on disk, or begin to."""
        self.settle(wait=True)
        begin_ns = run_clock.now_ns()
        if self._writer is not None:
            written = self._writer.submit(self._write, round_no, self._store.begin_checkpoint())
            self._writing = round_no, begin_ns, written
            return
        forget = self._store.disk is not None
        save_part(self._folder, round_no, self._part, self._store.checkpoint_part(), forget=forget)
        self.previous, self.last = self.last, round_no
        if self._part == 0:
            self._missing = set(range(1, self._parts))
            self._publish()
        self._wait_for_next(begin_ns, run_clock.now_ns())

    def settle(self, *, wait: bool = False) -> None:
        """Note a checkpoint that the thread has written, if it has; ``wait``: until it has.

        Raises
        ------
        OSError
            With the name of the file that could not be written.
        """
        if self._writing is None or not (wait or self._writing[2].done()):
            return
        round_no, begin_ns, written = self._writing
        self._writing = None
        end_ns = written.result()
        self.previous, self.last = self.last, round_no
        self._wait_for_next(begin_ns, end_ns)

    def _write(self, round_no: int, state: Callable[[], memoryview]) -> int:
        """Write and publish a checkpoint of one part, in the thread; return the time of the end."""
        save_part(self._folder, round_no, 0, state())
        publish(self._folder, round_no, 1)
        prune(self._folder, self.kept)
        return run_clock.now_ns()

    def _wait_for_next(self, begin_ns: int, end_ns: int) -> None:
        """Let a large model be saved less often: an interval is at least _SHARE times a save."""
        self.not_before_ns = begin_ns + max(EVERY_NS, _SHARE * (end_ns - begin_ns))

    def part_saved(self, part: int, round_no: int) -> None:
        """Note that another server's part is on disk; publish the checkpoint if it was the last."""
        if round_no == self.last and part in self._missing:
            self._missing.discard(part)
            self._publish()

    def _publish(self) -> None:
        """Publish the newest checkpoint as the one to restore, if all its parts are on disk."""
        if not self._missing:
            publish(self._folder, self.last, self._parts)
            # The controller may have been lost before its journal reached the new one.
            prune(self._folder, self.kept)
