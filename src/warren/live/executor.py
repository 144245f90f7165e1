"""The supervisor of one device. It runs no user code: it queues, prefetches, times and pads.

Each turn of its loop takes what trainers, servers and the controller sent, then moves tasks
along as far as they go: queue -> COMP -> COMM -> reported.
"""

from __future__ import annotations

import time
from typing import Final

import zmq

from warren.live.desk import Desk
from warren.live.lanes import CommLane, Queue, Work
from warren.live.messages import (
    Assign,
    Commit,
    CompEnded,
    Drop,
    ExecutorReady,
    JobBroke,
    Prepared,
    Push,
    SyncEnded,
    TaskComputed,
    TaskRaised,
    TrainerGone,
    TrainerReady,
    Warm,
    Warmed,
)
from warren.live.processes import direct_output, set_name, sleep_until, wake_precisely
from warren.live.roles import ExecutorRole, Role
from warren.live.supply import Supply
from warren.live.transport import Hub, Link, controller_address, executor_address

LOOK_AHEAD: Final = 2
"""Tasks whose state is fetched before their turn."""
_MS: Final = 1_000_000


def main(role: Role, lifeline: int) -> None:
    """Serve one device until the zygote is gone."""
    assert isinstance(role, ExecutorRole)
    set_name(f"warren-exec-{role.device}")
    wake_precisely()
    direct_output(role.log)
    Executor(role, lifeline).serve()


class Executor:
    """Queue, lanes and connections of one device."""

    def __init__(self, role: ExecutorRole, lifeline: int) -> None:
        self._device, self._lifeline = role.device, lifeline
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._control = Link(context, controller_address(role.folder))
        self._trainers = Hub(context, executor_address(role.folder, role.device))
        self._poller = zmq.Poller()
        for source in (self._control.socket, self._trainers.socket, lifeline):
            self._poller.register(source, zmq.POLLIN)
        self._desk = Desk(self._trainers)
        self._supply = Supply(context, self._poller, role.folder)
        self._queue, self._comm = Queue(), CommLane()
        self._comp: Work | None = None
        self._comp_free_ns = 0
        self._last: Work | None = None

    def serve(self) -> None:
        """Turn until the zygote closes the lifeline."""
        self._control.send(ExecutorReady(self._device))
        while self._wait():
            self._hear_trainers()
            self._hear_servers()
            self._hear_controller()
            while self._end_comp() or self._end_syncs() or self._start():
                pass
            self._prefetch()

    def _wait(self) -> bool:
        """Until a message or the next time limit; False when the zygote is gone."""
        comp = self._comp.comp_due_ns if self._comp is not None else None
        limits = [due for due in (comp, self._comm.due_ns()) if due is not None]
        if not limits:
            return not self._ended(self._poller.poll())
        left_ms = max(0, min(limits) - time.monotonic_ns()) // _MS
        ready = self._poller.poll(left_ms)
        if not ready and min(limits) - time.monotonic_ns() < _MS:
            sleep_until(min(limits))
        return not self._ended(ready)

    def _ended(self, ready: list[tuple[object, int]]) -> bool:
        return any(source == self._lifeline for source, _ in ready)

    # What others send.

    def _hear_trainers(self) -> None:
        for peer, message, buffers in self._trainers.drain():
            match message:
                case TrainerReady(user=user, pid=pid):
                    self._desk.sat_down(peer, user, pid)
                case Prepared():
                    self._desk.prepared(peer)
                case TaskComputed():
                    self._desk.answered(peer)
                    self._computed(message, buffers)
                case TaskRaised(job=job, reason=reason):
                    self._desk.prepared(peer)
                    self._broke(job, reason)
                case _:
                    raise ValueError(f"a trainer does not send {message}")
        self._tell_warmed()

    def _computed(self, message: TaskComputed, buffers: list[memoryview]) -> None:
        work = self._comp
        assert work is not None
        if work.dropped:
            self._free_comp()
            return
        work.result_ns = time.monotonic_ns()
        push = Push(work.round, work.shard, message.loss, message.sha, work.unpadded)
        self._supply.send(work.job, push, *buffers)

    def _hear_servers(self) -> None:
        for job, pushed in self._supply.hear():
            work = self._comm.find((job, pushed.round), pushed.shard)
            comp = self._comp
            if work is None and comp is not None and comp.key == (job, pushed.round):
                work = comp if comp.shard == pushed.shard else None
            if work is not None:
                work.acknowledged_ns = time.monotonic_ns()

    def _hear_controller(self) -> None:
        for message, _ in self._control.drain():
            match message:
                case Assign():
                    self._queue.append(message)
                case Warm(user=user, jobs=jobs):
                    self._desk.warm(user, jobs)
                    self._tell_warmed()
                case Drop(job=job):
                    self._drop(job)
                case TrainerGone():
                    self._trainer_gone(message)
                case _:
                    raise ValueError(f"the controller does not send {message}")

    def _trainer_gone(self, gone: TrainerGone) -> None:
        job = self._desk.gone(gone.user, gone.pid)
        work = self._comp
        if work is not None and work.trainer_pid == gone.pid and not work.result_ns:
            job = work.job
            self._free_comp()
        if job is not None:
            self._broke(job, f"its trainer on device {self._device} ended: {gone.how}")
        self._tell_warmed()

    def _broke(self, job: int, reason: str) -> None:
        self._control.send(JobBroke(job, reason))
        if self._comp is not None and self._comp.job == job and not self._comp.result_ns:
            self._free_comp()
        self._drop(job)

    def _drop(self, job: int) -> None:
        self._queue.drop(job)
        self._desk.drop(job)
        self._comm.drop(job)
        self._supply.drop(job)
        work = self._comp
        if work is not None and work.job == job:
            work.dropped = True
            if work.result_ns:
                self._free_comp()

    def _free_comp(self) -> None:
        """The task on COMP is no more; the lane is free from now on."""
        self._comp, self._comp_free_ns = None, time.monotonic_ns()

    def _tell_warmed(self) -> None:
        for user in self._desk.warmed():
            self._control.send(Warmed(self._device, user))

    # What moves a task along; each gives True when something moved.

    def _end_comp(self) -> bool:
        work = self._comp
        end_ns = None if work is None else work.comp_due_ns
        if work is None or end_ns is None or time.monotonic_ns() < end_ns:
            return False
        self._comp, self._comp_free_ns = None, end_ns
        self._control.send(
            CompEnded(work.seq, work.round, work.shard, work.start_ns, end_ns, work.overrun)
        )
        self._comm.enter(work, end_ns)
        return True

    def _end_syncs(self) -> bool:
        ended = self._comm.leave(time.monotonic_ns())
        for work in ended:
            at_ns = work.sync_end_ns
            self._control.send(SyncEnded(work.seq, work.round, work.shard, at_ns))
            if not work.unpadded:
                self._supply.send(work.job, Commit(work.round, work.shard, at_ns))
        return bool(ended)

    def _start(self) -> bool:
        if self._comp is not None:
            return False
        head = next(iter(self._queue.ahead(1)), None)
        if head is None or not self._desk.free(head.user):
            return False
        ready = self._supply.ready(head.key)
        if ready is None or not self._desk.start(head, ready[0]):
            return False
        padded_ns = max(self._comp_free_ns, ready[1], head.decided_ns)
        head.start_ns = padded_ns if head.comp_pad_ns else time.monotonic_ns()
        self._comp = self._last = self._queue.pop()
        return True

    def _prefetch(self) -> None:
        ahead = [work.key for work in self._queue.ahead(LOOK_AHEAD)]
        self._supply.want(ahead, () if self._last is None else (self._last.key,))
