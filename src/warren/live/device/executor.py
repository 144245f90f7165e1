"""The supervisor and the process of one device. It runs no user code: it queues, times and pads.

Each turn of its loop takes the messages of trainers, servers and the controller. Then it moves
tasks along as far as they go: queue -> COMP -> COMM -> reported.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from warren.live import run_clock
from warren.live.device.pipeline import Pipeline
from warren.live.process.linux import (
    direct_output,
    end_as_killed,
    pin_to_core,
    set_name,
    sleep_until,
    wake_precisely,
)
from warren.live.process.specs import ExecutorRole, Role
from warren.live.transport.messages import (
    Assign,
    DeviceFree,
    Drop,
    Evicted,
    ExecutorReady,
    LostRace,
    Moved,
    Prepared,
    RehearseTask,
    Release,
    Staged,
    TaskComputed,
    TaskRaised,
    TrainerGone,
    TrainerReady,
    Verify,
)
from warren.live.transport.ring_messages import AssignRank, RankDone, RankGone, RankReady
from warren.live.transport.server_messages import FlowClass
from warren.live.transport.sockets import (
    Hub,
    Pollable,
    Poller,
    executor_address,
    link_to_controller,
)
from warren.model.units import NS_PER_MS

_BROKEN_NS: Final = 2_000_000_000
"""Longest time in ns for which a broken way to another host may go unexplained."""


class Executor:
    """The connections of one device; the pipeline that it owns handles their messages."""

    def __init__(self, role: ExecutorRole, lifeline: int) -> None:
        self._device = role.device
        self._life = role.incarnation
        self._lifeline = lifeline
        self._control = link_to_controller(role.folder, role.identity)
        self._trainers = Hub(executor_address(role.folder, role.device, role.incarnation))
        self._poller = Poller()
        for source in (self._control, self._trainers, lifeline):
            self._poller.register(source)
        self._pipeline = Pipeline(role, self._trainers, self._control, self._poller)
        self._client = self._pipeline.client
        # Since when a way to another host is broken; 0: none is.
        self._broken_ns = 0

    def serve(self) -> None:
        """Take messages and move tasks along until the zygote closes the lifeline."""
        self.listen()
        while (ready := self._wait()) is not None:
            self.turn(ready)

    def listen(self) -> None:
        """Tell the controller that this executor listens."""
        self._control.send(ExecutorReady(self._device, self._life))

    def turn(self, ready: AbstractSet[Pollable]) -> None:
        """Take the messages of the ``ready`` sources, and move tasks along."""
        pipeline = self._pipeline
        if self._trainers in ready:
            self._hear_trainers()
        for job, pushed in self._client.hear(ready):
            pipeline.acknowledged(job, pushed)
        if self._control in ready:
            self._hear_controller()
        # One step may allow another: a task that leaves COMP lets the next one start.
        while pipeline.end_comp() or pipeline.end_syncs() or pipeline.start():
            pass
        pipeline.let_build()
        pipeline.verifier.begin()
        # Servers and controller may wake up only now, when the next task has its trainer: with few
        # cores they take the core that it would wake up on.
        self._client.flush()
        pipeline.stage()
        pipeline.read_inputs()
        pipeline.prefetch()
        pipeline.watch()
        pipeline.report()
        self._look_at_links()

    def _look_at_links(self) -> None:
        """End this process if the way to another host has broken: its successor has new ways.

        The way to a server that has ended is broken, too, until the controller reports that end.
        """
        if not ((self._control.far and self._control.lost) or self._client.broken):
            self._broken_ns = 0
        elif not self._broken_ns:
            self._broken_ns = run_clock.now_ns()
        elif run_clock.now_ns() - self._broken_ns > _BROKEN_NS:
            end_as_killed()

    def _wait(self) -> AbstractSet[Pollable] | None:
        """Wait for a message or the next time limit; return the sources that can be read.

        None: the zygote is gone.
        """
        due = self._pipeline.due_ns()
        reports = self._pipeline.reports.due_ns
        now_ns = run_clock.now_ns()
        # Lanes: rounded down, and the last millisecond is slept to the microsecond below.
        waits_ms = [] if due is None else [max(0, due - now_ns) // NS_PER_MS]
        if self._broken_ns:
            waits_ms.append(_BROKEN_NS // NS_PER_MS)
        if reports is not None:  # not to the microsecond
            waits_ms.append(max(0, reports - now_ns) // NS_PER_MS + 1)
        ready = self._poller.poll(min(waits_ms, default=None))
        if not ready and due is not None and due - run_clock.now_ns() < NS_PER_MS:
            sleep_until(due)
        return None if self._lifeline in ready else ready

    def _hear_trainers(self) -> None:
        """Take the messages of trainers and ranks."""
        pipeline = self._pipeline
        slots = pipeline.slots
        verifier = pipeline.verifier
        for peer, message, _ in self._trainers.drain():
            match message:
                case TrainerReady(job=job, pid=pid, verifies=True):
                    verifier.sat_down(peer, job, pid)
                    pipeline.memory.came(~job)
                case TrainerReady(job=job, pid=pid):
                    slots.sat_down(peer, job, pid)
                    pipeline.memory.came(job)
                case Prepared() | TaskComputed() | TaskRaised() if verifier.owns(peer):
                    self._hear_verifier(peer, message)
                case Prepared(job=job):
                    pipeline.memory.prepared(job, message)
                    slots.prepared(job)
                case Evicted(job=job):
                    pipeline.memory.evicted(peer, job)
                case TaskComputed(job=job, unasked=True) if not pipeline.waits_for(message):
                    pipeline.early.keep(message, slots.pid_of(peer, job))
                case TaskComputed(job=job):
                    pipeline.computed(message, slots.answered(peer, job))
                case DeviceFree(job=job):
                    pipeline.freed(job)
                case Staged(job=job):
                    slots.has_staged(peer, job)
                case TaskRaised(job=job):
                    slots.answered(peer, job)
                    pipeline.raised(message)
                case RankReady():
                    pipeline.rank_came(peer, message)
                case RankDone():
                    pipeline.left(message)
                case _:
                    raise ValueError(f"a trainer does not send {message}")
        pipeline.tell_warmed()

    def _hear_verifier(self, peer: bytes, message: Prepared | TaskComputed | TaskRaised) -> None:
        """Take a message of a trainer that computes tasks again."""
        verifier = self._pipeline.verifier
        match message:
            case Prepared(job=job):
                self._pipeline.memory.prepared(~job, message)
                verifier.prepared(job)
            case TaskComputed(job=job, round=round_no, shard=shard):
                self._pipeline.memory.left(~job)  # it keeps nothing there
                verified = verifier.answered(peer, job, round_no, shard)
                if verified is not None:
                    self._pipeline.reports.add(verified)
            # The guard acts too: the verifier lets the job go whether its error counts or not.
            case TaskRaised(job=job) if verifier.raised(job):
                self._pipeline.raised(message)

    def _hear_controller(self) -> None:
        """Take the messages of the controller, in order."""
        pipeline = self._pipeline
        for message, _ in self._control.drain():
            match message:
                case Assign():
                    self._assign(message)
                case LostRace(seq=seq):
                    pipeline.beaten(seq)
                case RehearseTask(job=job):
                    pipeline.slots.warm(job)
                    pipeline.tell_warmed()
                case Verify(job=job):
                    pipeline.verifier.expect(job)
                case Release(job=job):
                    pipeline.slots.release(job)
                case Drop(job=job, ended=ended):
                    pipeline.drop(job, ended=ended)
                case Moved(job=job, generation=generation, homes=homes, round=round_no):
                    pipeline.move(job, generation, homes, round_no)
                case FlowClass(job=job, flow_class=flow_class):
                    self._client.classify(job, flow_class)
                    pipeline.ranks.classify(job, flow_class)
                case TrainerGone():
                    pipeline.trainer_gone(message)
                case AssignRank():
                    pipeline.ranks.muster(message)
                case RankGone():
                    pipeline.left(message)
                case _:
                    raise ValueError(f"the controller does not send {message}")

    def _assign(self, assign: Assign) -> None:
        """Put an assignment into the queue, and connect to its job's servers."""
        if not assign.ring:  # the ranks of a ring have no servers
            self._client.meet(assign.job, assign.generation, assign.homes)
        if assign.copy:
            self._pipeline.queue.put_first(assign)
        else:
            self._pipeline.queue.append(assign)


def main(role: Role, lifeline: int) -> None:
    """Serve one device until the zygote is gone."""
    assert isinstance(role, ExecutorRole)
    set_name(f"warren-exec-{role.device}")
    wake_precisely()
    pin_to_core(role.core)
    direct_output(role.log)
    Executor(role, lifeline).serve()
