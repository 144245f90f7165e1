"""The messages between the processes of a run: small typed headers, with buffers beside them.

Times ``*_ns`` are readings of the host's monotonic clock, which all processes of a host share;
pads are real nanoseconds. There is one union for all sockets, so that every message is known by its
tag.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from warren.live.transport.message import Message, SharedSlot
from warren.live.transport.ring_messages import (
    AssignRank,
    BeginRing,
    BeginRounds,
    GangBroke,
    GangReady,
    HandedOver,
    HandOver,
    MeetingEntry,
    RankDone,
    RankGone,
    RankPresent,
    RankReady,
)
from warren.live.transport.server_messages import (
    BarrierPassed,
    BeginRound,
    BlocksCame,
    CheckpointCommitted,
    Commit,
    DelayRound,
    FlowClass,
    JobOver,
    LastRound,
    Migrate,
    Open,
    OwnershipMoved,
    PartDone,
    PartSaved,
    Piece,
    Pull,
    Push,
    Pushed,
    RoundReport,
    ServerReady,
    Squares,
    StateReleased,
    StateSent,
)

# Stand in for the round of a task where a lost trainer had none (``TaskLost``).
BUILDING: Final = -1
IDLE: Final = -2


class ExecutorReady(Message, frozen=True, tag="ExecutorReady", array_like=True):
    """Executor to controller: it listens; ``incarnation`` is its role's."""

    device: int
    incarnation: int


# Before time zero: trainers build their apps.


class RehearseTask(Message, frozen=True, tag="RehearseTask", array_like=True):
    """Controller to executor: say when the job's trainer has built its app."""

    job: int


class TaskRehearsed(Message, frozen=True, tag="TaskRehearsed", array_like=True):
    """Executor to controller: the job's trainer is ready, or has failed."""

    device: int
    job: int


# Controller and executor: a device's work, and its outcome.


class Assign(Message, frozen=True, tag="Assign", array_like=True):
    """Controller to executor: put tasks at the end of the queue.

    ``seq`` is the assignment's number in the ledger. ``decided_ns`` is the time of the event that
    the policy answered. ``homes`` has the host of each of the job's servers, which are of this
    ``generation`` (a job that is rolled back begins a new one). ``limit_ns``: longest real time of
    a task. ``copy``: the task is in progress on another device; it goes before tasks not begun
    here. ``ring``: it is for a rank of the job's gang, which has no servers, and begins when
    ``AssignRank`` names that gang.
    """

    seq: int
    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]
    decided_ns: int
    generation: int
    homes: tuple[int, ...]
    limit_ns: int
    copy: bool = False
    ring: bool = False


class Drop(Message, frozen=True, tag="Drop", array_like=True):
    """Controller to executor: forget all work of a job; ``ended``: the job gets no more work."""

    job: int
    ended: bool


class LostRace(Message, frozen=True, tag="LostRace", array_like=True):
    """Controller to executor: another device has done this task, its result is not needed.

    A task on COMP stays there to its end; ``CompEnded`` follows then, otherwise ``LeftComp``.
    """

    seq: int


class LeftComp(Message, frozen=True, tag="LeftComp", array_like=True):
    """Executor to controller: a task that lost its race had not begun, or has left COMP."""

    seq: int


class Moved(Message, frozen=True, tag="Moved", array_like=True):
    """Controller to executor: a job has other servers; see ``Assign``.

    Rounds before ``round`` are over; begun tasks of later ones run again.
    """

    job: int
    generation: int
    homes: tuple[int, ...]
    round: int


class TrainerGone(Message, frozen=True, tag="TrainerGone", array_like=True):
    """Controller to executor: a trainer of the job has ended, in the way that ``how`` states.

    ``verifies``: it is the second trainer, which computed tasks again.
    """

    job: int
    pid: int
    how: str
    verifies: bool = False


class CompEnded(Message, frozen=True, tag="CompEnded", array_like=True):
    """Executor to controller: one task has left the COMP lane. Shards of ``seq`` come in order."""

    seq: int
    round: int
    shard: int
    start_ns: int
    end_ns: int
    overrun: bool


class TaskLost(Message, frozen=True, tag="TaskLost", array_like=True):
    """Executor to controller: its trainer ended, ``how`` says how; the task will run again.

    ``round`` is ``BUILDING`` where the trainer was building its app, ``IDLE`` where it did nothing.
    """

    device: int
    job: int
    round: int
    shard: int
    how: str


class TaskStuck(Message, frozen=True, tag="TaskStuck", array_like=True):
    """Executor to controller: the job's trainer is past its limit and must be killed."""

    device: int
    job: int
    reason: str


class JobBroke(Message, frozen=True, tag="JobBroke", array_like=True):
    """Any process of a job to controller: the job cannot go on; ``reason`` is one line.

    ``heir``: the generation of a server to which blocks of the job were to migrate; -1: of none.
    """

    job: int
    reason: str
    heir: int = -1


class CannotWrite(Message, frozen=True, tag="CannotWrite", array_like=True):
    """Server to controller: the disk refuses a checkpoint or the parameters."""

    errno: int
    strerror: str
    path: str


# Executor and trainer: one task at a time, its state and update in shared memory.


class TrainerReady(Message, frozen=True, tag="TrainerReady", array_like=True):
    """Trainer to executor: it runs and begins to build its app, on a GPU only on order.

    ``pid`` is the id by which the zygote knows it.
    """

    job: int
    pid: int
    verifies: bool = False


class Prepared(Message, frozen=True, tag="Prepared", array_like=True):
    """Trainer to executor: the app is built.

    ``device_bytes``: the most memory of the device that it had, in a task. ``free_bytes``: device
    memory free at that time. ``resident``: it has not given its own back. 0 bytes: a processor
    computes.
    """

    job: int
    device_bytes: int = 0
    free_bytes: int = 0
    resident: bool = False


class Build(Message, frozen=True, tag="Build", array_like=True):
    """Executor to a trainer on a GPU: build the app, and rehearse a task."""


class Evict(Message, frozen=True, tag="Evict", array_like=True):
    """Executor to trainer or rank: give the device's memory back until the next state or task."""


class Evicted(Message, frozen=True, tag="Evicted", array_like=True):
    """Trainer or rank to executor: it has."""

    job: int


class Leave(Message, frozen=True, tag="Leave", array_like=True):
    """Executor to trainer: end; the job has ended, or the memory is needed by others."""


class Release(Message, frozen=True, tag="Release", array_like=True):
    """Controller to executor: let the job's trainer go unless it has work; another may come."""

    job: int


class RunTask(Message, frozen=True, tag="RunTask", array_like=True):
    """Executor to trainer: compute a task from the state in one slot, its update into another.

    ``update`` None: the update is not needed. ``then``: round and shard of the job's task that
    follows on this device, if that is known. ``expected``: the hashes that the task gave in another
    process. ``staged``: the state staged for it is still valid. ``ahead``: most of the job's next
    tasks that the trainer may compute before it is asked for them.
    """

    job: int
    round: int
    shard: int
    state: SharedSlot
    update: SharedSlot | None
    then: tuple[int, int] | None = None
    expected: bytes = b""
    staged: bool = False
    ahead: int = 0


class GoAhead(Message, frozen=True, tag="GoAhead", array_like=True):
    """Executor to trainer: the most tasks of a job that it may compute before it is asked."""

    job: int
    tasks: int


class StageState(Message, frozen=True, tag="StageState", array_like=True):
    """Executor to trainer: bring the state of a round, in this slot, near the model: it comes next.

    The trainer answers with ``Staged``; until then the state stays where it is. ``shard``: the task
    that it is for.
    """

    job: int
    round: int
    state: SharedSlot
    shard: int


class ReadInput(Message, frozen=True, tag="ReadInput", array_like=True):
    """Executor to trainer: this task comes soon; begin to read its data from disk."""

    job: int
    round: int
    shard: int


class DeviceFree(Message, frozen=True, tag="DeviceFree", array_like=True):
    """Trainer to executor: the task at hand needs the device no more; its result will come."""

    job: int


class Staged(Message, frozen=True, tag="Staged", array_like=True):
    """Trainer to executor: the state of a round was read, or could not be."""

    job: int
    round: int


class TaskComputed(Message, frozen=True, tag="TaskComputed", array_like=True):
    """Trainer to executor: the update lies in its slot. See ``training.task_hashes``.

    ``began_ns`` and ``ended_ns``: when a device computed it, where the trainer knows; else 0.
    ``data_ns``: how long the task waited for its batch. ``unasked``: the trainer has computed it
    before it was asked to.
    """

    job: int
    round: int
    shard: int
    loss: float
    present: bytes
    marks: bytes
    began_ns: int = 0
    ended_ns: int = 0
    data_ns: int = 0
    unasked: bool = False


# Tasks that are computed again, to see whether they give the same bits.


class Verify(Message, frozen=True, tag="Verify", array_like=True):
    """Controller to executor: a trainer is started that computes some of the job's tasks again."""

    job: int


class Verified(Message, frozen=True, tag="Verified", array_like=True):
    """Executor to controller: a task was computed again, with the same result.

    ``took_ns``: how long that took.
    """

    took_ns: int


class TaskRaised(Message, frozen=True, tag="TaskRaised", array_like=True):
    """Trainer to executor: the app raised; the traceback is in the job's log.

    ``round`` and ``shard`` are those of the task; -1: it was not in a task.
    """

    job: int
    reason: str
    round: int = -1
    shard: int = -1


class PlainDone(Message, frozen=True, tag="PlainDone", array_like=True):
    """Plain process to controller: the job is trained to its end; metrics as (rounds, values)."""

    job: int
    rounds: int
    losses: list[float]
    metrics: list[tuple[int, dict[str, float]]]
    start_ns: int
    end_ns: int
    sha256: str


AnyMessage: TypeAlias = (
    ExecutorReady
    | ServerReady
    | RehearseTask
    | TaskRehearsed
    | Assign
    | Drop
    | Moved
    | TrainerGone
    | CompEnded
    | LostRace
    | LeftComp
    | TaskLost
    | TaskStuck
    | JobBroke
    | CannotWrite
    | TrainerReady
    | Prepared
    | Build
    | Evict
    | GoAhead
    | Evicted
    | Leave
    | Release
    | Verify
    | Verified
    | RunTask
    | StageState
    | Staged
    | ReadInput
    | DeviceFree
    | TaskComputed
    | TaskRaised
    | Pull
    | StateSent
    | StateReleased
    | BarrierPassed
    | JobOver
    | Push
    | Pushed
    | Commit
    | PartDone
    | PartSaved
    | Squares
    | BeginRound
    | Migrate
    | LastRound
    | Piece
    | OwnershipMoved
    | BlocksCame
    | Open
    | FlowClass
    | DelayRound
    | CheckpointCommitted
    | RoundReport
    | PlainDone
    | RankReady
    | GangReady
    | MeetingEntry
    | AssignRank
    | BeginRing
    | RankPresent
    | BeginRounds
    | RankDone
    | RankGone
    | HandOver
    | HandedOver
    | GangBroke
)


# One encoder and one decoder for all sockets of a process.
ENCODER: Final = msgspec.msgpack.Encoder()
DECODER: Final = msgspec.msgpack.Decoder(AnyMessage)
