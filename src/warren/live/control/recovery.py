"""What the controller does when a process is lost, or a job cannot go on.

How often a job may lose its process before it counts as the cause is counted here, too; and what
a job's servers and the ranks of its ring have in common, since either keeps the job's state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from warren.live.control.devices import DeviceManager
from warren.live.control.ledger import Ledger
from warren.live.control.ring_gangs import GangManager
from warren.live.control.run_context import RunContext
from warren.live.control.servers import Servers
from warren.live.process.process_pool import ProcessPool, ZygoteLost
from warren.live.process.specs import ExecutorRole, Exited, RankRole, Role, ServerRole, TrainerRole
from warren.live.process.time_limit import (
    OUT_OF_TIME,
    OVER_LOG,
    OVER_MEMORY,
    UNHEARD,
    out_of_time,
    over_log,
    over_memory,
)
from warren.live.transport.messages import BUILDING, IDLE, TaskLost
from warren.live.transport.ring_messages import GangBroke, RankGone
from warren.live.transport.server_messages import RoundReport
from warren.model.decision import Assignment
from warren.model.events import RoundsDone
from warren.model.job import Job

LIMIT: Final = 3
RING_BROKE: Final = "it broke"
"""What a rank says that has lost the others, of whom none is known to have ended."""
FROM_OUTSIDE: Final = ("killed by SIGKILL", "killed by SIGTERM", RING_BROKE)


class LossCounter:
    """Counts losses by job, and by what a lost process was doing for it.

    A process that ends by itself (an exit, SIGSEGV, SIGABRT) counts against its job for good. One
    that was killed may have had bad luck, and many may be killed at once: that counts against what
    it was doing (a task, a barrier), until the job passes a barrier that it has not passed before.
    """

    def __init__(self, passed: Callable[[int], int]) -> None:
        self._passed = passed
        self._by_itself: Counter[int] = Counter()
        self._by_activity: dict[int, Counter[tuple[int, ...]]] = {}
        self._furthest: dict[int, int] = {}

    def out(self, job: int, what: tuple[int, ...], how: str) -> bool:
        """Note one loss; True if it is one too many. ``what`` tells apart what processes do."""
        passed = self._passed(job)
        if passed > self._furthest.get(job, -1):
            self._furthest[job] = passed
            self._by_activity[job] = Counter()
        self._by_activity[job][what] += 1
        if how not in FROM_OUTSIDE:
            self._by_itself[job] += 1
        return max(self._by_itself[job], self._by_activity[job][what]) >= LIMIT


class StateOwners:
    """Servers and gangs of a run, by job."""

    def __init__(self, jobs: Sequence[Job], servers: Servers, gangs: GangManager) -> None:
        self._jobs, self._servers, self.gangs = jobs, servers, gangs

    def of(self, job: int) -> Servers | GangManager:
        """Where to ask about a job."""
        return self.gangs if self._jobs[job].sync == "ring" else self._servers

    def end(self, job: int) -> None:
        """The job has ended, or begins a new era."""
        self.of(job).end(job)

    def go_back(self, job: int, passed: int) -> int:
        """End what keeps the job; gives the round at which it will begin again."""
        return self.of(job).go_back(job, passed)

    def generation(self, job: int) -> int | None:
        """Of what is there."""
        return self.of(job).generation(job)

    def checkpoint_committed(self, job: int, round_no: int) -> None:
        """The journal has reached a checkpoint of the job."""
        self.of(job).checkpoint_committed(job, round_no)


_TRAINERS: Final = 20
"""Trainers of one job on one device that may be lost, whatever they were doing."""
_ZYGOTES: Final = 5
"""Zygotes of one run that may be lost."""


class Recovery:
    """Starts again what was lost, counts what it costs, and fails the job that is the cause."""

    def __init__(
        self, context: RunContext, ledger: Ledger, manager: DeviceManager, owners: StateOwners
    ) -> None:
        self._context, self._ledger = context, ledger
        self._manager, self._owners = manager, owners
        self._losses = LossCounter(ledger.passed)
        self._ended_jobs: list[int] = []
        self._zygotes = 0
        self._saved: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._delivered: list[RoundsDone] = []

    def ended(self, role: Role, exited: Exited, host_ns: int) -> None:
        """A process has ended without being told to.

        Raises
        ------
        EngineError
            If processes of one kind keep ending.
        """
        how = exited.how or "left"
        match role:
            case TrainerRole(device=device, job=job):
                needed = self._manager.trainer_ended(role, exited.pid, how)
                if self._manager.losses(device, job.index) > _TRAINERS:
                    self.fail(job.index, f"its trainers keep ending, the last: {how}", host_ns)
                elif needed and not self._ledger.ended(job.index):
                    self._manager.need_trainer(device, job)
            case ServerRole(job=job, generation=generation):
                if self._owners.generation(job.index) == generation:
                    self._owner_lost(job.index, "its server", how, host_ns)
            case RankRole(job=job, incarnation=incarnation, rank=rank, device=device):
                self._manager.tell(
                    device, RankGone(job.index, incarnation, self._ledger.passed(job.index))
                )
                if self._owners.gangs.incarnation(job.index) == incarnation:
                    self._owner_lost(job.index, f"rank {rank} of its ring", how, host_ns)
            case ExecutorRole(device=device):
                self._device_lost(device, how, host_ns)
                self._manager.executor_ended(device, how)
            case _:
                pass

    def gang_broke(self, said: GangBroke, host_ns: int) -> None:
        """A rank has lost the others, and none of them has ended."""
        if self._owners.gangs.incarnation(said.job) == said.incarnation:
            what = f"its ring ({said.how})"
            self._owner_lost(said.job, what, RING_BROKE, host_ns)

    def task_lost(self, lost: TaskLost, host_ns: int) -> None:
        """A trainer went down with a task, or while it built a job's app."""
        if self._ledger.ended(lost.job):
            return
        what, where = (lost.round, lost.shard), f"task {lost.shard} of round {lost.round}"
        if lost.round < 0:
            what = lost.round, lost.device
            where = "building its app" if lost.round == BUILDING else "between its tasks"
        if lost.how in (OUT_OF_TIME, UNHEARD):
            limit_ns = self._context.jobs[lost.job].task_limit_ns
            self.fail(lost.job, f"{where} {out_of_time(lost.how, limit_ns)}", host_ns)
        elif lost.how.startswith(OVER_MEMORY):
            self.fail(lost.job, f"{where}: its process {over_memory(lost.how)}", host_ns)
        elif lost.how.startswith(OVER_LOG):
            self.fail(lost.job, f"{where}: its process {over_log(lost.how)}", host_ns)
        elif lost.round == IDLE and lost.how in FROM_OUTSIDE:
            return  # it cost nothing, and was not the job's doing
        elif self._losses.out(lost.job, what, lost.how):
            self.fail(
                lost.job, f"its process ended again and again, last: {where}, {lost.how}", host_ns
            )
        elif lost.round >= 0:
            one = Assignment(lost.device, lost.job, lost.round, 1, (lost.shard,))
            self._ledger.tasks_lost(one, f"its trainer ended: {lost.how}", host_ns)

    def all_lost(self, pool: ProcessPool, host_ns: int, reason: str) -> None:
        """The zygote took everything with it; ``pool`` has a new one."""
        for job in self._context.jobs:  # first: tickets of its servers are those of the old fleet
            if self._owners.generation(job.index) is not None:
                self._go_back(job.index, reason, host_ns)
        self._context.pool = pool
        for device in range(len(self._context.devices)):
            self._device_lost(device, reason, host_ns)
        self._manager.all_ended(reason)

    def check_zygotes(self, error: ZygoteLost) -> None:
        """Give up when zygotes keep ending."""
        self._zygotes += 1
        if self._zygotes > _ZYGOTES:
            raise error

    def fail(self, job: int, reason: str, host_ns: int) -> None:
        """The job cannot go on."""
        if not self._ledger.ended(job):
            self._ended_jobs += [job, *self._ledger.fail(job, reason, host_ns)]

    def pop_ended(self) -> list[int]:
        """Jobs that have ended since this was asked last."""
        over, self._ended_jobs = self._ended_jobs, []
        return over

    # Checkpoints that are not needed any more.

    def saved(self, report: RoundReport) -> None:
        """A server says which checkpoint is its newest."""
        if self._ledger.passed(report.job) > report.saved > self._saved.get(report.job, 0):
            self._saved[report.job] = report.saved

    def delivered(self, event: RoundsDone) -> None:
        """The core has been told, and will have journalled it when it asks for more."""
        self._delivered.append(event)

    def journalled(self) -> None:
        """What was handed out is in the journal: checkpoints before it are not needed."""
        told, self._delivered = self._delivered, []
        for event in told:
            job, saved = event.job, self._saved.get(event.job, 0)
            if event.finished:
                self._context.outputs.drop_checkpoints(job)
            # A run goes back behind its last barrier if that is inside a stretch (core.resume).
            elif event.round >= saved > self._committed.get(job, 0):
                self._committed[job] = saved
                self._owners.checkpoint_committed(job, saved)

    # Inside.

    def _device_lost(self, device: int, how: str, host_ns: int) -> None:
        reason = f"the executor of its device ended: {how}"
        for job in self._owners.gangs.on(device):
            self._go_back(job, reason, host_ns)
        for one in list(self._ledger.in_progress(device)):
            self._ledger.tasks_lost(one, reason, host_ns)

    def _owner_lost(self, job: int, who: str, how: str, host_ns: int) -> None:
        if self._ledger.ended(job):
            return
        if how in (OUT_OF_TIME, UNHEARD):
            limit_ns = self._context.jobs[job].task_limit_ns
            ring = self._context.jobs[job].sync == "ring"
            what = "round" if ring else "the barrier of round"
            told = f"{what} {self._ledger.passed(job)} {out_of_time(how, limit_ns)}"
            self.fail(job, told, host_ns)
        elif how.startswith(OVER_MEMORY):
            self.fail(job, f"{who} {over_memory(how)}", host_ns)
        elif how.startswith(OVER_LOG):
            self.fail(job, f"{who} {over_log(how)}", host_ns)
        elif self._losses.out(job, (), how):
            self.fail(job, f"{who} ended again and again, last: {how}", host_ns)
        else:
            self._go_back(job, f"{who} ended: {how}", host_ns)

    def _go_back(self, job: int, reason: str, host_ns: int) -> None:
        if self._ledger.ended(job):
            return
        arrived, now_ns = self._ledger.arrived(job), self._ledger.cluster_ns(host_ns)
        if arrived:
            self._manager.drop(job, ended=False)
        round_no = self._owners.go_back(job, self._ledger.passed(job))
        self._ended_jobs += self._ledger.roll_back(job, round_no, reason, now_ns)
        if not arrived and self._context.jobs[job].sync == "ps":
            self._manager.move(job, self._ledger.generation(job))
        self._saved.pop(job, None)
        self._committed.pop(job, None)
