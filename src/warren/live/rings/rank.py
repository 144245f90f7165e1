"""A rank's part of a round: its task, the mean over the ring, and the step that all ranks make.

Every rank holds the whole model and optimizer, and makes the same step from the same mean. Rank 0
evaluates and keeps the checkpoints. As in a device's lanes, an emulated rank keeps the times its
pads give: the next round begins when the slowest COMP and its T^s are over, or when the bytes have
really gone round, if that is later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch
from xxhash import xxh3_64_digest

from warren.live import run_clock
from warren.live.process.linux import sleep_until
from warren.live.process.specs import RankRole
from warren.live.process.time_limit import Alarm
from warren.live.rings.allreduce import Ring
from warren.live.rings.gradient_mean import RingMeans
from warren.live.rings.interfaces import interface_at
from warren.live.rings.meeting_store import MeetingStore
from warren.live.rings.round_summary import RoundSummary, exchanged
from warren.live.server.checkpoint_schedule import CheckpointSchedule
from warren.live.server.restored_copy import RestoredCopy
from warren.live.training import numerics
from warren.live.training.app.app_calls import build
from warren.live.training.app.app_contract import refuse
from warren.live.training.app.app_loader import build_app
from warren.live.training.data_order import start_workers
from warren.live.training.input_data.batch_workers import workers_of
from warren.live.training.memory.shared_memory import fresh
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_hashes import (
    HashLog,
    RoundOutcome,
    TaskResult,
    differs_filled,
    marks_path,
)
from warren.live.training.task_runner import MemoryOf, TaskRunner, in_main_memory
from warren.live.training.tensor_layout import flat_of
from warren.live.transport.message import TaskStamp
from warren.live.transport.server_messages import RoundReport
from warren.model.draws import FIRST, is_taken

_PATIENCE_NS: Final = 60_000_000_000
"""Real nanoseconds that a sum may take beyond the longest task of the other ranks."""


class RingRank:
    """One rank of a ring: model, optimizer, task runner, and its place in the ring.

    ``store``: how it meets ranks on other hosts; None: through a file.
    """

    def __init__(self, role: RankRole, store: MeetingStore | None = None) -> None:
        self._role = role
        self._job = role.job
        self._alarm = Alarm()
        self._build()
        layout = self.store.layout
        path = marks_path(role.store, role.rank, role.job.scale)
        self._marks = HashLog(path, len(layout.entries))
        self._marks.load()
        self.store.known.expected = self._marks.expected
        self._forgotten = 0
        # How long after the last barrier the next round begins.
        self.delay_ns = 0
        # Without a share of tasks to compute again the first ones are not either.
        self._verified = 0 if role.verify else FIRST
        self._means = RingMeans(layout, role.job)
        self._update = fresh(layout.total_bytes)
        # Between two sums another rank may compute two tasks: one again, and the next round's.
        pads_ns = sum(role.pads.constant(role.job.index))
        limit_ns = 2 * (role.job.task_limit_ns + pads_ns) + _PATIENCE_NS
        self._ring = Ring(
            role.rank,
            role.job.scale,
            role.meeting,
            role.interface or interface_at(role.identity.address),
            limit_s=limit_ns / 1e9,
            secret=role.secret,
            store=store,
        )

    def _build(self) -> None:
        """Build the app, and go to the checkpoint that the gang begins with."""
        role, job = self._role, self._job
        memory_of, turn = _place_of(role)
        with self._alarm.within(job.task_limit_ns):
            # Steps are made in main memory, as the plain loop of a ring makes them.
            steps = build_app(job, role.base)
            app = steps if role.gpu is None else build_app(job, role.base, copy=True)
            built = build(app, job)
            # Before the device is used: a process that uses CUDA cannot be forked.
            self._workers = start_workers(built, job, workers_of(job, role.gpu))
        # To wait for memory is not the app's doing: its time does not run yet.
        with turn(), self._alarm.within(job.task_limit_ns):
            numerics.pin()  # the app's modules may have changed any setting
            self._runner = TaskRunner(
                app, job, memory_of, built=built, workers=self._workers, shared=role.tmp
            )
            self.store = ParameterStore(steps, job, runner=self._runner)
            self.schedule = CheckpointSchedule(self.store, job, role.store, role.round, 0, 1)
            self._copy = RestoredCopy(self.store, job, role.base)
            if role.rehearse:
                self._runner.warm()
            if role.rehearse and role.rank == 0:  # only rank 0 evaluates
                self.store.warm()
            self.settled = self._runner.settle()
            """Device memory: bytes it had, bytes free then, and whether it has kept its own."""

    def evict(self) -> None:
        """Give the memory of the device back until the next task."""
        self._runner.evict()

    def round(self, begin_ns: int, delay: Callable[[], int]) -> RoundReport:
        """Make the next round, which begins at ``begin_ns``; return the report of it.

        ``delay`` is asked before the barrier how long the round behind it is put off; rank 0's
        answer counts on all ranks, and is left in ``delay_ns``.

        Raises
        ------
        RingBroken
            Another rank is lost.
        SpecError
            The app breaks its contract, or gave something else when the task ran before.
        """
        role, round_no = self._role, self.store.version
        comp_ns, sync_ns = role.pads.pads(role.job.index, round_no, role.rank)
        sleep_until(begin_ns)
        # Emulated, a round starts when it may; else when this process has really woken up.
        start_ns = begin_ns if comp_ns else run_clock.now_ns()
        result = self._task(round_no)
        ready_ns = run_clock.now_ns()
        comp_end_ns = max(ready_ns, start_ns + comp_ns)
        sleep_until(comp_end_ns)
        self._means.over(self._ring, self._update)
        own = RoundSummary(
            loss=result.loss,
            start_ns=start_ns,
            comp_end_ns=comp_end_ns,
            end_ns=run_clock.now_ns(),
            sync_ns=sync_ns,
            overran=0 < comp_ns < ready_ns - start_ns,
            saved=self.schedule.previous,
            delay_ns=delay(),
            present=result.present,
        )
        summaries = exchanged(self._ring, own)
        # The counts are equal on all ranks, so all compute a task again in the same rounds, and
        # none waits in the ring for a rank that does not. On another kind of device the task may
        # have other bits, which a mixed job allows.
        taken = is_taken(role.job.index, round_no, 0, self._verified, role.verify)
        if taken and role.job.numerics == "strict":
            self._verify(round_no, result.marks)
        outcome = self._step(summaries, result.marks)
        self._forget_marks(summaries[0].saved)
        self.delay_ns = summaries[0].delay_ns
        at_ns = max(summary.end_ns for summary in summaries)
        if comp_ns:
            # The barrier: slowest COMP + longest T^s, or when the bytes have gone round.
            padded_ns = max(n.comp_end_ns for n in summaries) + max(n.sync_ns for n in summaries)
            at_ns = max(at_ns, padded_ns)
        else:
            at_ns = max(at_ns, run_clock.now_ns())
        if self.delay_ns:
            # The delay counts from one barrier on all ranks: that of rank 0, which is reported.
            barrier = torch.tensor([at_ns])
            self._ring.share(barrier)
            at_ns = int(barrier.item())
        return self._report(summaries, outcome, at_ns)

    def save_if_due(self) -> None:
        """Save the state between rounds, on rank 0, as often as the job says."""
        if self.store.finished:
            return
        if self.schedule.due(self.store.version):
            self.schedule.save(self.store.version)
        self._copy.after_round()

    def save(self, round_no: int) -> None:
        """Put the state that a round begins with on disk, on rank 0, unless it is there."""
        if self.schedule.last != round_no:
            self.schedule.save(round_no)

    def _task(self, round_no: int) -> TaskResult:
        """Compute this rank's task of a round into ``_update``, and compare its hashes."""
        (state,), update = self.store.state(), self._update.numpy().data
        rank = self._role.rank
        with self._alarm.within(self._job.task_limit_ns):
            result = self._runner.run(state, round_no, rank, update)
        numerics.pin()
        # If the task has run before a loss, it has to give the same bits again.
        self.store.known.check(round_no, rank, result.marks)
        self._marks.append(round_no, rank, result.marks)
        return result

    def _verify(self, round_no: int, marks: bytes) -> None:
        """Compute the task of the rank before this one again, which has computed one less."""
        # It was the other process's first task of the round and is the second one here. This
        # reveals values that an app keeps between its tasks (decision 0029).
        (state,), other = self.store.state(), (self._role.rank - 1) % self._job.scale
        self._check_same(xxh3_64_digest(state))
        known = bytes(self._ring.gather(flat_of(marks).clone())[other].numpy())
        with self._alarm.within(self._job.task_limit_ns), numerics.filled():
            again = self._runner.run(state, round_no, other)
        numerics.pin()
        if again.marks != known:
            message = differs_filled(self.store.layout, round_no, other, known, again.marks)
            raise refuse(self._job, "", message)
        self._verified += 1

    def _step(self, summaries: list[RoundSummary], marks: bytes) -> RoundOutcome:
        """Step by the mean, as every rank does; return the outcome of the round.

        Rank 0 also evaluates, and tells the others whether the job is finished.
        """
        store = self.store
        # A parameter has a gradient if it has one on any rank; servers take it so too.
        loss = sum(summary.loss for summary in summaries) / len(summaries)
        present = bytes(map(max, zip(*(summary.present for summary in summaries), strict=True)))
        mean = TaskResult(
            loss=loss, present=present, marks=marks, update=(self._update.numpy().data,)
        )
        with self._alarm.within(self._job.task_limit_ns):
            # The store sees one task whose update is the mean.
            store.add(0, mean)
            store.step()
            store.forget_previous()
            if self._role.rank == 0:
                outcome = store.conclude()
        numerics.pin()  # an optimizer may have changed any setting, on any rank
        done = store.version
        over = torch.tensor([done == self._job.rounds], dtype=torch.uint8)
        if self._role.rank == 0:
            over[0] = outcome.finished
        # Only an evaluation can end a job early: in other rounds every rank knows by itself.
        if self._job.evaluates_after(done):
            self._ring.share(over)
        if self._role.rank:
            store.follow(finished=bool(over[0]))
            outcome = RoundOutcome(round=done - 1, loss=loss, metrics=None, finished=store.finished)
        return outcome

    def _forget_marks(self, saved: int) -> None:
        """Forget the hashes of tasks before a round, the oldest that the job may go back to."""
        if saved > self._forgotten:
            self._marks.forget_before(saved)
            self._forgotten = saved

    def _report(
        self, summaries: list[RoundSummary], outcome: RoundOutcome, at_ns: int
    ) -> RoundReport:
        """Return the report of a round; at the job's end also save its parameters."""
        role, sha256 = self._role, ""
        if outcome.finished:
            sha256 = self.store.digest()
            self._check_same(bytes.fromhex(sha256))
            if role.rank == 0:
                self.store.write_params(role.params)
        stamps = [
            TaskStamp(rank, summary.start_ns, summary.comp_end_ns, max(summary.end_ns, at_ns))
            for rank, summary in enumerate(summaries)
        ]
        return RoundReport(
            job=role.job.index,
            generation=role.generation,
            round=outcome.round,
            loss=outcome.loss,
            metrics=None if outcome.metrics is None else dict(outcome.metrics),
            finished=outcome.finished,
            at_ns=at_ns,
            stamps=tuple(stamps),
            saved=self.schedule.last,
            sha256=sha256,
            overruns=sum(summary.overran for summary in summaries),
        )

    def _check_same(self, digest: bytes) -> None:
        """Refuse the app if not all ranks have parameters of this hash.

        An optimizer might have drawn random numbers from a generator that Warren does not set.
        """
        own = flat_of(digest).clone()
        for rank, other in enumerate(self._ring.gather(own)):
            if not torch.equal(own, other):
                message = f"is not deterministic: rank {rank} of its ring has other parameters"
                raise refuse(self._job, "optimizer()", message)


def _place_of(role: RankRole) -> tuple[MemoryOf, Callable[[], AbstractContextManager[object]]]:
    """Return the function that brings a model to the device of tasks, and the context for it."""
    if role.gpu is None:
        return in_main_memory, nullcontext
    # Its code is loaded only where it is used.
    from warren.live.gpu.trainer_device import trainer_device

    device = trainer_device(role.gpu, role.folder)
    return device.memory_of, device.turn
