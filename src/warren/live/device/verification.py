"""Verification on a device: some tasks run again, in a process that has computed others before.

An app that keeps something between its tasks (a counter, a generator, a tensor outside its model)
gives another result there, and its job fails, unless it has ended by then. The first tasks that can
reveal this are taken, then a share. The device begins nothing else before the answer, since it
computes. The update has been sent, and no barrier waits.
"""

from __future__ import annotations

from collections.abc import Callable

from warren.live import run_clock
from warren.live.device.lanes import Key, LaneTask
from warren.live.device.trainer_slots import TrainerSlots
from warren.live.transport.messages import Verified
from warren.live.transport.sockets import Hub
from warren.model.draws import can_tell, is_taken


class Verifier:
    """One device's second trainers, at most one a job, and the task that one computes now.

    ``share`` of the tasks, 0 to 1, is computed again, beside the first that can reveal a
    difference. ``admit`` tells whether the device has memory for a job's task that is computed
    again.
    """

    def __init__(self, hub: Hub, share: float, admit: Callable[[int], bool]) -> None:
        self._slots = TrainerSlots(hub)
        self._share, self._admit = share, admit
        self._peers: set[bytes] = set()
        # By job, how many tasks its second trainer has computed; only of jobs that have one.
        self._counts: dict[int, int] = {}
        # The task, its hashes, and when it began to be computed again; 0: its trainer is not free.
        self._work: LaneTask | None = None
        self._expected = b""
        self._began_ns = 0

    @property
    def key(self) -> Key | None:
        """Return the state that the second trainer reads or will read next; None: none."""
        return None if self._work is None else self._work.key

    @property
    def busy(self) -> bool:
        """Tell whether the device computes a task again, or is about to."""
        return self._work is not None

    def expect(self, job: int) -> None:
        """Note that a second trainer of a job is coming: tasks may wait for it."""
        self._counts[job] = 0

    def sat_down(self, peer: bytes, job: int, pid: int) -> None:
        """Note that a trainer is here, and builds its app."""
        self._peers.add(peer)
        self._slots.sat_down(peer, job, pid)

    def build(self, job: int) -> bool:
        """Let a job's second trainer build its app; False if it is gone."""
        return self._slots.build(job)

    def evict(self, job: int) -> bool:
        """Let a job's second trainer give its memory of the device back; False if it is gone."""
        return self._slots.evict(job)

    def is_here(self, job: int, pid: int) -> bool:
        """Tell whether this process is the job's second trainer now."""
        return self._slots.is_here(job, pid)

    def owns(self, peer: bytes) -> bool:
        """Tell whether a trainer is a second one, which computes tasks again."""
        return peer in self._peers

    def prepared(self, job: int) -> None:
        """Note that a trainer has built its app."""
        self._slots.prepared(job)
        self.begin()

    def offer(self, work: LaneTask, before: int, marks: bytes) -> None:
        """Take a task to be computed again, if the rule says so.

        Parameters
        ----------
        work
            The task, which its trainer has just computed.
        before
            Number of tasks that this trainer had computed before. If the second one has computed as
            many, the task is not taken: the values that both keep may then be equal.
        marks
            The hashes of the task's result.
        """
        count = self._counts.get(work.job)
        if count is None or not can_tell(before, count) or work.copy:
            return
        # Two tasks may end at about one time where one brings out its result as the next computes.
        if self._work is not None:
            return
        if not work.unpadded and not self._slots.free(work.job):
            return  # its time is fixed, and must not contain that of building an app
        if is_taken(work.job, work.round, work.shard, count, self._share):
            self._work = work
            self._expected = marks
            self._began_ns = 0
            self.begin()

    def answered(self, peer: bytes, job: int, round_no: int, shard: int) -> Verified | None:
        """Note that a task was computed again, with the same marks; return the report of it.

        None: the task has been forgotten meanwhile, since its job was rolled back.
        """
        self._slots.answered(peer, job)
        work = self._work
        if work is None or (work.job, work.round, work.shard) != (job, round_no, shard):
            self.begin()  # it may have waited for this trainer
            return None
        self._counts[job] += 1
        self._work = None
        return Verified(run_clock.now_ns() - self._began_ns)

    def raised(self, job: int) -> bool:
        """Note that a task raised, or the app could not be built; tell whether it counts."""
        self._slots.prepared(job)
        # Only for a begun task: an app that cannot be built fails the job's first trainer as well.
        counts = self._work is not None and self._work.job == job and self._began_ns > 0
        self.drop(job)
        return counts

    def gone(self, job: int, pid: int) -> None:
        """Note that a second trainer has ended: tasks of its job are not computed again now."""
        self._slots.gone(job, pid)
        self._counts.pop(job, None)
        self.forget(job)

    def drop(self, job: int) -> None:
        """Let a job's second trainer go."""
        self._counts.pop(job, None)
        self._slots.drop(job)
        self.forget(job)

    def forget(self, job: int) -> None:
        """Forget the task that is computed again, if it is one of the job's.

        For a job that was rolled back: the state of its task is not kept.
        """
        if self._work is not None and self._work.job == job:
            self._work = None

    def begin(self) -> None:
        """Give the task to the second trainer of its job if that is free and has memory."""
        work = self._work
        if work is None or self._began_ns or not self._slots.free(work.job):
            return
        if not self._admit(work.job):
            return
        assert work.state is not None
        if self._slots.verify(work, work.state, self._expected):
            self._began_ns = run_clock.now_ns()
        else:
            self._work = None
