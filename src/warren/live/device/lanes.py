"""The two lanes of a device: their tasks, and when those may leave. No sockets, no clock.

A task is on COMP from the moment its trainer has it until the trainer has answered and, when
emulating, its pad T^c has passed. Then it is on COMM: the pads T^s of a device follow each other
there, overlapping the next COMP, and a task leaves when its own has passed and its server has
its update.

An emulated device keeps the times of its pads, not those at which messages came or its supervisor
woke up. A task starts when lane, barrier and decision allow it, and synchronizes for T^s. The real
time of decisions, messages and the barrier comes out of the next COMP's pad; if it does not fit,
that task is an overrun.

Where bytes pass links that the network model knows (``on_links``) they take the place of T^s: a
task also waits for its state, its update leaves at the end of COMP, and its synchronization ends
when the last server has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from warren.live.emulated_times import PadTable
from warren.live.transport.message import SharedSlot
from warren.live.transport.messages import Assign
from warren.live.transport.server_messages import Push

_GRACE_NS: Final = 5_000_000_000
"""Real nanoseconds past its limit after which a trainer is ended from outside.

At the limit it ends itself, and says where it was.
"""

Key = tuple[int, int]
"""The job and the round that a state belongs to."""


@dataclass(slots=True, kw_only=True)
class LaneTask:
    """One task on a device. Times are monotonic ns; zero means: not yet.

    ``began_ns`` is when its trainer really got it, ``start_ns`` its stamped start.
    ``unacknowledged``: servers that have not confirmed its update. ``state`` and ``slot``: the
    places of its state and its update in shared memory. ``copy``: it is in progress on another
    device. ``beaten``: another device finished it first, and only its COMP goes on to its end.
    ``dropped``: its job was rolled back or has ended. ``on_links``: its bytes take the place of
    T^s; ``held`` is its update until COMP has ended. ``freed_ns``: when its device was free for
    another task, before its result was here. ``before``: number of tasks that its trainer had begun
    before it. ``ring``: it represents ``rounds`` rounds that the rank of ``incarnation`` makes by
    itself.
    """

    seq: int
    job: int
    round: int
    shard: int
    comp_pad_ns: int
    sync_pad_ns: int
    decided_ns: int = 0
    limit_ns: int = 0
    trainer_pid: int = 0
    began_ns: int = 0
    start_ns: int = 0
    result_ns: int = 0
    sync_due_ns: int = 0
    unacknowledged: int = 1
    acknowledged_ns: int = 0
    slot: int = -1
    state: SharedSlot | None = None
    dropped: bool = False
    copy: bool = False
    beaten: bool = False
    on_links: bool = False
    held: Push | None = None
    ring: bool = False
    rounds: int = 1
    incarnation: int = 0
    freed_ns: int = 0
    before: int = 0

    def again(self) -> LaneTask:
        """Return the same task as if it had not been begun."""
        return replace(
            self,
            trainer_pid=0,
            began_ns=0,
            start_ns=0,
            freed_ns=0,
            result_ns=0,
            slot=-1,
            state=None,
            held=None,
            sync_due_ns=0,
            acknowledged_ns=0,
            dropped=False,
        )

    @property
    def key(self) -> Key:
        """Return the state that the task needs."""
        return self.job, self.round

    @property
    def unpadded(self) -> bool:
        """Tell whether the task is not emulated, so that its push is its commit."""
        return self.comp_pad_ns == 0 and self.sync_pad_ns == 0

    @property
    def sync_end_ns(self) -> int:
        """Return when the task's synchronization has ended, once all servers have its update."""
        return max(self.sync_due_ns, self.acknowledged_ns) if self.on_links else self.sync_due_ns

    @property
    def comp_due_ns(self) -> int | None:
        """Return when the task may leave COMP; None while its trainer computes."""
        # A result that comes after the pad is an overrun: the task lasts as long as it lasts.
        ended_ns = self.freed_ns or self.result_ns
        return max(ended_ns, self.start_ns + self.comp_pad_ns) if self.result_ns else None

    @property
    def due_ns(self) -> int | None:
        """Return when to look at the task: it may leave COMP then, or is late.

        None for a ring: its rank says when it is done.
        """
        if self.ring:
            return None
        due_ns = self.comp_due_ns
        return self.late_ns if due_ns is None else due_ns

    @property
    def late_ns(self) -> int:
        """Return when the task's trainer ought to have ended itself."""
        return self.began_ns + self.limit_ns + _GRACE_NS

    @property
    def overrun(self) -> bool:
        """Tell whether the task took longer than its pad."""
        return 0 < self.comp_pad_ns < self.result_ns - self.start_ns


def expand(assign: Assign, pads: PadTable) -> Iterator[LaneTask]:
    """Generate the tasks of an assignment in the order they run; those of a rank as one."""
    if assign.ring:
        # No pads here: a rank pads its rounds itself.
        yield LaneTask(
            seq=assign.seq,
            job=assign.job,
            round=assign.round,
            shard=assign.shards[0],
            comp_pad_ns=0,
            sync_pad_ns=0,
            decided_ns=assign.decided_ns,
            ring=True,
            rounds=assign.rounds,
        )
        return
    for round_no in range(assign.round, assign.round + assign.rounds):
        for shard in assign.shards:
            comp_pad_ns, sync_pad_ns = pads.pads(assign.job, round_no, shard)
            yield LaneTask(
                seq=assign.seq,
                job=assign.job,
                round=round_no,
                shard=shard,
                comp_pad_ns=comp_pad_ns,
                sync_pad_ns=sync_pad_ns,
                decided_ns=assign.decided_ns,
                limit_ns=assign.limit_ns,
                copy=assign.copy,
                on_links=pads.on_links,
            )


class CompLane:
    """Assignments of one device, strictly first in, first out, as tasks.

    A stretch of a million rounds stays one entry: tasks are made when their turn is near.
    """

    def __init__(self, pads: PadTable) -> None:
        self._pads = pads
        # In the order of the queue: tasks that have been made, the rest of the assignment that they
        # come from, and assignments of which no task has been made.
        self._next: deque[LaneTask] = deque()
        self._head: Iterator[LaneTask] = iter(())
        self._head_job = -1
        self._waiting: deque[Assign] = deque()

    def append(self, assign: Assign) -> None:
        """Put an assignment at the end of the queue."""
        self._waiting.append(assign)

    def ahead(self, count: int) -> list[LaneTask]:
        """Return the next tasks, at most ``count``, the head first; they stay in the queue."""
        while len(self._next) < count:
            work = next(self._head, None)
            if work is not None:
                self._next.append(work)
            elif self._waiting:
                self._head_job = self._waiting[0].job
                self._head = expand(self._waiting.popleft(), self._pads)
            else:
                break
        return list(islice(self._next, count))

    def put_first(self, assign: Assign) -> None:
        """Put a copy before all others."""
        for work in expand(assign, self._pads):
            self._next.appendleft(work)

    def remove(self, seq: int) -> None:
        """Forget an assignment of one task, by its number."""
        # The iterator between the two holds no task of it: only an assignment of several tasks
        # leaves a remainder there.
        self._waiting = deque(one for one in self._waiting if one.seq != seq)
        self._next = deque(work for work in self._next if work.seq != seq)

    def pop(self) -> LaneTask:
        """Take the head, which ``ahead`` has shown."""
        return self._next.popleft()

    def put_back(self, work: LaneTask) -> None:
        """Put a task that was taken before all others, to run again."""
        self._next.appendleft(work)

    def drop(self, job: int) -> None:
        """Forget all tasks of a job."""
        self._waiting = deque(one for one in self._waiting if one.job != job)
        self._next = deque(work for work in self._next if work.job != job)
        if self._head_job == job:
            self._head = iter(())


class CommLane:
    """The tasks whose synchronization has not ended."""

    def __init__(self) -> None:
        self._works: list[LaneTask] = []
        self._free_ns = 0

    def enter(self, work: LaneTask, comp_end_ns: int) -> None:
        """Take a task that leaves COMP.

        Its pad T^s begins when those before it on the lane have ended.
        """
        work.sync_due_ns = comp_end_ns
        if not work.beaten:
            # The lane is serial: end of this pad = max(end of the last, end of COMP) + T^s.
            self._free_ns = max(self._free_ns, comp_end_ns) + work.sync_pad_ns
            work.sync_due_ns = self._free_ns
        self._works.append(work)

    def beaten(self, seq: int) -> None:
        """Note that a task was done elsewhere; the lane stays taken for the time of its pad."""
        for work in self._works:
            work.beaten = work.beaten or work.seq == seq

    def find(self, key: Key, shard: int) -> LaneTask | None:
        """Return the task of this state and shard; None if it is not on the lane."""
        for work in self._works:
            if work.key == key and work.shard == shard:
                return work
        return None

    def acknowledge(self, job: int, now_ns: int) -> None:
        """Note that all updates of a job on the lane are where they belong, or not needed."""
        for work in self._works:
            if work.job == job and not work.acknowledged_ns:
                work.acknowledged_ns = now_ns

    def take(self, job: int, round_no: int) -> list[LaneTask]:
        """Remove a job's tasks of this round and later ones, and return them in lane order."""
        found = [w for w in self._works if w.job == job and w.round >= round_no]
        self._works = [work for work in self._works if work not in found]
        return [work for work in found if not work.beaten]

    def leave(self, now_ns: int) -> list[LaneTask]:
        """Remove the tasks whose synchronization has ended, and return them in lane order."""
        # Both are needed: the pad has passed, and every server has said that it has the update.
        ended = [w for w in self._works if w.acknowledged_ns and w.sync_due_ns <= now_ns]
        if ended:
            self._works = [work for work in self._works if work not in ended]
        return ended

    def due_ns(self) -> int | None:
        """Return when the next task may leave for which nothing but time is missing."""
        return min((w.sync_due_ns for w in self._works if w.acknowledged_ns), default=None)

    def drop(self, job: int) -> None:
        """Forget the tasks of a job; the lane stays taken for the time of their pads."""
        self._works = [work for work in self._works if work.job != job]
