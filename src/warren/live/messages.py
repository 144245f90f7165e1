"""What the processes of a run say to each other: small typed headers, buffers beside them.

Times ``*_ns`` are readings of the host's monotonic clock, which all processes of a host share;
pads are real nanoseconds. One union for all sockets, so that every message is known by its tag.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """When a task was on COMP, and when its synchronisation ended."""

    shard: int
    start_ns: int
    comp_end_ns: int
    end_ns: int


class ExecutorReady(Message, frozen=True, tag=True, array_like=True):
    """An executor listens."""

    device: int


class ServerReady(Message, frozen=True, tag=True, array_like=True):
    """A server has built its job's model, or gone back to a checkpoint of it, and listens."""

    job: int
    era: int
    part: int


class Warm(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: let the trainer of ``user`` build the apps of these jobs."""

    user: str
    jobs: tuple[int, ...]


class Warmed(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: it is done, failures included."""

    device: int
    user: str


class Assign(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: tasks for the end of the queue.

    ``decided_ns`` is the time of the event that the policy answered. The job's servers are
    ``parts`` many, and of this ``era`` (a job that is rolled back begins a new one).
    ``limit_ns``: how long a task may really take.
    """

    seq: int
    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]
    user: str
    decided_ns: int
    era: int
    parts: int
    limit_ns: int


class Drop(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: forget all work of a job; ``ended``: it will not come again."""

    job: int
    ended: bool


class TrainerGone(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: this process has ended, ``how`` says how."""

    user: str
    pid: int
    how: str


class CompEnded(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: one task has left the COMP lane. Shards of ``seq`` come in order."""

    seq: int
    round: int
    shard: int
    start_ns: int
    end_ns: int
    overrun: bool


class TaskLost(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: its trainer ended, ``how`` says how; the task will run again.

    ``round`` and ``shard`` are -1 where the trainer was building the job's app.
    """

    device: int
    job: int
    round: int
    shard: int
    how: str


class TaskStuck(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: the user's trainer has gone past the limit; please end it."""

    device: int
    job: int
    user: str
    reason: str


class JobBroke(Message, frozen=True, tag=True, array_like=True):
    """The job cannot go on; ``reason`` is one line."""

    job: int
    reason: str


class TrainerReady(Message, frozen=True, tag=True, array_like=True):
    """A trainer asks its executor for work."""

    user: str
    pid: int


class Prepare(Message, frozen=True, tag=True, array_like=True):
    """Executor to trainer: build this job's app before time starts."""

    job: int


class Prepared(Message, frozen=True, tag=True, array_like=True):
    """Trainer to executor."""

    job: int


class Forget(Message, frozen=True, tag=True, array_like=True):
    """Executor to trainer: the job has ended, its app may go."""

    job: int


class RunTask(Message, frozen=True, tag=True, array_like=True):
    """Executor to trainer. The bytes lie in memory that both share.

    ``arena`` is its path, ``size`` the bytes of one slot; the state is in slot ``state``, the
    update goes to slot ``update``.
    """

    job: int
    round: int
    shard: int
    arena: str
    size: int
    state: int
    update: int


class TaskComputed(Message, frozen=True, tag=True, array_like=True):
    """Trainer to executor: the update lies in its slot. See ``training.result.TaskResult``."""

    job: int
    round: int
    shard: int
    loss: float
    present: bytes
    marks: bytes


class TaskRaised(Message, frozen=True, tag=True, array_like=True):
    """Trainer to executor: the app raised; the traceback is in the job's log."""

    job: int
    reason: str


class Pull(Message, frozen=True, tag=True, array_like=True):
    """Executor to server: the state of this round, when there is one."""

    round: int


class State(Message, frozen=True, tag=True, array_like=True):
    """Server to executor; beside it the bytes. They come ahead of the barrier when they can.

    The buffers lie one after another in the places ``ranges`` (begin, end) of a state of
    ``total_bytes``: what this server owns. ``passed_ns`` is when the barrier passed (or the job
    arrived); None: wait for ``Passed``, which comes from the first server. ``done``: shards of the
    round that need not run again.
    """

    round: int
    passed_ns: int | None
    total_bytes: int
    ranges: tuple[tuple[int, int], ...]
    done: tuple[int, ...] = ()


class Passed(Message, frozen=True, tag=True, array_like=True):
    """Server to executor: tasks of this round may start, since ``at_ns``."""

    round: int
    at_ns: int


class Over(Message, frozen=True, tag=True, array_like=True):
    """Server to executor: the barrier of this round has passed, its tasks are not needed."""

    round: int


class Push(Message, frozen=True, tag=True, array_like=True):
    """Executor to server; beside it the update, in the server's ranges.

    ``committed``: no Commit follows; ``stamp`` is then what it would have said.
    """

    round: int
    shard: int
    loss: float
    present: bytes
    marks: bytes
    committed: bool
    stamp: Stamp


class Pushed(Message, frozen=True, tag=True, array_like=True):
    """Server to executor: the update is here."""

    round: int
    shard: int


class Commit(Message, frozen=True, tag=True, array_like=True):
    """Executor to the first server: the synchronisation ended on the device's COMM lane."""

    round: int
    stamp: Stamp


class PartDone(Message, frozen=True, tag=True, array_like=True):
    """Server to the first server: its blocks have made the step of ``round``.

    Beside it the blocks, when the whole model is wanted (to evaluate or to save it).
    """

    part: int
    round: int


class PartSaved(Message, frozen=True, tag=True, array_like=True):
    """Server to the first server: its part of the checkpoint of ``round`` is on disk."""

    part: int
    round: int


class Turn(Message, frozen=True, tag=True, array_like=True):
    """First server to the others: ``round`` has begun; ``save`` the state it begins with."""

    round: int
    save: bool


class Open(Message, frozen=True, tag=True, array_like=True):
    """Controller to server: the job arrives at ``at_ns``; round 0 may start then."""

    at_ns: int


class Kept(Message, frozen=True, tag=True, array_like=True):
    """Controller to first server: the journal has reached this round's beginning.

    Should the controller be lost, the run will not go back behind the checkpoint there.
    """

    round: int


class RoundReport(Message, frozen=True, tag=True, array_like=True):
    """First server to controller: a barrier has passed; ``stamps`` say when its tasks ran.

    ``saved`` is the round that the job's newest checkpoint begins with. When ``finished``, the
    parameters are on disk already, with this hash.
    """

    job: int
    era: int
    round: int
    loss: float
    metrics: dict[str, float] | None
    finished: bool
    at_ns: int
    stamps: tuple[Stamp, ...]
    saved: int = 0
    sha256: str = ""


class PlainDone(Message, frozen=True, tag=True, array_like=True):
    """A job trained by the plain engine to its end; metrics as (rounds done, values)."""

    job: int
    rounds: int
    losses: list[float]
    metrics: list[tuple[int, dict[str, float]]]
    start_ns: int
    end_ns: int
    sha256: str


AnyMessage: TypeAlias = (
    ExecutorReady | ServerReady | Warm | Warmed | Assign | Drop | TrainerGone | CompEnded
    | TaskLost | TaskStuck | JobBroke | TrainerReady | Prepare | Prepared | Forget | RunTask
    | TaskComputed | TaskRaised | Pull | State | Passed | Over | Push | Pushed | Commit
    | PartDone | PartSaved | Turn | Open | Kept | RoundReport | PlainDone
)  # fmt: skip


ENCODER: Final = msgspec.msgpack.Encoder()
DECODER: Final = msgspec.msgpack.Decoder(AnyMessage)
