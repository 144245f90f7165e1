"""An executor's side of its trainers: who is here and what each is doing."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from warren.live.lanes import Work
from warren.live.messages import AnyMessage, Forget, Prepare, RunTask
from warren.live.transport import Hub
from warren.live.wire import Spot


@dataclass(slots=True)
class Seat:
    """The place of one user's trainer; ``peer`` is empty while none is here.

    ``lost``: jobs that trainers were preparing whose successor came before the news of their end.
    """

    peer: bytes = b""
    pid: int = 0
    preparing: int | None = None
    to_prepare: deque[int] = field(default_factory=deque)
    warming: bool = False
    busy: bool = False
    lost: dict[int, int] = field(default_factory=dict)


class Desk:
    """Trainers of one device, one a user."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._seats: dict[str, Seat] = {}

    def warm(self, user: str, jobs: tuple[int, ...]) -> None:
        """Let the user's trainer build these apps, one after another, when it is here."""
        seat = self._seat(user)
        seat.to_prepare.extend(jobs)
        seat.warming = True
        self._go_on(seat)

    def sat_down(self, peer: bytes, user: str, pid: int) -> None:
        """A trainer is here."""
        seat = self._seat(user)
        if seat.preparing is not None:
            seat.lost[seat.pid], seat.preparing = seat.preparing, None
        seat.peer, seat.pid, seat.busy = peer, pid, False
        self._go_on(seat)

    def prepared(self, peer: bytes) -> None:
        """A trainer has built an app, or failed to."""
        for seat in self._seats.values():
            if seat.peer == peer:
                seat.busy, seat.preparing = False, None
                self._go_on(seat)

    def warmed(self) -> list[str]:
        """Users whose trainer has just finished building."""
        done = [u for u, seat in self._seats.items() if seat.warming and not _unfinished(seat)]
        for user in done:
            self._seats[user].warming = False
        return done

    def free(self, user: str) -> bool:
        """Whether the user's trainer is here and waits for work."""
        seat = self._seats.get(user)
        return seat is not None and bool(seat.peer) and not seat.busy

    def start(self, work: Work, state: Spot, update: Spot, then: Work | None) -> bool:
        """Give a task to the free trainer of its user; False if it is gone."""
        seat = self._seat(work.user)
        next_task = None if then is None or then.job != work.job else (then.round, then.shard)
        task = RunTask(work.job, work.round, work.shard, state, update, next_task)
        if not self._send(seat, task):
            return False
        work.trainer_pid = seat.pid
        return True

    def answered(self, peer: bytes) -> int:
        """A trainer has finished a task; gives its process, 0 if that is known to be gone."""
        for seat in self._seats.values():
            if seat.peer == peer:
                seat.busy = False
                return seat.pid
        return 0

    def drop(self, job: int) -> None:
        """A job that has ended need not be prepared, nor its app be kept."""
        for seat in self._seats.values():
            if job in seat.to_prepare:
                seat.to_prepare.remove(job)
            if seat.peer:
                self._hub.send(seat.peer, Forget(job))

    def gone(self, user: str, pid: int) -> int | None:
        """A trainer has ended; the job whose app it was building then."""
        seat = self._seat(user)
        if seat.pid != pid:
            return seat.lost.pop(pid, None)
        job, seat.preparing = seat.preparing, None
        seat.peer, seat.pid, seat.busy = b"", 0, False
        return job

    def _seat(self, user: str) -> Seat:
        return self._seats.setdefault(user, Seat())

    def _go_on(self, seat: Seat) -> None:
        if seat.peer and not seat.busy and seat.to_prepare:
            seat.preparing = seat.to_prepare.popleft()
            self._send(seat, Prepare(seat.preparing))

    def _send(self, seat: Seat, message: AnyMessage) -> bool:
        if not self._hub.send(seat.peer, message):
            return False
        seat.busy = True
        return True


def _unfinished(seat: Seat) -> bool:
    return bool(seat.to_prepare or seat.lost) or seat.preparing is not None or not seat.peer
