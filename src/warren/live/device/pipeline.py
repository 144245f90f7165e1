"""What moves a device's tasks along: queue -> COMP -> COMM -> reported. It hears nobody."""

from __future__ import annotations

import time

from warren.live.device.lanes import CommLane, CompLane, LaneTask
from warren.live.device.parameter_client import ParameterClient
from warren.live.device.rank_slots import RankSlots
from warren.live.device.report_buffer import ReportBuffer, settled
from warren.live.device.trainer_slots import TrainerSlots
from warren.live.device.verification import Verifier
from warren.live.process.specs import ExecutorRole
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import CompEnded, TaskStuck
from warren.live.transport.server_messages import Commit
from warren.live.transport.sockets import Hub, Link, Poller


class Pipeline:
    """Queue and lanes of one device, and who works for it.

    ``trainers`` are those who compute here, ranks of rings included; ``control`` the controller.
    """

    def __init__(self, role: ExecutorRole, trainers: Hub, control: Link, poller: Poller) -> None:
        self._device, self._ahead = role.device, 1 + role.look_ahead
        self._slots, self._ranks = TrainerSlots(trainers), RankSlots(trainers)
        self._verifier = Verifier(trainers, role.verify)
        self._client = ParameterClient(poller, role.folder, role.device, role.identity)
        self._queue, self._comm = CompLane(role.pads), CommLane()
        self._comp: LaneTask | None = None
        self._comp_free_ns = 0
        self._reports = ReportBuffer(control)

    def _due_ns(self) -> int | None:
        """When there will be something to do, if nobody says anything."""
        dues = [self._comm.due_ns(), None if self._comp is None else self._comp.due_ns]
        return min((due for due in dues if due is not None), default=None)

    # Each gives True when something moved.

    def _end_comp(self) -> bool:
        work = self._comp
        end_ns = None if work is None else work.comp_due_ns
        if work is None or end_ns is None or time.monotonic_ns() < end_ns:
            return False
        self._comp, self._comp_free_ns = None, end_ns
        self._tell_ended(work, end_ns)
        if not work.beaten or work.slot >= 0:  # what was pushed will be acknowledged
            self._comm.enter(work, end_ns)
        return True

    def _tell_ended(self, work: LaneTask, end_ns: int) -> None:
        what = (work.seq, work.round, work.shard, work.start_ns, end_ns, work.overrun)
        self._reports.add(CompEnded(*what))

    def _end_syncs(self) -> bool:
        ended = self._comm.leave(time.monotonic_ns())
        for work in ended:
            if not work.unpadded and not work.beaten:
                assert work.comp_due_ns is not None
                what = (work.start_ns, work.comp_due_ns, work.sync_due_ns, self._device)
                stamp = TaskStamp(work.shard, *what)
                self._client.send(work.job, Commit(work.round, stamp))
        return bool(ended)

    def _start(self) -> bool:
        if self._comp is not None or self._verifier.busy:
            return False
        head, then, *_ = [*self._queue.ahead(2), None, None]
        if head is not None and head.ring:
            return self._start_rank(head)
        if head is None or not self._slots.free(head.job):
            return False
        state = self._client.ready(head.key)
        if state is None:
            return False
        ran = state.done_before(head.shard)
        if state.over or ran is not None:
            self._queue.pop()
            if ran is not None and ran.device in (-1, self._device):  # it may not have said so
                what = (head.seq, head.round, head.shard, ran.start_ns, ran.comp_end_ns, False)
                self._reports.add(CompEnded(*what))
            return True
        slot = self._client.lend(head.job)
        if slot is None or state.passed_ns is None:
            return False
        head.slot = slot
        head.state, update = self._client.spots(head.job, state, slot)
        if not self._slots.start(head, head.state, update, then):
            self._client.take_back(head.job, slot)
            return False
        head.began_ns = time.monotonic_ns()
        padded_ns = max(self._comp_free_ns, state.passed_ns, head.decided_ns)
        head.start_ns = padded_ns if head.comp_pad_ns else head.began_ns
        self._comp = self._queue.pop()
        return True

    def _start_rank(self, head: LaneTask) -> bool:
        if not self._ranks.begin(head, self._comp_free_ns):
            return False
        head.began_ns = time.monotonic_ns()
        self._comp = self._queue.pop()
        return True

    def _prefetch(self) -> None:
        comp = None if self._comp is None or self._comp.ring else self._comp
        ahead = [work for work in self._queue.ahead(self._ahead) if not work.ring]
        if comp is None or not all(work.job == comp.job for work in ahead) or settled(comp):
            reading = [None if comp is None else comp.key, self._verifier.key]
            self._client.want([work.key for work in ahead], {key for key in reading if key})

    def _watch(self) -> None:
        """A trainer that did not end at its limit has to be ended."""
        work = self._comp
        if work is None or work.result_ns or work.ring:
            return
        if time.monotonic_ns() >= work.late_ns:
            work.limit_ns *= 2  # say it again should the news get lost
            reason = f"task {work.shard} of round {work.round} does not end at its limit"
            self._reports.add(TaskStuck(self._device, work.job, reason))

    def _free_comp(self) -> None:
        """The task on COMP is no more; the lane is free from now on."""
        self._comp, self._comp_free_ns = None, time.monotonic_ns()
