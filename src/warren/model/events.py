"""Events: the only way anything enters the core. Past tense, times in nanoseconds.

Events are totally ordered by (time, rank, sequence). ``RANK`` gives the second key: at one
instant failures count first, then work that ended, then barriers, then losses, then arrivals, and
a wake-up asked for by the policy last, so that it sees everything that has happened by then.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


# Events are part of no cycle of references, and a run has millions of them: ``gc=False`` keeps the
# garbage collector from looking at them. As arrays they are short in the journal, so fields may
# only be added at the end.
class Event(msgspec.Struct, frozen=True, tag="Event", array_like=True, gc=False):
    """Base of all events."""

    time_ns: int


class JobArrived(Event, frozen=True, tag="JobArrived", array_like=True):
    """The job may run from now on."""

    job: int


class CompDone(Event, frozen=True, tag="CompDone", array_like=True):
    """A device finished the COMP of the assignment at the head of its queue."""

    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]
    device: int


class TasksDone(Event, frozen=True, tag="TasksDone", array_like=True):
    """An assignment is done, its last synchronization included: one row of the timeline.

    ``start_ns`` COMP of the first task began; ``comp_end_ns`` COMP of the last ended;
    ``busy_ns`` COMP time on the device; ``end_ns`` the last synchronization ended. In live runs
    that is stamped where it happened, in ``ended_ns``, and the core may learn of it a moment
    later, at ``time_ns``; -1 says that both are one.
    """

    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]
    device: int
    start_ns: int
    comp_end_ns: int
    busy_ns: int
    ended_ns: int = -1

    @property
    def end_ns(self) -> int:
        """Return when the last synchronization ended."""
        return self.time_ns if self.ended_ns < 0 else self.ended_ns


class RoundsDone(Event, frozen=True, tag="RoundsDone", array_like=True):
    """The barriers of rounds ``round`` to ``round + rounds - 1`` of a job have passed.

    Live rounds carry the mean ``loss`` and, where the job evaluates, ``metrics`` (sorted
    name-value pairs). ``finished`` means the job ends here: all its rounds are done or its stop
    rule holds. ``passed_ns`` is as ``TasksDone.ended_ns``.

    ``cut``: if the job was saved at the start of this round, inside a stretch, the part of it that
    had run until then, as rows. Should the job go back there, they stand in place of the whole
    ones.
    """

    job: int
    round: int
    rounds: int
    finished: bool
    loss: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    passed_ns: int = -1
    cut: tuple[TasksDone, ...] = ()

    @property
    def barrier_ns(self) -> int:
        """Return when the barrier passed."""
        return self.time_ns if self.passed_ns < 0 else self.passed_ns


class TaskDropped(Event, frozen=True, tag="TaskDropped", array_like=True):
    """A task was run twice, and this run of it, which was not the first to be done, is over.

    ``busy_ns`` is the COMP time that the device spent on it; it counts for nothing.
    """

    job: int
    round: int
    shard: int
    device: int
    busy_ns: int


class TasksLost(Event, frozen=True, tag="TasksLost", array_like=True):
    """Live: tasks that were under way on a device went down with a process and run again there.

    Nothing in the schedule changes; the event exists so that tasks computed twice can be counted.
    ``reason`` is one line.
    """

    job: int
    round: int
    shards: tuple[int, ...]
    device: int
    reason: str


class ServersMoved(Event, frozen=True, tag="ServersMoved", array_like=True):
    """All blocks of the job are on the new servers, as its shape says: ``round`` begins there.

    ``far_bytes`` of them came from other hosts. ``took_ns``: how long after the barrier before
    ``round``, or after a delay, the last of them came. ``servers`` has the host of each server by
    now, ``model_bytes`` how many bytes of the model it holds; empty: about the same.

    Live, ``reason``: why they could not, in one line. Then ``round`` begins where the one before
    did, on ``servers`` with ``model_bytes``: the shape's servers are void.
    """

    job: int
    round: int
    far_bytes: int
    took_ns: int
    servers: tuple[int, ...] = ()
    model_bytes: tuple[int, ...] = ()
    reason: str = ""


class HostLeft(Event, frozen=True, tag="HostLeft", array_like=True):
    """An opportunistic host is gone, with all that ran there. It was not announced.

    ``RolledBack`` events of the jobs that had tasks or servers there come with it, or after it.
    """

    host: int


class RolledBack(Event, frozen=True, tag="RolledBack", array_like=True):
    """The job has lost its state and goes on from its checkpoint at the start of ``round``.

    Its queued and running tasks are gone, and rounds from ``round`` on run again: their tasks and
    barriers replace those reported before. ``kept``: of stretches that the checkpoint cuts in two,
    the part before it, as rows that stand in place of the whole ones; if it is empty,
    ``RoundsDone.cut`` has named that part. ``reason`` is one line.
    """

    job: int
    round: int
    reason: str
    kept: tuple[TasksDone, ...] = ()


class HostJoined(Event, frozen=True, tag="HostJoined", array_like=True):
    """An opportunistic host is there: it may have tasks and servers from now on."""

    host: int


class JobFailed(Event, frozen=True, tag="JobFailed", array_like=True):
    """The job cannot go on; its queued and running tasks are gone. ``reason`` is one line."""

    job: int
    reason: str


class JobCancelled(Event, frozen=True, tag="JobCancelled", array_like=True):
    """The user took the job back."""

    job: int


class Woken(Event, frozen=True, tag="Woken", array_like=True):
    """The time a policy asked to be woken at has come."""


class ParamsSaved(Event, frozen=True, tag="ParamsSaved", array_like=True):
    """A finished live job's parameters are on disk.

    ``sha256`` is the hash of name, dtype, shape and bytes of the sorted state; ``numerics`` the
    class it was computed in.
    """

    job: int
    sha256: str
    numerics: str


AnyEvent: TypeAlias = (
    JobArrived
    | CompDone
    | TasksDone
    | RoundsDone
    | TaskDropped
    | TasksLost
    | ServersMoved
    | HostLeft
    | RolledBack
    | HostJoined
    | JobFailed
    | JobCancelled
    | ParamsSaved
    | Woken
)

# At one instant a barrier comes after the tasks it waits for, an arrival after the work that frees
# devices for it, and a wake-up after everything. A failure comes first: nothing else may act for a
# job that is gone (decision 0002).
RANK: Final[dict[type[Event], int]] = {
    JobFailed: 0,
    JobCancelled: 1,
    CompDone: 2,
    TasksDone: 3,
    RoundsDone: 4,
    TaskDropped: 5,
    TasksLost: 6,
    ServersMoved: 7,
    HostLeft: 8,
    RolledBack: 9,
    HostJoined: 10,
    JobArrived: 11,
    ParamsSaved: 12,
    Woken: 13,
}
