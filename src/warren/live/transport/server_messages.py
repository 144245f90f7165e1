"""What servers say, and what is said to them: by executors, the controller, and each other.

Times ``*_ns`` are readings of the host's monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

from warren.live.transport.message import Message, SharedSlot, TaskStamp


class ServerReady(Message, frozen=True, tag="ServerReady", array_like=True):
    """A server has built its job's model, or gone back to a checkpoint of it, and listens."""

    job: int
    generation: int
    part: int


class Pull(Message, frozen=True, tag="Pull", array_like=True):
    """Executor of ``device`` to server: the state of this round, when there is one."""

    round: int
    device: int


class StateSent(Message, frozen=True, tag="State", array_like=True):
    """Server to executor; beside it the bytes. They come ahead of the barrier when they can.

    The buffers lie one after another in the places ``ranges`` (begin, end) of a state of
    ``total_bytes``: what this server owns. Large ones are not sent: the whole state is at ``spot``,
    where it stays as it is until ``StateReleased`` comes back. ``passed_ns`` is when the barrier
    passed (or the job arrived); None: wait for ``BarrierPassed``, which comes from the first
    server. ``done`` comes from there too: tasks of the round that need not run again, if every
    other server of the job has their update, as ``have`` says of its own.
    """

    round: int
    passed_ns: int | None
    total_bytes: int
    ranges: tuple[tuple[int, int], ...]
    done: tuple[TaskStamp, ...] = ()
    have: tuple[int, ...] = ()
    spot: SharedSlot | None = None


class StateReleased(Message, frozen=True, tag="Taken", array_like=True):
    """Executor to server: a state of this round that lay at a spot is not needed there now."""

    round: int


class BarrierPassed(Message, frozen=True, tag="Passed", array_like=True):
    """Server to executor: tasks of this round may start, since ``at_ns``."""

    round: int
    at_ns: int


class JobOver(Message, frozen=True, tag="Over", array_like=True):
    """Server to executor: the barrier of this round has passed, its tasks are not needed."""

    round: int


class Push(Message, frozen=True, tag="Push", array_like=True):
    """Executor to server; beside it the update, in the server's ranges.

    A large one is not sent: the whole update is at ``spot``, and stays until ``Pushed`` comes back.
    ``committed``: no Commit follows; ``stamp`` is then what it would have said.
    """

    round: int
    shard: int
    loss: float
    present: bytes
    marks: bytes
    committed: bool
    stamp: TaskStamp
    spot: SharedSlot | None = None


class Pushed(Message, frozen=True, tag="Pushed", array_like=True):
    """Server to executor: the update is here."""

    round: int
    shard: int


class Commit(Message, frozen=True, tag="Commit", array_like=True):
    """Executor to the first server: the synchronisation ended on the device's COMM lane."""

    round: int
    stamp: TaskStamp


class PartDone(Message, frozen=True, tag="PartDone", array_like=True):
    """Server to the first server: its blocks have made the step of ``round``.

    Beside it the blocks, when the whole model is wanted (to evaluate or to save it).
    """

    part: int
    round: int


class Squares(Message, frozen=True, tag="Squares", array_like=True):
    """Squares of the norms of gradients of ``round``, for a step that clips.

    Server to the first server: of what ``part`` owns. From there to the others: of all.
    """

    part: int
    round: int
    values: tuple[float, ...]


class PartSaved(Message, frozen=True, tag="PartSaved", array_like=True):
    """Server to the first server: its part of the checkpoint of ``round`` is on disk."""

    part: int
    round: int


class BeginRound(Message, frozen=True, tag="Turn", array_like=True):
    """First server to the others: ``round`` has begun; ``save`` the state it begins with."""

    round: int
    save: bool


class Open(Message, frozen=True, tag="Open", array_like=True):
    """Controller to server: the job arrives at ``at_ns``; round 0 may start then."""

    at_ns: int


class CheckpointCommitted(Message, frozen=True, tag="Kept", array_like=True):
    """Controller to first server: the journal has reached this round's end.

    Should the controller be lost, the run will not go back behind the checkpoint at its beginning.
    """

    round: int


class RoundReport(Message, frozen=True, tag="RoundReport", array_like=True):
    """First server, or rank 0, to controller: a barrier has passed; ``stamps`` say when tasks ran.

    ``saved`` is the round that the job's newest checkpoint begins with. When ``finished``, the
    parameters are on disk already, with this hash. ``overruns``: tasks of a ring that took longer
    than their pads.
    """

    job: int
    generation: int
    round: int
    loss: float
    metrics: dict[str, float] | None
    finished: bool
    at_ns: int
    stamps: tuple[TaskStamp, ...]
    saved: int = 0
    sha256: str = ""
    overruns: int = 0
