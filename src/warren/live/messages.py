"""What the processes of a run say to each other: small typed headers, buffers beside them.

Times ``*_ns`` are readings of the host's monotonic clock, which all processes of a host share;
pads are real nanoseconds. One union for all sockets, so that every message is known by its tag.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


class ExecutorReady(Message, frozen=True, tag=True, array_like=True):
    """An executor listens."""

    device: int


class ServerReady(Message, frozen=True, tag=True, array_like=True):
    """A job's server has built its model and listens."""

    job: int


class Warm(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: let the trainer of ``user`` build the apps of these jobs."""

    user: str
    jobs: tuple[int, ...]


class Warmed(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: it is done, failures included."""

    device: int
    user: str


class Assign(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: tasks for the end of the queue. A pad of 0 means none.

    ``decided_ns`` is the time of the event that the policy answered.
    """

    seq: int
    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]
    user: str
    comp_pad_ns: int
    sync_pad_ns: int
    decided_ns: int


class Drop(Message, frozen=True, tag=True, array_like=True):
    """Controller to executor: forget everything of a job that has ended."""

    job: int


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


class SyncEnded(Message, frozen=True, tag=True, array_like=True):
    """Executor to controller: one task has left the COMM lane."""

    seq: int
    round: int
    shard: int
    at_ns: int


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


class RunTask(Message, frozen=True, tag=True, array_like=True):
    """Executor to trainer. Beside it the state, unless the trainer holds this one already."""

    job: int
    round: int
    shard: int


class TaskComputed(Message, frozen=True, tag=True, array_like=True):
    """Trainer to executor. Beside it: the update, then the mask of gradients present."""

    job: int
    round: int
    shard: int
    loss: float
    sha: str


class TaskRaised(Message, frozen=True, tag=True, array_like=True):
    """Trainer to executor: the app raised; the traceback is in the job's log."""

    job: int
    reason: str


class Pull(Message, frozen=True, tag=True, array_like=True):
    """Executor to server: the state of this round, when there is one."""

    round: int


class State(Message, frozen=True, tag=True, array_like=True):
    """Server to executor; beside it the bytes. They come ahead of the barrier when they can.

    ``passed_ns`` is when the barrier passed (or the job arrived); None: wait for ``Passed``.
    """

    round: int
    passed_ns: int | None


class Passed(Message, frozen=True, tag=True, array_like=True):
    """Server to executor: tasks of this round may start, since ``at_ns``."""

    round: int
    at_ns: int


class Push(Message, frozen=True, tag=True, array_like=True):
    """Executor to server; beside it: the update, the mask. ``committed``: no Commit follows."""

    round: int
    shard: int
    loss: float
    sha: str
    committed: bool


class Pushed(Message, frozen=True, tag=True, array_like=True):
    """Server to executor: the update is here."""

    round: int
    shard: int


class Commit(Message, frozen=True, tag=True, array_like=True):
    """Executor to server: the task's synchronisation ended on the device's COMM lane."""

    round: int
    shard: int
    at_ns: int


class Open(Message, frozen=True, tag=True, array_like=True):
    """Controller to server: the job arrives at ``at_ns``; round 0 may start then."""

    at_ns: int


class RoundReport(Message, frozen=True, tag=True, array_like=True):
    """Server to controller: a barrier has passed.

    When ``finished``, the parameters are on disk already, with this hash.
    """

    job: int
    round: int
    loss: float
    metrics: dict[str, float] | None
    finished: bool
    at_ns: int
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
    | SyncEnded | JobBroke | TrainerReady | Prepare | Prepared | RunTask | TaskComputed
    | TaskRaised | Pull | State | Passed | Push | Pushed | Commit | Open | RoundReport | PlainDone
)  # fmt: skip


ENCODER: Final = msgspec.msgpack.Encoder()
DECODER: Final = msgspec.msgpack.Decoder(AnyMessage)
