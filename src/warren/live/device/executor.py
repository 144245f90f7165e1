"""The supervisor of one device and its process. It runs no user code: it queues, times and pads.

Each turn of its loop takes what trainers, servers and the controller sent, then moves tasks
along as far as they go: queue -> COMP -> COMM -> reported.
"""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet
from typing import Final

from warren.live.device.pipeline import Pipeline
from warren.live.process.linux import (
    direct_output,
    pin_to_core,
    set_name,
    sleep_until,
    wake_precisely,
)
from warren.live.process.specs import ExecutorRole, Role
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    Assign,
    Drop,
    ExecutorReady,
    JobBroke,
    LeftComp,
    LostRace,
    Moved,
    Prepared,
    RehearseTask,
    Release,
    TaskComputed,
    TaskLost,
    TaskRaised,
    TaskRehearsed,
    TrainerGone,
    TrainerReady,
    Verify,
)
from warren.live.transport.ring_messages import AssignRank, RankDone, RankGone, RankReady
from warren.live.transport.server_messages import Push
from warren.live.transport.sockets import (
    Hub,
    Link,
    Pollable,
    Poller,
    controller_address,
    executor_address,
)

_MS: Final = 1_000_000


class Executor(Pipeline):
    """Queue, lanes and connections of one device."""

    def __init__(self, role: ExecutorRole, lifeline: int) -> None:
        self._life, self._lifeline = role.incarnation, lifeline
        self._control = Link(controller_address(role.folder))
        self._trainers = Hub(executor_address(role.folder, role.device, role.incarnation))
        self._poller = Poller()
        for source in (self._control, self._trainers, lifeline):
            self._poller.register(source)
        super().__init__(role, self._trainers, self._control, self._poller)

    def serve(self) -> None:
        """Turn until the zygote closes the lifeline."""
        self._control.send(ExecutorReady(self._device, self._life))
        while (ready := self._wait()) is not None:
            if self._trainers in ready:
                self._hear_trainers()
            self._hear_servers(ready)
            if self._control in ready:
                self._hear_controller()
            while self._end_comp() or self._end_syncs() or self._start():
                pass
            self._client.flush()
            self._prefetch()
            self._watch()
            self._reports.tell(self._comp, self._queue.ahead(1))

    def _wait(self) -> AbstractSet[Pollable] | None:
        """Until a message or the next time limit: who can be heard; None: the zygote is gone."""
        due, reports, now_ns = self._due_ns(), self._reports.due_ns, time.monotonic_ns()
        waits_ms = [] if due is None else [max(0, due - now_ns) // _MS]
        if reports is not None:  # not to the microsecond
            waits_ms.append(max(0, reports - now_ns) // _MS + 1)
        ready = self._poller.poll(min(waits_ms, default=None))
        if not ready and due is not None and due - time.monotonic_ns() < _MS:
            sleep_until(due)
        return None if self._lifeline in ready else ready

    # What others send.

    def _hear_trainers(self) -> None:
        for peer, message, _ in self._trainers.drain():
            match message:
                case TrainerReady(job=job, pid=pid, verifies=True):
                    self._verifier.sat_down(peer, job, pid)
                case TrainerReady(job=job, pid=pid):
                    self._slots.sat_down(peer, job, pid)
                case Prepared() | TaskComputed() | TaskRaised() if self._verifier.owns(peer):
                    self._hear_verifier(peer, message)
                case Prepared(job=job):
                    self._slots.prepared(job)
                case TaskComputed(job=job):
                    self._computed(message, self._slots.answered(peer, job))
                case TaskRaised(job=job, reason=reason):
                    self._slots.prepared(job)
                    self._broke(job, reason)
                case RankReady():
                    self._ranks.sat_down(peer, message)
                case RankDone():
                    self._left(message)
                case _:
                    raise ValueError(f"a trainer does not send {message}")
        self._tell_warmed()

    def _hear_verifier(self, peer: bytes, message: Prepared | TaskComputed | TaskRaised) -> None:
        match message:
            case Prepared(job=job):
                self._verifier.prepared(job)
            case TaskComputed(job=job, round=round_no, shard=shard):
                verified = self._verifier.answered(peer, job, round_no, shard)
                if verified is not None:
                    self._reports.add(verified)
            case TaskRaised(job=job, reason=reason) if self._verifier.raised(job):
                self._broke(job, reason)

    def _computed(self, done: TaskComputed, pid: int) -> None:
        work = self._comp
        if work is None or work.trainer_pid != pid:
            return  # the news of its trainer's end came first: the task runs again
        if work.dropped:
            self._free_comp()
            return
        work.result_ns = time.monotonic_ns()
        if work.beaten:
            self._client.take_back(work.job, work.slot)
            work.slot = -1
            return
        stamp = TaskStamp(work.shard, work.start_ns, work.result_ns, 0, self._device)
        result = done.loss, done.present, done.marks
        push = Push(done.round, done.shard, *result, work.unpadded, stamp)
        work.unacknowledged = self._client.push(work.job, push, work.slot)
        self._verifier.offer(work, self._slots.tasks(work.job) - 1, done.marks)
        ahead = [head for head in self._queue.ahead(1) if not head.ring]
        if not any(self._client.ready(head.key) for head in ahead):
            self._client.flush()  # nothing can start before it

    def _hear_servers(self, ready: AbstractSet[Pollable]) -> None:
        for job, pushed in self._client.hear(ready):
            key, comp = (job, pushed.round), self._comp
            work = self._comm.find(key, pushed.shard)
            if work is None and comp is not None and (comp.key, comp.shard) == (key, pushed.shard):
                work = comp
            if work is None:
                continue
            work.unacknowledged -= 1
            if not work.unacknowledged:
                work.acknowledged_ns = time.monotonic_ns()
                self._client.take_back(job, work.slot)

    def _hear_controller(self) -> None:
        for message, _ in self._control.drain():
            match message:
                case Assign():
                    if not message.ring:
                        self._client.meet(message.job, message.generation, message.parts)
                    if message.copy:
                        self._queue.put_first(message)
                    else:
                        self._queue.append(message)
                case LostRace(seq=seq):
                    self._beaten(seq)
                case RehearseTask(job=job):
                    self._slots.warm(job)
                    self._tell_warmed()
                case Verify(job=job):
                    self._verifier.expect(job)
                case Release(job=job):
                    self._slots.release(job)
                case Drop(job=job, ended=ended):
                    self._drop(job, ended=ended)
                case Moved(job=job, generation=generation, parts=parts):
                    self._verifier.rolled_back(job)
                    self._client.move(job, generation, parts)
                case TrainerGone():
                    self._trainer_gone(message)
                case AssignRank():
                    self._ranks.muster(message)
                case RankGone():
                    self._left(message)
                case _:
                    raise ValueError(f"the controller does not send {message}")

    def _trainer_gone(self, gone: TrainerGone) -> None:
        if gone.verifies:
            self._verifier.gone(gone.job, gone.pid)
            return
        work, doing = self._comp, self._slots.gone(gone.job, gone.pid)
        if doing is not None:
            self._reports.add(TaskLost(self._device, gone.job, doing, -1, gone.how))
        if work is not None and work.trainer_pid == gone.pid and not work.result_ns:
            self._free_comp()
            self._client.take_back(work.job, work.slot)
            if work.beaten:
                self._tell_ended(work, time.monotonic_ns())
            elif not work.dropped:
                what = work.job, work.round, work.shard, gone.how
                self._reports.add(TaskLost(self._device, *what))
                self._queue.put_back(work.again())
        self._tell_warmed()

    def _left(self, reports: RankDone | RankGone) -> None:
        """A rank does not use the device any more; one that is lost has another to follow it."""
        work = self._comp
        if (
            work is None
            or not work.ring
            or (work.job, work.incarnation) != (reports.job, reports.incarnation)
        ):
            return
        self._free_comp()
        if isinstance(reports, RankDone):
            self._comp_free_ns = reports.at_ns
        elif reports.passed >= work.round + work.rounds:
            self._comp_free_ns = time.monotonic_ns()
        elif not work.dropped:
            self._queue.put_back(work.again())

    def _broke(self, job: int, reason: str) -> None:
        work = self._comp
        if work is not None and work.job == job and not work.result_ns:
            self._free_comp()
            if work.beaten or work.dropped:  # nobody wants its result, nor its error
                self._client.take_back(job, work.slot)
                self._tell_ended(work, time.monotonic_ns())
                return
        self._reports.add(JobBroke(job, reason))
        self._drop(job, ended=True)

    def _beaten(self, seq: int) -> None:
        """A task was done elsewhere: it need not begin, nor count."""
        work = self._comp
        if work is not None and work.seq == seq:
            work.beaten = True
            return
        self._queue.remove(seq)
        self._comm.beaten(seq)
        self._reports.add(LeftComp(seq))

    def _drop(self, job: int, *, ended: bool) -> None:
        self._queue.drop(job)
        self._ranks.drop(job)
        self._verifier.rolled_back(job)
        if ended:
            self._slots.drop(job)
            self._verifier.drop(job)
        self._comm.drop(job)
        self._client.drop(job, ended=ended)
        work = self._comp
        if work is not None and work.job == job and work.beaten and ended:
            work.slot = -1  # its COMP goes on to the end, as if nothing had ended
        elif work is not None and work.job == job:
            work.dropped = True
            if work.result_ns:
                self._free_comp()

    def _tell_warmed(self) -> None:
        for job in self._slots.warmed():
            self._reports.add(TaskRehearsed(self._device, job))


def main(role: Role, lifeline: int) -> None:
    """Serve one device until the zygote is gone."""
    assert isinstance(role, ExecutorRole)
    set_name(f"warren-exec-{role.device}")
    wake_precisely()
    pin_to_core(role.core)
    direct_output(role.log)
    Executor(role, lifeline).serve()
