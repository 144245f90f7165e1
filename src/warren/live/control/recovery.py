"""The controller's reaction when a process is lost, or a job cannot go on.

``LossCounter`` counts the losses of a job before the job is taken for the cause. ``StateOwners`` is
the common side of a job's servers and the ranks of its ring: either of them keeps the job's state,
so when one is lost the job is rolled back.
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
from warren.live.process.agents.leased_processes import AWAY
from warren.live.process.linux import SHORT_OF_MEMORY
from warren.live.process.process_pool import ZygoteLost
from warren.live.process.processes import Processes
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
from warren.live.transport.messages import BUILDING, IDLE, TaskLost, TrainerGone
from warren.live.transport.ring_messages import GangBroke, RankGone
from warren.live.transport.server_messages import RoundReport
from warren.model.decision import Assignment
from warren.model.events import RoundsDone, ServersMoved
from warren.model.job import Job

LIMIT: Final = 3
"""Losses after which a job fails: in total if its own code ended, at one activity if killed."""
_HOSTS: Final = 20
"""Losses of its host that a job may have before it passes another barrier."""
_LOST_HOST: Final = (-99,)
"""The activity that counts when a host is lost, whatever the process was doing."""
RING_BROKE: Final = "it broke"
"""The reason of a rank that has lost the others, while none of them is known to have ended."""
FROM_OUTSIDE: Final = ("killed by SIGKILL", "killed by SIGTERM", RING_BROKE, AWAY, SHORT_OF_MEMORY)
"""Ends of a process that are not its own doing."""


class LossCounter:
    """Counts losses by job, and by the activity of the lost process.

    A process that ends by itself (an exit, SIGSEGV, SIGABRT) counts against its job for good. A
    killed process may have had bad luck, and many may be killed at once. That counts against its
    activity (a task, a barrier), until the job passes a barrier that it has not passed before.

    Parameters
    ----------
    passed : callable
        Gives how many barriers a job has passed; after a roll-back fewer than before.
    """

    def __init__(self, passed: Callable[[int], int]) -> None:
        self._passed = passed
        self._by_itself: Counter[int] = Counter()
        self._by_activity: dict[int, Counter[tuple[int, ...]]] = {}
        self._furthest: dict[int, int] = {}

    def out(self, job: int, what: tuple[int, ...], how: str) -> bool:
        """Note one loss, and tell whether it is one too many.

        Parameters
        ----------
        job : int
            The job that lost a process.
        what : tuple of int
            The activity of the process, as any numbers that distinguish one activity from another.
        how : str
            How the process ended.
        """
        passed = self._passed(job)
        # Progress clears the losses from outside, but only a barrier never passed before is
        # progress: a job that rolls back after each loss would else run for ever.
        if passed > self._furthest.get(job, -1):
            self._furthest[job] = passed
            self._by_activity[job] = Counter()
        if how == AWAY:
            # Seldom the job's doing, and a host may well come and go for a while.
            self._by_activity[job][_LOST_HOST] += 1
            return self._by_activity[job][_LOST_HOST] >= _HOSTS
        self._by_activity[job][what] += 1
        if how not in FROM_OUTSIDE:
            self._by_itself[job] += 1
        return max(self._by_itself[job], self._by_activity[job][what]) >= LIMIT


class StateOwners:
    """The owners of the state of each job of a run: its servers, or the gang of its ring."""

    def __init__(self, jobs: Sequence[Job], servers: Servers, gangs: GangManager) -> None:
        self._jobs = jobs
        self.servers = servers
        self.gangs = gangs

    def of(self, job: int) -> Servers | GangManager:
        """Return the manager that has the job's servers or its gang."""
        return self.gangs if self._jobs[job].sync == "ring" else self.servers

    def end(self, job: int) -> None:
        """End the servers or the gang of a job that has ended or begins a new generation."""
        self.of(job).end(job)

    def go_back(self, job: int, passed: int) -> int:
        """End the job's servers or gang, and find the round at which it will begin again.

        ``passed``: barriers that the core knows of; a checkpoint beyond them does not count.
        """
        return self.of(job).go_back(job, passed)

    def delay(self, job: int, delay_ns: int) -> None:
        """Delay the round behind the job's next barrier by ``delay_ns`` real ns after it."""
        self.of(job).delay(job, delay_ns)

    def generation(self, job: int) -> int | None:
        """Return the generation of the job's running servers or ring; None if none runs."""
        return self.of(job).generation(job)

    def generations(self, job: int) -> set[int]:
        """Return the generations of a job's servers that must not be lost."""
        return self.servers.generations(job)

    def homes(self, job: int) -> tuple[int, ...]:
        """Return the host of each server of the job; a ring has none."""
        return () if self._jobs[job].sync == "ring" else self.servers.homes(job)

    def checkpoint_committed(self, job: int, round_no: int) -> None:
        """Tell the owner of a job's state that the journal has reached one of its checkpoints."""
        self.of(job).checkpoint_committed(job, round_no)


_TRAINERS: Final = 20
"""Trainers of one job on one device that may be lost, whatever they were doing."""
_ZYGOTES: Final = 5
"""Zygotes of one run that may be lost."""


class Recovery:
    """Starts lost processes again, counts the cost, and fails the job that is the cause."""

    def __init__(
        self, context: RunContext, ledger: Ledger, manager: DeviceManager, owners: StateOwners
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._manager = manager
        self._owners = owners
        self._losses = LossCounter(ledger.passed)
        self._ended_jobs: list[int] = []
        self._zygotes = 0
        # By job: the first round of the newest checkpoint that its state's owner has reported, and
        # of the newest checkpoint that the journal covers, as far as the owner knows.
        self._saved: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        # Events that the core has got, and may not have journalled yet.
        self._delivered: list[RoundsDone] = []

    def ended(self, role: Role, exited: Exited, host_ns: int) -> None:
        """Replace a process that ended without an order to end, and count the loss.

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
            case ServerRole(job=job, generation=generation, trainer=trainer):
                if trainer is not None:
                    self._manager.tell(trainer.device, TrainerGone(job.index, exited.pid, how))
                if self._owners.servers.give_up(job, generation, self._ledger.reserve):
                    self._shape_void(job.index, self._ended(job, how), host_ns)
                elif generation in self._owners.generations(job.index):
                    who = "its server" if trainer is None else "the process of its GPU"
                    self._owner_lost(job.index, who, how, host_ns)
            case RankRole(job=job, incarnation=incarnation, rank=rank, device=device):
                # The executor waits for the end of a rank before the device is free.
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

    def heir_broke(self, job: int, generation: int, reason: str, host_ns: int) -> bool:
        """Handle a server that cannot take over; tell whether the job cannot go on for it.

        It can while not all new servers are up, and where these have been given up already.
        """
        owners = self._owners
        if owners.servers.give_up(self._context.jobs[job], generation, self._ledger.reserve):
            self._shape_void(job, f"cannot serve: {reason}", host_ns)
            return False
        return generation in owners.generations(job)

    def gang_broke(self, said: GangBroke, host_ns: int) -> None:
        """Roll back a job if one of its ranks has lost the others, while none of them has ended."""
        if self._owners.gangs.incarnation(said.job) == said.incarnation:
            what = f"its ring ({said.how})"
            self._owner_lost(said.job, what, RING_BROKE, host_ns)

    def task_lost(self, lost: TaskLost, host_ns: int) -> None:
        """Handle a task that went down with its trainer: it runs again, or its job fails.

        So too where the trainer was building the job's app, or did nothing.
        """
        if self._ledger.ended(lost.job):
            return
        what, where = (lost.round, lost.shard), f"task {lost.shard} of round {lost.round}"
        # ``BUILDING`` and ``IDLE`` are negative: there is no task then, but there is a device.
        if lost.round < 0:
            what = lost.round, lost.device
            where = "building its app" if lost.round == BUILDING else "between its tasks"
        # A limit fails the job at once: the same task would meet the same limit again.
        if lost.how in (OUT_OF_TIME, UNHEARD):
            limit_ns = self._context.jobs[lost.job].task_limit_ns
            self.fail(lost.job, f"{where} {out_of_time(lost.how, limit_ns)}", host_ns)
        elif lost.how.startswith(OVER_MEMORY):
            self.fail(lost.job, f"{where}: its process {over_memory(lost.how)}", host_ns)
        elif lost.how.startswith(OVER_LOG):
            self.fail(lost.job, f"{where}: its process {over_log(lost.how)}", host_ns)
        elif lost.round == IDLE and lost.how in FROM_OUTSIDE:
            # It cost nothing, and was not the job's doing.
            return
        elif self._losses.out(lost.job, what, lost.how):
            self.fail(
                lost.job, f"its process ended again and again, last: {where}, {lost.how}", host_ns
            )
        elif lost.round >= 0:
            one = Assignment(lost.device, lost.job, lost.round, 1, (lost.shard,))
            self._ledger.tasks_lost(one, f"its trainer ended: {lost.how}", host_ns)

    def all_lost(self, pool: Processes, host_ns: int, reason: str) -> None:
        """Recover from the end of a zygote and of everything it forked; ``pool`` has a new one."""
        # Jobs go back before the pool changes: tickets of their servers are those of the old pool.
        for job in self._context.jobs:
            if self._owners.generation(job.index) is not None:
                self._go_back(job.index, reason, host_ns)
        self._context.pool = pool
        for device in range(len(self._context.devices)):
            self._device_lost(device, reason, host_ns)
        self._manager.all_ended(reason)

    def host_left(self, devices: Sequence[int], host_ns: int) -> None:
        """Roll back the jobs with tasks on the devices of a host that may never be back."""
        open_tasks = (one for device in devices for _, one in self._ledger.unfinished(device))
        for job in sorted({one.job for one in open_tasks}):
            self._go_back(job, f"a task of its: {AWAY}", host_ns)

    def check_zygotes(self, error: ZygoteLost) -> None:
        """Count a lost zygote, and give up when zygotes keep ending.

        Raises
        ------
        ZygoteLost
            ``error`` itself, when one more than ``_ZYGOTES`` have been lost.
        """
        self._zygotes += 1
        if self._zygotes > _ZYGOTES:
            raise error

    def fail(self, job: int, reason: str, host_ns: int) -> None:
        """Fail a job that cannot go on, unless it has ended already."""
        if not self._ledger.ended(job):
            self._ended_jobs += [job, *self._ledger.fail(job, reason, host_ns)]

    def pop_ended(self) -> list[int]:
        """Return the jobs that have ended since this was asked last."""
        over, self._ended_jobs = self._ended_jobs, []
        return over

    # Checkpoints that are not needed any more.

    def saved(self, report: RoundReport) -> None:
        """Note the newest checkpoint of a job, which its first server or rank 0 has reported."""
        # A checkpoint of a barrier that the ledger does not know of yet does not count.
        if self._ledger.passed(report.job) > report.saved > self._saved.get(report.job, 0):
            self._saved[report.job] = report.saved

    def delivered(self, event: RoundsDone) -> None:
        """Note an event that the core gets now, and has journalled when it asks for more."""
        self._delivered.append(event)

    def journalled(self) -> None:
        """Release checkpoints: events that were handed out before are in the journal now."""
        events, self._delivered = self._delivered, []
        for event in events:
            job, saved = event.job, self._saved.get(event.job, 0)
            if event.finished:
                self._context.outputs.drop_checkpoints(job)
            # A run goes back behind its last barrier if that is inside a stretch (core.resume).
            elif event.round >= saved > self._committed.get(job, 0):
                self._committed[job] = saved
                self._owners.checkpoint_committed(job, saved)

    # Events of devices and jobs.

    def _device_lost(self, device: int, how: str, host_ns: int) -> None:
        """Roll back gangs with a rank on a device, and let its tasks in progress run again."""
        reason = f"the executor of its device ended: {how}"
        for job in self._owners.gangs.on(device):
            self._go_back(job, reason, host_ns)
        for work in self._context.jobs:
            if (
                self._context.home_of(work) == device
                and self._owners.generation(work.index) is not None
            ):
                self._go_back(work.index, reason, host_ns)
        for one in list(self._ledger.in_progress(device)):
            self._ledger.tasks_lost(one, reason, host_ns)

    def _owner_lost(self, job: int, who: str, how: str, host_ns: int) -> None:
        """Roll back or fail a job that has lost a process that kept its state.

        ``who`` names the process in the reason; ``how`` says how it ended.
        """
        if self._ledger.ended(job):
            return
        if how in (OUT_OF_TIME, UNHEARD):
            limit_ns = self._context.jobs[job].task_limit_ns
            ring = self._context.jobs[job].sync == "ring"
            what = "round" if ring else "the barrier of round"
            reason = f"{what} {self._ledger.passed(job)} {out_of_time(how, limit_ns)}"
            self.fail(job, reason, host_ns)
        elif how.startswith(OVER_MEMORY):
            self.fail(job, f"{who} {over_memory(how)}", host_ns)
        elif how.startswith(OVER_LOG):
            self.fail(job, f"{who} {over_log(how)}", host_ns)
        # (): all losses of state count as one activity, in whatever round they happened.
        elif self._losses.out(job, (), how):
            self.fail(job, f"{who} ended again and again, last: {how}", host_ns)
        else:
            self._go_back(job, f"{who} ended: {how}", host_ns)

    def _shape_void(self, job: int, why: str, host_ns: int) -> None:
        """Tell that a job's servers stay where they are, unless they are to move elsewhere now."""
        servers, ledger = self._owners.servers, self._ledger
        if job not in servers.migrating():
            where, at_ns = servers.standing(job), ledger.cluster_ns(host_ns)
            moved = ServersMoved(at_ns, job, ledger.passed(job), 0, 0, *where, f"a new one {why}")
            ledger.servers_moved(moved)

    def _ended(self, job: Job, how: str) -> str:
        """Say how a new server of a job has ended."""
        if how in (OUT_OF_TIME, UNHEARD):
            return out_of_time(how, job.task_limit_ns)
        if how.startswith(OVER_MEMORY):
            return over_memory(how)
        return over_log(how) if how.startswith(OVER_LOG) else f"ended: {how}"

    def _go_back(self, job: int, reason: str, host_ns: int) -> None:
        """Roll a job back to its newest checkpoint, or its first round, in a new generation."""
        if self._ledger.ended(job):
            return
        # The core need not know when a job has not arrived: its assignments stay in their queues.
        arrived, now_ns = self._ledger.arrived(job), self._ledger.cluster_ns(host_ns)
        if arrived:
            self._manager.drop(job, ended=False)
        round_no = self._owners.go_back(job, self._ledger.passed(job))
        self._ended_jobs += self._ledger.roll_back(job, round_no, reason, now_ns)
        if not arrived and self._context.jobs[job].sync == "ps":
            self._manager.move(job, self._ledger.generation(job), self._owners.homes(job))
        self._saved.pop(job, None)
        self._committed.pop(job, None)
