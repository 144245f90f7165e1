"""An executor's side of its trainers: which are here, and the present work of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live.device.lanes import Key, LaneTask
from warren.live.transport.message import SharedSlot
from warren.live.transport.messages import (
    BUILDING,
    IDLE,
    AnyMessage,
    Build,
    Evict,
    GoAhead,
    Leave,
    ReadInput,
    RunTask,
    StageState,
)
from warren.live.transport.sockets import Hub


@dataclass(slots=True)
class TrainerSlot:
    """The place of one job's trainer; ``peer`` is empty while no trainer is here.

    ``building``: it has not built its app. ``warming``: the controller waits for it to be ready.
    ``busy``: it builds its app or computes. ``ending``: number of computed tasks whose results it
    still brings out. ``tasks``: number of tasks it has begun. ``lost``: trainers (process ids) that
    were building, and whose successor came before the report of their end; ``gone``: a trainer
    whose end was reported before it came. ``over``: the job has ended. ``staged``: the round whose
    state it brought to its device for its next task, -1: none; ``staging``: it reads that state
    now. ``reading``: the task, round and shard, whose data it was last ordered to read.
    ``ahead``: most tasks that it may compute unasked.
    """

    peer: bytes = b""
    pid: int = 0
    building: bool = False
    warming: bool = False
    busy: bool = False
    ending: int = 0
    tasks: int = 0
    lost: set[int] = field(default_factory=set)
    gone: int = 0
    over: bool = False
    staged: int = -1
    staging: bool = False
    reading: tuple[int, int] = (-1, -1)
    ahead: int = 0


class TrainerSlots:
    """The trainers of one device, one a job."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._slots: dict[int, TrainerSlot] = {}

    def warm(self, job: int) -> None:
        """Note that the controller waits for the job's trainer."""
        self._slot(job).warming = True

    def sat_down(self, peer: bytes, job: int, pid: int) -> None:
        """Note that a trainer is here, and builds its app."""
        slot = self._slot(job)
        if slot.over:
            self._hub.send(peer, Leave())
        # The zygote's report may overtake a trainer's own message: this trainer has ended already.
        if pid == slot.gone:
            return
        if slot.building:
            slot.lost.add(slot.pid)
        slot.peer = peer
        slot.pid = pid
        slot.building = True
        slot.busy = True
        slot.ending = slot.tasks = slot.ahead = 0
        slot.staged, slot.staging = -1, False
        slot.reading = -1, -1

    def prepared(self, job: int) -> None:
        """Note that a trainer has built its app, or failed to."""
        slot = self._slot(job)
        slot.building = slot.busy = False

    def build(self, job: int) -> bool:
        """Let a trainer build its app; False if it is gone."""
        return self._hub.send(self._slot(job).peer, Build())

    def pid_of(self, peer: bytes, job: int) -> int:
        """Return the process id of a job's trainer, 0 if that is another one now."""
        slot = self._slot(job)
        return slot.pid if slot.peer == peer else 0

    def is_here(self, job: int, pid: int) -> bool:
        """Tell whether this process is the job's trainer now."""
        slot = self._slots.get(job)
        return slot is not None and slot.pid == pid

    def freed(self, job: int) -> None:
        """Note that a trainer has computed a task and may begin another; its result will come."""
        slot = self._slot(job)
        slot.busy = False
        slot.ending += 1

    def warmed(self) -> list[int]:
        """Return the jobs whose trainer the controller waited for and is ready now, each once."""
        done = [job for job, slot in self._slots.items() if slot.warming and _ready(slot)]
        for job in done:
            self._slots[job].warming = False
        return done

    def free(self, job: int) -> bool:
        """Tell whether the job's trainer is here and waits for work."""
        slot = self._slots.get(job)
        return slot is not None and bool(slot.peer) and not slot.busy

    def start(
        self,
        work: LaneTask,
        state: SharedSlot,
        update: SharedSlot,
        then: LaneTask | None,
        *,
        ahead: int = 0,
    ) -> bool:
        """Give a task to the free trainer of its job; False if it is gone.

        ``ahead``: most tasks that the trainer may compute unasked.
        """
        slot = self._slot(work.job)
        staged = slot.staged == work.round
        # Only of the same job: a trainer has no other job's data to prepare.
        next_task = None if then is None or then.job != work.job else (then.round, then.shard)
        slot.ahead = ahead
        task = RunTask(
            work.job, work.round, work.shard, state, update, next_task, staged=staged, ahead=ahead
        )
        if not self._send(slot, task):
            return False
        work.trainer_pid, work.before = slot.pid, slot.tasks - 1
        return True

    def go_ahead(self, job: int, tasks: int) -> None:
        """Tell a job's trainer how many tasks it may compute unasked, if that has changed."""
        slot = self._slot(job)
        if slot.ahead != tasks and self._hub.send(slot.peer, GoAhead(job, tasks)):
            slot.ahead = tasks

    def stage(self, work: LaneTask, state: SharedSlot) -> None:
        """Let the free trainer of a coming task bring its state to the device, once."""
        slot = self._slot(work.job)
        if slot.staged != work.round and not slot.staging and self.free(work.job):
            message = StageState(work.job, work.round, state, work.shard)
            slot.staging = self._hub.send(slot.peer, message)
            slot.staged = work.round

    def holds(self, peer: bytes, job: int) -> bool:
        """Tell whether this is the job's trainer here."""
        slot = self._slots.get(job)
        return slot is not None and slot.peer == peer

    def evict(self, job: int) -> bool:
        """Let a job's trainer give its memory of the device back; False if it is gone."""
        self.unstage(job)
        return self._hub.send(self._slot(job).peer, Evict())

    def read_ahead(self, work: LaneTask) -> None:
        """Let the free trainer of a coming task begin to read its data, once."""
        slot = self._slot(work.job)
        if slot.reading != (work.round, work.shard) and self.free(work.job):
            slot.reading = work.round, work.shard
            self._hub.send(slot.peer, ReadInput(work.job, work.round, work.shard))

    def has_staged(self, peer: bytes, job: int) -> None:
        """Note that a trainer has read the state that it was to bring to the device."""
        slot = self._slot(job)
        if slot.peer == peer:
            slot.staging = False

    def unstage(self, job: int) -> None:
        """Note that a trainer's staged state is void: a roll-back, or new servers of its job."""
        self._slot(job).staged = -1

    def staging(self) -> set[Key]:
        """Return the states that trainers read now to bring them to the device."""
        return {(job, slot.staged) for job, slot in self._slots.items() if slot.staging}

    def verify(self, work: LaneTask, state: SharedSlot, expected: bytes) -> bool:
        """Let the free trainer of its job compute a task again; False if it is gone."""
        task = RunTask(work.job, work.round, work.shard, state, None, None, expected)
        return self._send(self._slot(work.job), task)

    def answered(self, peer: bytes, job: int) -> int:
        """Note that a trainer has finished a task; return its process id, 0 if that is gone."""
        slot = self._slot(job)
        if slot.peer != peer:
            return 0
        # Results come in the order of tasks: one announced as coming is not of the task that the
        # trainer computes now.
        slot.building = False
        if slot.ending:
            slot.ending -= 1
        else:
            slot.busy = False
        return slot.pid

    def drop(self, job: int) -> None:
        """Release the trainer of a job that has ended, when it has done its present work."""
        slot = self._slot(job)
        # A trainer still on its way is sent away when it comes: ``over`` stays.
        slot.over = True
        slot.warming = False
        if slot.peer:
            self._hub.send(slot.peer, Leave())

    def release(self, job: int) -> None:
        """Release a job's trainer if it is idle: another will come when it is needed."""
        slot = self._slot(job)
        if self.free(job) and not slot.ending:
            self._hub.send(slot.peer, Leave())
            slot.peer, slot.pid = b"", 0
            slot.staged, slot.staging = -1, False

    def gone(self, job: int, pid: int) -> int | None:
        """Note that a trainer has ended; return its last work.

        Returns
        -------
        int or None
            ``BUILDING`` its app or ``IDLE``; None if it had a task, or is not known here.
        """
        slot = self._slot(job)
        if slot.pid != pid:
            # Its successor is here already, or it has not come yet.
            building = pid in slot.lost
            slot.lost.discard(pid)
            slot.gone = pid
            return BUILDING if building else None
        doing: int | None = None
        if slot.building:
            doing = BUILDING
        elif not slot.busy and not slot.ending:
            doing = IDLE
        slot.peer = b""
        slot.pid = 0
        slot.building = False
        slot.busy = False
        slot.ending = 0
        slot.staged, slot.staging = -1, False
        return doing

    def _slot(self, job: int) -> TrainerSlot:
        return self._slots.setdefault(job, TrainerSlot())

    def _send(self, slot: TrainerSlot, message: AnyMessage) -> bool:
        """Send a task to a trainer, which is busy then; False if the trainer is gone."""
        if not self._hub.send(slot.peer, message):
            return False
        slot.busy = True
        slot.tasks += 1
        slot.staged = -1  # a staged state serves one task
        return True


def _ready(slot: TrainerSlot) -> bool:
    """Tell whether the trainer has built its app, and every loss before it has been reported."""
    return bool(slot.peer) and not slot.building and not slot.lost
