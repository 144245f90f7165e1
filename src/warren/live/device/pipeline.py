"""The pipeline that moves a device's tasks along: queue -> COMP -> COMM -> reported.

It reads no sockets. The executor that owns it passes the messages on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from warren.live import run_clock
from warren.live.device.admission import DeviceAdmission
from warren.live.device.early_results import MOST_UNASKED, EarlyResults, unasked
from warren.live.device.lanes import CommLane, CompLane, LaneTask
from warren.live.device.parameter_client import UPDATES, ParameterClient
from warren.live.device.rank_slots import RankSlots
from warren.live.device.report_buffer import ReportBuffer, settled
from warren.live.device.trainer_slots import TrainerSlots
from warren.live.device.verification import Verifier
from warren.live.process.linux import SHORT_OF_MEMORY
from warren.live.process.specs import ExecutorRole
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import (
    JobBroke,
    LeftComp,
    TaskComputed,
    TaskLost,
    TaskRaised,
    TaskRehearsed,
    TaskStuck,
    TrainerGone,
)
from warren.live.transport.ring_messages import RankDone, RankGone, RankReady
from warren.live.transport.server_messages import Commit, Push, Pushed
from warren.live.transport.sockets import Hub, Link, Poller

_BEGUN: Final = 8
"""Most tasks begun at once: one computes, and results of the others are on their way."""


class Pipeline:
    """Queue and lanes of one device, and the processes that compute for it.

    Parameters
    ----------
    role
        The device, its pads and how far it looks ahead.
    trainers
        Where trainers and ranks of rings connect.
    control
        The link to the controller, for reports.
    poller
        Gets the links to servers as jobs come and go.
    """

    def __init__(self, role: ExecutorRole, trainers: Hub, control: Link, poller: Poller) -> None:
        self._device = role.device
        # The head itself, and the tasks whose states are fetched before their turn.
        self._ahead = 1 + role.look_ahead
        # Trainers on the CPU read a state where it lies.
        self._stages = role.gpu is not None
        self._spills = role.spill
        self.slots = TrainerSlots(trainers)
        self.ranks = RankSlots(trainers)
        self.verifier = Verifier(trainers, role.verify, self._admit_again)
        told = role.gpu is not None
        self.memory = DeviceAdmission(self.slots, self.ranks, self.verifier, told=told)
        self.client = ParameterClient(poller, role.folder, role.device, role.identity)
        self.queue = CompLane(role.pads)
        self.reports = ReportBuffer(control)
        self.early = EarlyResults()
        self._comm = CommLane()
        # Tasks that have begun and not left COMP, in their order. The last one computes, unless the
        # device is free already; of those before it only the results are still to come.
        self._begun: deque[LaneTask] = deque()
        self._comp_free_ns = 0

    def due_ns(self) -> int | None:
        """Return when there will be something to do even if no message comes; None: never."""
        dues = [self._comm.due_ns()]
        for at, work in enumerate(self._begun):
            # A result waits for those of tasks that began before it.
            dues.append(work.due_ns if at == 0 or not work.result_ns else None)
        return min((due for due in dues if due is not None), default=None)

    # The turn: each of the three steps gives True when something moved.

    def end_comp(self) -> bool:
        """Move the first task on COMP to COMM if its time there is over; tell whether it moved."""
        work = self._begun[0] if self._begun else None
        end_ns = None if work is None else work.comp_due_ns
        if work is None or end_ns is None or run_clock.now_ns() < end_ns:
            return False
        # The lane is free since the pad's end, not since this process woke up: else every wake-up
        # would add its delay to all that follows (decision 0008).
        self._begun.popleft()
        self._comp_free_ns = end_ns
        self.reports.add_ended(work, end_ns)
        if work.held is not None and work.beaten:
            self._free_slot(work)
        elif work.held is not None:
            self._push(work, work.held)
        if not work.beaten or work.slot >= 0:  # the pushed update will be acknowledged
            self._comm.enter(work, end_ns)
        return True

    def end_syncs(self) -> bool:
        """Commit the tasks whose synchronization has ended; tell whether there was one."""
        ended = self._comm.leave(run_clock.now_ns())
        for work in ended:
            # The push of an unpadded task was its commit. A task that another device finished has
            # been committed there.
            if not work.unpadded and not work.beaten:
                assert work.comp_due_ns is not None
                stamp = TaskStamp(
                    shard=work.shard,
                    start_ns=work.start_ns,
                    comp_end_ns=work.comp_due_ns,
                    end_ns=work.sync_end_ns,
                    device=self._device,
                )
                self.client.send(work.job, Commit(work.round, stamp))
        return bool(ended)

    def start(self) -> bool:
        """Give the head of the queue to its trainer or rank; tell whether the head has left.

        The head waits until COMP is free, its trainer is here, its state is readable, its barrier
        has passed, and there is a place for its update.
        """
        # A task computed again occupies the device as a task computed first does.
        if self._comp is not None or len(self._begun) == _BEGUN or self.verifier.busy:
            return False
        head, then, *_ = [*self.queue.ahead(2), None, None]
        if head is not None and head.ring:
            return self._start_rank(head)
        if head is not None and self.early.has(head):
            return self._take_early(head)
        if head is None or not self.slots.free(head.job):
            return False
        state = self.client.ready(head.key)
        if state is None:
            return False
        # Either its round is over, or an executor that was lost had run it: nothing to compute.
        ran = state.done_before(head.shard)
        if state.over or ran is not None:
            self.queue.pop()
            if ran is not None and ran.device in (-1, self._device):  # it may not have said so
                head.start_ns = ran.start_ns
                self.reports.add_ended(head, ran.comp_end_ns)
            return True
        slot = self.client.lend(head.job)
        if slot is None:
            return False
        if not self._admit(head.job, head.job):
            self.client.take_back(head.job, slot)
            return False
        head.slot = slot
        head.state, update = self.client.spots(head.job, state, slot)
        ahead = self._unasked(head)
        if not self.slots.start(head, head.state, update, then, ahead=ahead):
            self.client.take_back(head.job, slot)
            return False
        head.began_ns = run_clock.now_ns()
        # An emulated task starts when lane, barrier and decision allowed it, however late its
        # trainer really got it; without a pad only the real time counts.
        assert state.passed_ns is not None, "the client calls a state ready after its barrier only"
        padded_ns = max(self._comp_free_ns, state.passed_ns, head.decided_ns)
        if head.on_links:
            padded_ns = max(padded_ns, state.here_ns)
        head.start_ns = padded_ns if head.comp_pad_ns else head.began_ns
        self._begun.append(self.queue.pop())
        return True

    def _take_early(self, head: LaneTask) -> bool:
        """Let the head of the queue be done by a result that is here; tell whether it was."""
        slot = self.client.lend(head.job)
        if slot is None:
            return False
        done, pid = self.early.take(head)
        head.slot, head.trainer_pid = slot, pid
        head.began_ns = head.start_ns = run_clock.now_ns()
        self.slots.go_ahead(head.job, self._unasked(head))
        self._begun.append(self.queue.pop())
        self.computed(done, pid)
        return True

    def _unasked(self, head: LaneTask) -> int:
        """Return how many tasks after the head its trainer may compute before it is asked."""
        return unasked(head, self.queue.ahead(1 + MOST_UNASKED)[1:])

    def _start_rank(self, head: LaneTask) -> bool:
        """Give the device to the rank at the head of the queue; tell whether the head has left."""
        if not (self.ranks.ready(head) and self._admit(head.job, head.job)):
            return False
        if not self.ranks.begin(head, self._comp_free_ns):
            return False
        head.began_ns = run_clock.now_ns()
        self._begun.append(self.queue.pop())
        return True

    def stage(self) -> None:
        """Let trainers of coming tasks bring their states to the device while another computes.

        Hare's speculative memory management (section 4.3), as far as the queue shows the coming
        tasks. It covers the state of each job's next task, if that is here and the job's trainer is
        idle.
        """
        # A trainer that brings out its last result may take a state meanwhile.
        met = {work.job for work in self._begun if not work.freed_ns}
        for work in self.queue.ahead(self._ahead) if self._stages else ():
            state = None if work.ring or work.job in met else self.client.ready(work.key)
            met.add(work.job)
            if state is None or state.over or state.done_before(work.shard) is not None:
                continue
            if self.slots.free(work.job) and self._admit(work.job, work.job, list(met)):
                self.slots.stage(work, self.client.spots(work.job, state, UPDATES[0])[0])

    def _admit(self, key: int, job: int, before: Sequence[int] = ()) -> bool:
        """Tell whether a job's state may be brought to the device; evict others if need be.

        No job leaves whose task computes, is still brought out, or comes ``before``.
        """
        coming = [work.job for work in self.queue.ahead(self._ahead)]
        busy = {work.job for work in self._begun} | set(before) | {job}
        return self.memory.admit(key, coming, busy)

    def let_build(self) -> None:
        """Let trainers that wait to build their apps do so, as far as they may."""
        self.memory.let_build(at_work=bool(self._begun) or self.verifier.busy)

    def _admit_again(self, job: int) -> bool:
        """Tell whether a task of a job may be computed again now; its first trainer may leave."""
        return self._admit(~job, -1)

    def read_inputs(self) -> None:
        """Let trainers of coming tasks read their data from disk while another computes."""
        for work in self.queue.ahead(self._ahead) if self._spills else ():
            if not work.ring:
                self.slots.read_ahead(work)

    def prefetch(self) -> None:
        """Ask servers for the states of the next tasks, and let go of those not needed."""
        comp = None if self._comp is None or self._comp.ring else self._comp
        begun = [work.key for work in self._begun if not work.ring]
        ahead = [work for work in self.queue.ahead(self._ahead) if not work.ring]
        # States of the same job are here already, or wait for the task that computes: to ask for
        # them can wait until that task has the core that it needs.
        if comp is None or not all(work.job == comp.job for work in ahead) or settled(comp):
            keys = {key for key in (*begun, self.verifier.key) if key} | self.slots.staging()
            self.client.want([work.key for work in ahead], keys)

    def watch(self) -> None:
        """Report a trainer that did not end itself at its limit, so that it is ended."""
        for work in self._begun:
            if work.result_ns or work.ring or run_clock.now_ns() < work.late_ns:
                continue
            work.limit_ns *= 2  # say it again should the report get lost
            reason = f"task {work.shard} of round {work.round} does not end at its limit"
            self.reports.add(TaskStuck(self._device, work.job, reason))

    def report(self) -> None:
        """Send the controller the reports that may be sent now."""
        self.reports.tell(self._comp, self.queue.ahead(1))

    def tell_warmed(self) -> None:
        """Report the jobs whose trainers have just become ready."""
        for job in self.slots.warmed():
            self.reports.add(TaskRehearsed(self._device, job))

    @property
    def _comp(self) -> LaneTask | None:
        """The task that computes, or has its pad on COMP; None: the device is free."""
        return self._begun[-1] if self._begun and not self._begun[-1].freed_ns else None

    def _of(self, job: int) -> list[LaneTask]:
        """Return the tasks of a job that have begun and not left COMP, in their order.

        There are two at most: one computes while the result of the task before it is brought out.
        """
        return [work for work in self._begun if work.job == job]

    def _waited_for(self, job: int, round_no: int, shard: int) -> LaneTask | None:
        """Return the first task of a job that has begun, is this one, and has no result."""
        # A job that was rolled back may have begun the same task twice; results keep the order.
        mine = (work for work in self._of(job) if (work.round, work.shard) == (round_no, shard))
        return next((work for work in mine if not work.result_ns), None)

    def _take_off(self, work: LaneTask) -> None:
        """Take a task off COMP; if it computed, the lane is free from now on."""
        if work is self._comp:
            self._comp_free_ns = run_clock.now_ns()
        self._begun = deque(one for one in self._begun if one is not work)

    # Messages.

    def freed(self, job: int) -> None:
        """Note that a job's trainer needs the device no more for its task; its result will come.

        Another task may begin. Only where times are real: a pad keeps the device to its end.
        """
        work = self._comp
        if work is not None and work.job == job and work.unpadded and not work.on_links:
            work.freed_ns = run_clock.now_ns()
            self.slots.freed(job)

    def waits_for(self, done: TaskComputed) -> bool:
        """Tell whether a task has begun here that has no result yet, and this is its result."""
        return self._waited_for(done.job, done.round, done.shard) is not None

    def computed(self, done: TaskComputed, pid: int) -> None:
        """Push the result of a task on COMP, which the trainer ``pid`` has computed."""
        work = self._waited_for(done.job, done.round, done.shard)
        if work is None or work.trainer_pid != pid:
            return  # its trainer's end was heard of first: the task runs again
        if work.dropped:
            self._take_off(work)
            return
        work.result_ns = done.ended_ns or run_clock.now_ns()
        if done.began_ns:
            # When the device began it, which may be before it was asked for.
            work.start_ns = max(self._comp_free_ns, done.began_ns)
        if work.beaten:
            # Another device's result counts; this one's place is free for the next update.
            self._free_slot(work)
            return
        ended_ns = work.freed_ns or work.result_ns
        stamp = TaskStamp(work.shard, work.start_ns, ended_ns, 0, self._device, done.data_ns)
        push = Push(
            round=done.round,
            shard=done.shard,
            loss=done.loss,
            present=done.present,
            marks=done.marks,
            committed=work.unpadded,
            stamp=stamp,
        )
        if work.on_links:
            work.held = push
        else:
            self._push(work, push)
        self.verifier.offer(work, work.before, done.marks)
        ahead = [head for head in self.queue.ahead(1) if not head.ring]
        if not any(self.client.ready(head.key) for head in ahead):
            self.client.flush()  # nothing can start before it

    def _push(self, work: LaneTask, push: Push) -> None:
        """Hand a task's update over to be sent."""
        work.unacknowledged = self.client.push(work.job, push, work.slot)

    def _free_slot(self, work: LaneTask) -> None:
        """Take back the place of an update that is no longer needed."""
        self.client.take_back(work.job, work.slot)
        work.slot = -1

    def acknowledged(self, job: int, pushed: Pushed) -> None:
        """Note that one server has an update; after the last server its place is free again."""
        work = self._comm.find((job, pushed.round), pushed.shard)
        # Servers are often faster than a pad: the task may still be on COMP.
        for comp in self._of(job) if work is None else ():
            if (comp.round, comp.shard) == (pushed.round, pushed.shard):
                work = comp
        if work is None:
            return
        work.unacknowledged -= 1
        if not work.unacknowledged:
            work.acknowledged_ns = run_clock.now_ns()
            self.client.take_back(job, work.slot)

    def trainer_gone(self, gone: TrainerGone) -> None:
        """Put the task of a trainer that has ended back at the head of the queue, and report it."""
        short = gone.how == SHORT_OF_MEMORY
        if gone.verifies:
            late = not self.verifier.is_here(gone.job, gone.pid)
            self.memory.gone(~gone.job, short=short, late=late)
            self.verifier.gone(gone.job, gone.pid)
            return
        late = not self.slots.is_here(gone.job, gone.pid)
        self.memory.gone(gone.job, short=short, late=late)
        self.early.forget(gone.job)
        doing = self.slots.gone(gone.job, gone.pid)
        if doing is not None:
            self.reports.add(TaskLost(self._device, gone.job, doing, -1, gone.how))
        # A result that is here outlives its trainer: the update lies in memory that is shared.
        lost = [one for one in self._of(gone.job) if one.trainer_pid == gone.pid]
        for work in reversed([one for one in lost if not one.result_ns]):
            self._take_off(work)
            self.client.take_back(work.job, work.slot)
            if work.beaten:
                self.reports.add_ended(work, run_clock.now_ns())
            elif not work.dropped:
                self.reports.add(TaskLost(self._device, work.job, work.round, work.shard, gone.how))
                self.queue.put_back(work.again())
        self.tell_warmed()

    def rank_came(self, peer: bytes, said: RankReady) -> None:
        """Note that a rank is here, and its part of the device's memory."""
        if self.ranks.sat_down(peer, said):
            self.memory.learn(said.job, said)

    def left(self, reports: RankDone | RankGone) -> None:
        """Free the device from a rank that is done or has ended.

        If the rank ended before its rounds had passed, they go back to the head of the queue, for
        the rank that follows it.
        """
        job, incarnation = reports.job, reports.incarnation
        if isinstance(reports, RankGone) and self.ranks.gone(job, incarnation):
            self.memory.left(job)
        work = next(iter(self._of(job)), None)
        if work is None or not work.ring or work.incarnation != incarnation:
            return
        self._take_off(work)
        if isinstance(reports, RankDone):
            self._comp_free_ns = reports.at_ns
        elif reports.passed >= work.round + work.rounds:
            # All its rounds had passed: only its message that it is done was lost.
            self._comp_free_ns = run_clock.now_ns()
        elif not work.dropped:
            self.queue.put_back(work.again())

    def raised(self, raised: TaskRaised) -> None:
        """Report that an app raised, and drop its job; an unwanted task's error does not count."""
        job = raised.job
        work = self._waited_for(job, raised.round, raised.shard)
        if work is not None:
            self._take_off(work)
            if work.beaten or work.dropped:  # neither its result nor its error is needed
                self.client.take_back(job, work.slot)
                self.reports.add_ended(work, run_clock.now_ns())
                return
        self.reports.add(JobBroke(job, raised.reason))
        self.drop(job, ended=True)

    def beaten(self, seq: int) -> None:
        """Note that another device finished a task: it need not begin, nor count."""
        work = next((one for one in self._begun if one.seq == seq), None)
        if work is not None:
            # User code cannot be stopped within a task: it keeps COMP until it has computed.
            work.beaten = True
            return
        self.queue.remove(seq)
        self._comm.beaten(seq)
        self.reports.add(LeftComp(seq))

    def move(self, job: int, generation: int, homes: tuple[int, ...], round_no: int) -> None:
        """Go on with other servers of a job; tasks of ``round_no`` and later begin again.

        This happens if a job's first servers were never used: its shape came as it arrived.
        """
        self.verifier.forget(job)
        for one in reversed(self._comm.take(job, round_no)):
            self.queue.put_back(one.again())
        # A dropped task is not needed any more: others have been assigned in its place.
        for work in reversed([one for one in self._of(job) if not (one.ring or one.dropped)]):
            if work.round < round_no:
                # Another device finished it, which the controller may not have reported yet. Its
                # place for an update is one of the old connection.
                work.beaten, work.slot = True, -1
            else:
                if not work.beaten:
                    self.queue.put_back(work.again())
                work.dropped, work.slot = True, -1
                if work.result_ns:
                    self._take_off(work)
        self._comm.acknowledge(job, run_clock.now_ns())
        self.slots.unstage(job)
        self.early.forget(job)
        self.client.move(job, generation, homes)

    def drop(self, job: int, *, ended: bool) -> None:
        """Forget all work of a job; ``ended``: it will not come again, so its trainers go too."""
        self.queue.drop(job)
        self.ranks.drop(job)
        self.verifier.forget(job)
        self.slots.unstage(job)
        self.early.forget(job)
        if ended:
            self.slots.drop(job)
            self.verifier.drop(job)
        self._comm.drop(job)
        self.client.drop(job, ended=ended)
        for work in self._of(job):
            if work.beaten and ended:
                work.slot = -1  # its COMP goes on to the end, as if nothing had ended
                continue
            # Its trainer still computes: COMP is free when it answers or ends.
            work.dropped = True
            if work.result_ns:
                self._take_off(work)
