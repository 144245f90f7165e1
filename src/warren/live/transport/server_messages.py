"""The messages between servers, executors and the controller.

Times ``*_ns`` are readings of the host's monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

from warren.live.transport.message import Message, SharedSlot, TaskStamp
from warren.model.measured import PhaseTimes

# How a job's servers come up and begin.


class ServerReady(Message, frozen=True, tag="ServerReady", array_like=True):
    """Server to controller: it has its job's model, new or of a checkpoint, and listens."""

    job: int
    generation: int
    part: int


# A task's synchronization: an executor pulls the state of a round, and pushes the task's update.


class Pull(Message, frozen=True, tag="Pull", array_like=True):
    """Executor of ``device`` to server: send the state of this round, when there is one."""

    round: int
    device: int


class StateSent(Message, frozen=True, tag="StateSent", array_like=True):
    """Server to executor: its part of a state, sent ahead of the barrier when possible.

    The buffers beside the message lie one after another in the places ``ranges`` (begin, end) of a
    state of ``total_bytes``. Large ones are not sent: the whole state is at ``spot``, where it
    stays unchanged until ``StateReleased`` comes back. ``passed_ns`` is when the barrier passed (or
    the job arrived); None: wait for ``BarrierPassed``, which comes from the first server. The first
    server sends ``done``, too: tasks of the round that need not run again, if every other server of
    the job has their update, as each states in ``have``. ``on_disk``: the server's model is there,
    so updates should be, too.
    """

    round: int
    passed_ns: int | None
    total_bytes: int
    ranges: tuple[tuple[int, int], ...]
    done: tuple[TaskStamp, ...] = ()
    have: tuple[int, ...] = ()
    spot: SharedSlot | None = None
    on_disk: bool = False


class StateReleased(Message, frozen=True, tag="StateReleased", array_like=True):
    """Executor to server: a state of this round that lay at a spot is not needed there any more."""

    round: int


class BarrierPassed(Message, frozen=True, tag="BarrierPassed", array_like=True):
    """Server to executor: tasks of this round may start; the barrier passed at ``at_ns``."""

    round: int
    at_ns: int


class JobOver(Message, frozen=True, tag="JobOver", array_like=True):
    """Server to executor: the barrier of this round has passed, its tasks are not needed."""

    round: int


class Push(Message, frozen=True, tag="Push", array_like=True):
    """Executor to server: the update of a task; the bytes of the server's ranges are beside it.

    A large update is not sent: the whole of it is at ``spot``, and stays until ``Pushed`` comes
    back. ``committed``: no ``Commit`` follows; ``stamp`` then holds that message's stamp.
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
    """Server to executor: the update has been taken."""

    round: int
    shard: int


class Commit(Message, frozen=True, tag="Commit", array_like=True):
    """Executor to the first server: a task's synchronization has ended on the COMM lane."""

    round: int
    stamp: TaskStamp


# A step among the servers of a job. The first server holds the barrier; each owns some blocks.


class PartDone(Message, frozen=True, tag="PartDone", array_like=True):
    """Server to the first server: its blocks have made the step of ``round``.

    The blocks are beside it when the whole model is wanted (to evaluate or to save it), or lie at
    ``spot`` until the next round begins. Round -1: it has made no step, and stands where the job
    goes on.
    """

    part: int
    round: int
    spot: SharedSlot | None = None


class Squares(Message, frozen=True, tag="Squares", array_like=True):
    """Squares of the norms of gradients of ``round``, for a step that clips.

    From a server to the first server: of the tensors of ``part``. From there to the others: of all.
    """

    part: int
    round: int
    values: tuple[float, ...]


class PartSaved(Message, frozen=True, tag="PartSaved", array_like=True):
    """Server to the first server: its part of the checkpoint of ``round`` is on disk."""

    part: int
    round: int


class BeginRound(Message, frozen=True, tag="BeginRound", array_like=True):
    """First server to the others: ``round`` has begun; ``save`` the state it begins with."""

    round: int
    save: bool


# Blocks migrate: other servers take over at a barrier. Ownership moves first.


class Migrate(Message, frozen=True, tag="Migrate", array_like=True):
    """Controller to servers: at the next barrier give all blocks to the servers of ``generation``.

    Those are up already. ``homes`` has the host of each, ``model_bytes`` how many bytes of the
    model each is to hold; empty: about the same.
    """

    generation: int
    homes: tuple[int, ...]
    model_bytes: tuple[int, ...]


class LastRound(Message, frozen=True, tag="LastRound", array_like=True):
    """First server to the others: ``round`` begins at the servers of ``to``, give them the blocks.

    ``since_ns``: when it begins; ``kept`` and ``saved``: rounds of the checkpoints that may still
    be needed, the oldest and the newest; ``save_not_before_ns``: when the next one may be made, of
    a job that does not say how often.
    """

    round: int
    since_ns: int
    kept: int
    saved: int
    save_not_before_ns: int
    to: Migrate


class Piece(Message, frozen=True, tag="Piece", array_like=True):
    """Server to its heir: the heir's blocks of server ``part``; beside the message their bytes.

    The other fields are those of ``LastRound``.
    """

    part: int
    round: int
    since_ns: int
    kept: int
    saved: int
    save_not_before_ns: int


class OwnershipMoved(Message, frozen=True, tag="OwnershipMoved", array_like=True):
    """First server to controller: it serves no more; ``round`` begins at the next generation.

    That is at ``since_ns``, or when the blocks have come: requests before that wait there.
    """

    job: int
    generation: int
    round: int
    since_ns: int


class BlocksCame(Message, frozen=True, tag="BlocksCame", array_like=True):
    """Server to controller: all blocks that it owns have come to it, the last at ``at_ns``.

    ``far_bytes`` of them came from other hosts.
    """

    job: int
    generation: int
    part: int
    at_ns: int
    far_bytes: int


# Messages between the controller and servers.


class FlowClass(Message, frozen=True, tag="FlowClass", array_like=True):
    """Mark the job's traffic from this process from now on with a class of flows.

    Controller to executors and servers, and executor to rank.
    """

    job: int
    flow_class: int


class DelayRound(Message, frozen=True, tag="DelayRound", array_like=True):
    """Controller to servers, or to rank 0: delay the round behind the next barrier.

    ``delay_ns`` counts from that barrier. It replaces every delay sent since the last one.
    """

    delay_ns: int


class Open(Message, frozen=True, tag="Open", array_like=True):
    """Controller to the first server: the job may begin, or go on, at ``at_ns``."""

    at_ns: int


class CheckpointCommitted(Message, frozen=True, tag="CheckpointCommitted", array_like=True):
    """Controller to first server or rank 0: the journal has reached this round's end.

    Should the controller be lost, the run will not go back behind the checkpoint at its beginning.
    """

    round: int


class RoundReport(Message, frozen=True, tag="RoundReport", array_like=True):
    """First server, or rank 0, to controller: a barrier has passed.

    ``stamps`` say when the round's tasks ran, ``at_ns`` when the barrier passed. ``saved`` is the
    round that the job's newest checkpoint begins with. When ``finished``, the parameters are on
    disk already, with this hash. ``overruns``: tasks of a ring that took longer than their pads.
    ``phases``: times of the round that no stamp has, as of adding and stepping.
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
    phases: PhaseTimes = PhaseTimes()
