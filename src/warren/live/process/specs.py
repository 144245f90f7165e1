"""The roles that a zygote can fork, and the messages between it and its controller."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from warren.live.emulated_times import PadTable
from warren.live.process.memory_limit import MemoryLimit
from warren.live.training.input_data.host_memory import HostBudget
from warren.live.transport.host_identity import NOWHERE, HostIdentity
from warren.live.transport.message import Message
from warren.model.job import Job

# Roles: a child's task and all that it needs for it. ``tmp`` is the folder for temporary files of
# user code, ``base`` the folder from which paths of the run file start.


class ExecutorRole(Message, frozen=True, tag="ExecutorRole", array_like=True):
    """Fork the executor of ``device``.

    ``incarnation`` counts the device's earlier executors. ``pads`` has the times of emulated tasks.
    ``look_ahead`` is the number of tasks whose state is fetched before their turn. ``verify``: the
    share of tasks that is computed again. ``core`` is the processor core to pin to; None: any.
    ``spill``: trainers read their data from disk, ahead of their tasks.
    """

    device: int
    incarnation: int
    folder: str
    log: str
    pads: PadTable
    look_ahead: int
    verify: float = 0.0
    core: int | None = None
    identity: HostIdentity = NOWHERE
    gpu: int | None = None
    spill: bool = False


class TrainerRole(Message, frozen=True, tag="TrainerRole", array_like=True):
    """Fork the trainer of one job on ``device``.

    ``incarnation`` is that of the device's executor. ``rehearse``: it computes one task when it has
    built the app, since the first is always slow. ``verifies``: it computes tasks again that
    another has computed, and says if they differ. ``gpu``: the GPU to compute on; None: the CPU.
    ``inputs``: its data are spilled to disk, within this budget; None: they stay in memory.
    ``verify``: the share of tasks that it computes twice itself.
    """

    device: int
    folder: str
    base: str
    job: Job
    log: str
    incarnation: int
    tmp: str
    rehearse: bool = False
    verifies: bool = False
    core: int | None = None
    memory: MemoryLimit | None = None
    gpu: int | None = None
    inputs: HostBudget | None = None
    verify: float = 0.0


class JobStateRole(Message, frozen=True, tag="JobStateRole", array_like=True):
    """The common fields of each process that keeps the state of a job: a server or a rank.

    ``store`` is the folder of the job's checkpoints; the process begins at the checkpoint of
    ``round``.
    """

    folder: str
    base: str
    job: Job
    log: str
    params: str
    store: str
    tmp: str


class ServerRole(JobStateRole, frozen=True, tag="ServerRole", array_like=True):
    """Fork server ``part`` of a job; ``rehearse``: it evaluates before time zero.

    ``homes`` has the host of each server of the job. ``model_bytes`` has the bytes of the model
    that each holds; empty: about the same. ``flow_class`` is the first class of its traffic.
    ``donors``: number of servers whose blocks it begins with; 0: it begins with the checkpoint of
    ``round``. ``inputs``: the budget of its host, as a trainer's. ``helpers``: threads that share
    its sums and copies; 0: none do. ``gpu``: the GPU on which it keeps and steps the job; None: it
    does so in main memory. ``trainer``: it also computes the job's tasks on that device.
    """

    part: int
    homes: tuple[int, ...]
    generation: int
    round: int
    rehearse: bool = False
    memory: MemoryLimit | None = None
    identity: HostIdentity = NOWHERE
    model_bytes: tuple[int, ...] = ()
    flow_class: int = 0
    donors: int = 0
    inputs: HostBudget | None = None
    helpers: int = 0
    gpu: int | None = None
    trainer: TrainerRole | None = None

    @property
    def parts(self) -> int:
        """Return the number of servers of the job."""
        return len(self.homes)


class RankRole(JobStateRole, frozen=True, tag="RankRole", array_like=True):
    """Fork rank ``rank`` of the ring of a job, for ``device``; see ``transport.ring_messages``.

    ``incarnation`` counts the job's gangs, ``executor`` is the incarnation of the device's
    executor. Ranks find each other through ``meeting``, or through rank 0 if their hosts have
    agents. They talk over ``interface`` (empty: that of their host's address) and prove by
    ``secret`` that they are of this gang. ``delay_ns``: delay of the round behind the first
    barrier. ``verify``: share of the rounds whose tasks other ranks compute again. ``gpu``: the GPU
    on which it computes tasks; None: the CPU.
    """

    device: int
    executor: int
    rank: int
    incarnation: int
    generation: int
    round: int
    meeting: str
    interface: str
    secret: bytes
    pads: PadTable
    delay_ns: int = 0
    rehearse: bool = False
    verify: float = 0.0
    core: int | None = None
    memory: MemoryLimit | None = None
    gpu: int | None = None
    identity: HostIdentity = NOWHERE


class PlainRole(Message, frozen=True, tag="PlainRole", array_like=True):
    """Fork a child that trains one job in a plain loop; ``gpu``: where its tasks are computed."""

    folder: str
    base: str
    job: Job
    log: str
    params: str
    tmp: str
    gpu: int | None = None


class ProbeRole(Message, frozen=True, tag="ProbeRole", array_like=True):
    """Fork a child that computes the first tasks of a job and writes the outcome to ``result``.

    ``disturbed``: it computes them in another order, after other tasks, and with a server that is
    lost on the way. ``filled``: memory that is not initialized holds NaN or the largest integer
    where torch gives it, and an odd pattern elsewhere; else zeros.
    """

    base: str
    job: Job
    log: str
    result: str
    rounds: int
    disturbed: bool = False
    filled: bool = True


class CostRole(Message, frozen=True, tag="CostRole", array_like=True):
    """Fork a child that times a task with deterministic kernels and without, into ``result``.

    ``gpu``: the GPU to compute on; None: the CPU.
    """

    base: str
    job: Job
    log: str
    result: str
    gpu: int | None = None


Role: TypeAlias = (
    ExecutorRole | TrainerRole | ServerRole | RankRole | PlainRole | ProbeRole | CostRole
)


# The protocol of zygotes. A ticket names a process from before it exists.


class Fork(Message, frozen=True, tag="Fork", array_like=True):
    """Controller to zygote: fork a child; ``ticket`` names it in all messages about it."""

    ticket: int
    role: Role


class End(Message, frozen=True, tag="End", array_like=True):
    """Controller to zygote: kill this child."""

    ticket: int


class SetClock(Message, frozen=True, tag="SetClock", array_like=True):
    """Agent to zygote: the lead of the run's clock over this machine's; see ``run_clock``."""

    ahead_ns: int


class Close(Message, frozen=True, tag="Close", array_like=True):
    """Controller to zygote: end. ``last``: the run ends too, so its folder is removed."""

    last: bool


class ZygoteReady(Message, frozen=True, tag="ZygoteReady", array_like=True):
    """Zygote to controller: it is warm, has threads of these names, computes in this class."""

    threads: tuple[str, ...]
    numerics: str


class Forked(Message, frozen=True, tag="Forked", array_like=True):
    """Zygote to controller: the child of this ticket has been forked, as process ``pid``."""

    ticket: int
    pid: int


class Exited(Message, frozen=True, tag="Exited", array_like=True):
    """Zygote to controller: a child has ended; ``how`` in words, empty for a clean end."""

    ticket: int
    pid: int
    how: str


ZygoteMessage: TypeAlias = Fork | End | SetClock | Close | ZygoteReady | Forked | Exited

ZYGOTE_DECODER: Final = msgspec.msgpack.Decoder(ZygoteMessage)
