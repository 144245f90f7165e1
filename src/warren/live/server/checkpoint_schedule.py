"""The times at which a server saves its part of a checkpoint, and a checkpoint is whole."""

from __future__ import annotations

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
    costs at most one interval. Of one server on a device a thread may write it ``beside`` the rounds
    that follow; what is lost meanwhile goes back to the checkpoint before.

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
    beside
        Whether a thread writes while the only server goes on.
    """

    def __init__(
        self,
        store: ParameterStore,
        job: Job,
        folder: str,
        begin: int,
        part: int,
        parts: int,
        *,
        beside: bool = False,
    ) -> None:
        self._store = store
        self._folder = Path(folder)
        self._part = part
        self._parts = parts
        self._beside = beside
        self._every = None if job.checkpoint is None else job.checkpoint.every
        self.not_before_ns = run_clock.now_ns() + EVERY_NS
        # The state of a store on a device that is being written, and its round.
        self._thread: ThreadPoolExecutor | None = None
        self._writing: tuple[int, Future[None]] | None = None
        # On the first server: the others whose part of the newest checkpoint is not on disk.
        self._missing: set[int] = set()
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
        self.go_on()
        if self._every is not None:
            return round_no % self._every == 0
        return self._writing is None and run_clock.now_ns() >= self.not_before_ns

    def save(self, round_no: int) -> None:
        """Put this server's part of the state that a round begins with on disk."""
        if self._beside:
            self._begin(round_no)
            return
        begin_ns = run_clock.now_ns()
        forget = self._store.disk is not None
        save_part(self._folder, round_no, self._part, self._store.checkpoint_part(), forget=forget)
        self.previous, self.last = self.last, round_no
        if self._part == 0:
            self._missing = set(range(1, self._parts))
            self._publish()
        took_ns = run_clock.now_ns() - begin_ns
        # A large model is saved less often: an interval is at least _SHARE times the time of a
        # save.
        self.not_before_ns = begin_ns + max(EVERY_NS, _SHARE * took_ns)

    def _begin(self, round_no: int) -> None:
        """Begin to save a store on a device: it goes on, and a thread writes."""
        if self._writing is not None:  # an interval that the user has stated is kept
            self._writing[1].result()
            self.go_on()
        begin_ns = run_clock.now_ns()
        encoded = self._store.begin_checkpoint()

        def write() -> None:
            save_part(self._folder, round_no, self._part, encoded())
            took_ns = run_clock.now_ns() - begin_ns
            self.not_before_ns = begin_ns + max(EVERY_NS, _SHARE * took_ns)

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._writing = round_no, self._thread.submit(write)

    def go_on(self) -> None:
        """Publish the checkpoint that a thread has written since.

        Raises
        ------
        OSError
            It could not be written.
        """
        if self._writing is None or not self._writing[1].done():
            return
        (round_no, written), self._writing = self._writing, None
        written.result()
        self.previous, self.last = self.last, round_no
        self._missing = set()
        self._publish()

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
