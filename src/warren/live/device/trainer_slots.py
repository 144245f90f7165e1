"""An executor's side of its trainers: who is here and what each is doing."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live.device.lanes import Work
from warren.live.transport.message import Spot
from warren.live.transport.messages import BUILDING, IDLE, AnyMessage, Leave, RunTask
from warren.live.transport.sockets import Hub


@dataclass(slots=True)
class Seat:
    """The place of one job's trainer; ``peer`` is empty while none is here.

    ``building``: it has not built its app. ``tasks``: so many it has begun. ``lost``: trainers that
    were building, and whose successor came before the news of their end; ``gone``: one whose end
    was told before it came. ``over``: the job has ended.
    """

    peer: bytes = b""
    pid: int = 0
    building: bool = False
    warming: bool = False
    busy: bool = False
    tasks: int = 0
    lost: set[int] = field(default_factory=set)
    gone: int = 0
    over: bool = False


class Desk:
    """Trainers of one device, one a job."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seats: dict[int, Seat] = {}

    def warm(self, job: int) -> None:
        """Note that somebody waits for the job's trainer."""
        self._seat(job).warming = True

    def sat_down(self, peer: bytes, job: int, pid: int) -> None:
        """Note that a trainer is here, and builds its app."""
        seat = self._seat(job)
        if seat.over:
            self._hub.send(peer, Leave())
        if pid == seat.gone:
            return
        if seat.building:
            seat.lost.add(seat.pid)
        seat.peer, seat.pid, seat.building, seat.busy, seat.tasks = peer, pid, True, True, 0

    def prepared(self, job: int) -> None:
        """Note that a trainer has built its app, or failed to."""
        seat = self._seat(job)
        seat.building = seat.busy = False

    def warmed(self) -> list[int]:
        """Give the jobs whose trainer has just become ready."""
        done = [job for job, seat in self._seats.items() if seat.warming and _ready(seat)]
        for job in done:
            self._seats[job].warming = False
        return done

    def free(self, job: int) -> bool:
        """Tell whether the job's trainer is here and waits for work."""
        seat = self._seats.get(job)
        return seat is not None and bool(seat.peer) and not seat.busy

    def start(self, work: Work, state: Spot, update: Spot, then: Work | None) -> bool:
        """Give a task to the free trainer of its job; False if it is gone."""
        seat = self._seat(work.job)
        next_task = None if then is None or then.job != work.job else (then.round, then.shard)
        task = RunTask(work.job, work.round, work.shard, state, update, next_task)
        if not self._send(seat, task):
            return False
        work.trainer_pid = seat.pid
        return True

    def verify(self, work: Work, state: Spot, expected: bytes) -> bool:
        """Let the free trainer of its job compute a task again; False if it is gone."""
        what = work.job, work.round, work.shard
        return self._send(self._seat(work.job), RunTask(*what, state, None, None, expected))

    def tasks(self, job: int) -> int:
        """Count the tasks that the job's trainer has begun."""
        return self._seat(job).tasks

    def answered(self, peer: bytes, job: int) -> int:
        """Note that a trainer has finished a task; gives its process, 0 if that is gone."""
        seat = self._seat(job)
        if seat.peer != peer:
            return 0
        seat.busy = False
        return seat.pid

    def drop(self, job: int) -> None:
        """Let the trainer of a job that has ended go, when it has done what it is doing."""
        seat = self._seat(job)
        seat.over, seat.warming = True, False
        if seat.peer:
            self._hub.send(seat.peer, Leave())

    def release(self, job: int) -> None:
        """Let a job's trainer go if it does nothing: another will come when it is needed."""
        seat = self._seat(job)
        if self.free(job):
            self._hub.send(seat.peer, Leave())
            seat.peer, seat.pid = b"", 0

    def gone(self, job: int, pid: int) -> int | None:
        """Note that a trainer has ended: was it ``BUILDING`` its app, or ``IDLE``?"""
        seat = self._seat(job)
        if seat.pid != pid:
            building = pid in seat.lost
            seat.lost.discard(pid)
            seat.gone = pid
            return BUILDING if building else None
        doing = BUILDING if seat.building else None if seat.busy else IDLE
        seat.peer, seat.pid, seat.building, seat.busy = b"", 0, False, False
        return doing

    def _seat(self, job: int) -> Seat:
        return self._seats.setdefault(job, Seat())

    def _send(self, seat: Seat, message: AnyMessage) -> bool:
        if not self._hub.send(seat.peer, message):
            return False
        seat.busy = True
        seat.tasks += 1
        return True


def _ready(seat: Seat) -> bool:
    return bool(seat.peer) and not seat.building and not seat.lost
