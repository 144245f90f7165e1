"""``engine: local`` behind the core's port: processes, sockets and the clock of a live run.

The port is synchronous on purpose: the core's one loop asks for events, and only then is anything
read. Time stamps are taken where things happen, so a slow decision delays nothing but the decision.
The recovery from lost processes is in ``recovery``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from warren.core.ports import Restart
from warren.live.clock import ClusterClock
from warren.live.control.agent_hosts import HostPresence, absent_at_first, refuse_agents
from warren.live.control.devices import DeviceManager
from warren.live.control.engine import LiveEngine
from warren.live.control.input_budgets import InputBudgets, refuse_blocks_on_gpus, refuse_rings
from warren.live.control.ledger import Ledger
from warren.live.control.link_classes import LinkClasses, StandingClasses
from warren.live.control.recovery import Recovery, StateOwners
from warren.live.control.ring_gangs import GangManager
from warren.live.control.run_context import RunContext, refuse_servers_without_gpus
from warren.live.control.servers import Servers
from warren.live.control.startup import WARM_LIMIT, StartupBarrier
from warren.live.emulated_times import Pads
from warren.live.phase_totals import PhaseTotals
from warren.live.process.process_pool import ZygoteLost
from warren.live.process.specs import Exited, Role
from warren.live.transport.messages import (
    Assign,
    CannotWrite,
    CompEnded,
    ExecutorReady,
    JobBroke,
    LeftComp,
    LostRace,
    TaskLost,
    TaskRehearsed,
    TaskStuck,
    Verified,
)
from warren.live.transport.ring_messages import GangBroke, GangReady, HandedOver
from warren.live.transport.server_messages import (
    BlocksCame,
    OwnershipMoved,
    RoundReport,
    ServerReady,
)
from warren.model.costs import CostTable
from warren.model.decision import Assignment, Group, Question, Shape
from warren.model.errors import EngineError
from warren.model.events import AnyEvent, JobArrived, RolledBack, RoundsDone, ServersMoved
from warren.model.job import Job
from warren.model.run import Run


class LivePort(LiveEngine):
    """Trains the jobs of a run with the ``local`` engine. Use as a context manager.

    Of the four questions it carries out place, group, flow, and shape.

    Parameters
    ----------
    run : Run
        The run.
    costs : CostTable
        Its profile times, from which emulated tasks get their pads.
    out_dir : Path or str
        The run's folder.
    warm_limit : int
        Most apps (jobs times devices) that are built before time zero; if there are more, none is.
    rehearse : bool
        Whether each process computes once before time zero; with emulated times it always does.
    """

    carries: ClassVar[frozenset[Question]] = frozenset(Question)

    def __init__(
        self,
        run: Run,
        costs: CostTable,
        out_dir: Path | str,
        *,
        warm_limit: int = WARM_LIMIT,
        rehearse: bool = False,
    ) -> None:
        super().__init__(run, out_dir)
        self._pads = Pads(run, costs)
        self._ledger = Ledger(self._jobs, len(self._devices), self._pending)
        # Jobs that have been given tasks.
        self._assigned: set[int] = set()
        self._rehearse = rehearse or run.cluster.emulate is not None
        self._build_early = len(self._jobs) * len(self._devices) <= warm_limit
        self._inputs: InputBudgets | None = None
        self._refused: dict[str, float] = {}
        self.overruns: Counter[int] = Counter()
        """Tasks that took longer than their pad, by job index."""
        self.verified_ns: list[int] = []
        """Time of each task that was computed again, in real nanoseconds."""
        self.phases = PhaseTotals(run.cluster)
        """Where the time of rounds went, by job."""

    def start(self) -> None:
        """Bring up all processes and let trainers build their apps; time zero comes later.

        Raises
        ------
        EngineError
            If a process of Warren's own does not come up.
        SpecError
            If the run that is to go on computes in another numerics class.
        """
        refuse_rings(self._run.cluster, self._jobs)
        refuse_agents(self._run.cluster, self._jobs)
        super().start()
        refuse_blocks_on_gpus(self._run.cluster, self._gpus)
        assert self._folder is not None
        self._inputs = InputBudgets(self._run.cluster, self._folder)
        context = RunContext(
            run=self._run,
            folder=self._folder,
            hub=self._hub,
            outputs=self._outputs,
            pool=self._pool,
            memory=self._memory,
            rehearse=self._rehearse,
            gpus=self._gpus,
            inputs=self._inputs,
            absent=absent_at_first(self._run.cluster),
        )
        refuse_servers_without_gpus(context)
        self._manager = DeviceManager(context, self._pads, self._ledger)
        standing = StandingClasses(self._jobs)
        self._servers = Servers(context, self._opens_ns, self._manager.trainer_role, standing.at)
        self._gangs = GangManager(context, self._pads, self._manager, self._ledger, self._opens_ns)
        self._owners = StateOwners(self._jobs, self._servers, self._gangs)
        self._flows = LinkClasses(self._run, standing, self._ledger, self._manager, self._servers)
        self._recovery = Recovery(context, self._ledger, self._manager, self._owners)
        # Generations and checkpoints are known before a process learns where to begin.
        if self._restart is not None:
            self._restore(self._restart)
        self._startup = StartupBarrier(context, self._ledger, self._manager, self._servers)
        self._hosts = HostPresence(
            context, self._ledger, self._pending, self._recovery, self._startup
        )
        self._hosts.look(0)
        self._manager.start()
        self._wait_for_all()
        self._inputs.measure()
        if self._build_early:
            self._startup.begin()
            self._wait_for_all()

    def close(self) -> None:
        """End every process, wait for it and remove the sockets; may be called twice."""
        self._refusals()  # while the pool can still be asked
        super().close()
        if self._inputs is not None:
            self._inputs.close()

    def measured(self) -> dict[str, float]:
        """Return the figures that the summary adds: overruns, and tasks computed again."""
        return {
            "overruns": float(self.overruns.total()),
            "verified_tasks": float(len(self.verified_ns)),
            "verify_s": sum(self.verified_ns) / 1e9,
        } | self._refusals()

    def _refusals(self) -> dict[str, float]:
        """Return the counts of refused messages: of hosts without a lease, and of strangers."""
        if self._run.cluster.lease_ns is None:
            return {}
        if self._pool_or_none is not None and self._hub_or_none is not None:
            pool, hub = self._pool, self._hub
            self._refused = {
                "stale_messages": float(pool.stale_messages + hub.refused),
                "strangers": float(pool.strangers + hub.strangers),
            }
        return self._refused

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Append assignments to the queues of executors, except those of an ended job.

        Assignments decided before the core hears that a job is rolled back are dropped too: the
        core assigns them again after that.
        """
        for one in assignments:
            if not self._ledger.ended(one.job) and not self._pending.returning(one.job):
                self._assign(self._ledger.assigned(one), one, self._decided_ns())

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start copies of tasks, each ahead of its executor's tasks not begun."""
        for one in copies:
            if (seq := self._ledger.copied(one)) is not None:
                self._assign(seq, one, self._decided_ns())

    def regroup(self, groups: tuple[Group, ...]) -> None:
        """Do nothing: groups bind where tasks go, and steps interleave on devices and links."""

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        """Put the servers of jobs where shapes say; workers bind place alone.

        The blocks of a job that has been given tasks migrate, while it goes on.
        """
        self._advance()  # a job may have arrived while policies were asked
        for job, shape in shapes.items():
            if self._ledger.ended(job) or not shape.servers:
                continue
            begun = job in self._assigned and self._ledger.arrived(job)
            if begun and self._servers.complete(job):
                self._servers.want(self._jobs[job], shape, self._ledger.reserve)
                if job in self._servers.migrating():
                    self._pending.take_back_void(job)
            elif not self._servers.placed(job, shape):
                # Also where a job goes back: its servers begin from its checkpoint anywhere.
                self._place_servers(job, shape)
                if begun:
                    self._hosts.begins_at(job, shape, self._host_ns())
        self._wait_for_all()

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Set the classes of the jobs' traffic between hosts; see ``AnswerPort.classify``."""
        self._flows.classify(classes, host_classes)

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        """Let the next rounds of jobs begin later; the process that holds the barrier holds the
        round.

        Delays decided before the core hears that a job has ended or is rolled back are void. So are
        delays that servers or a ring have not served when they are lost.
        """
        assert self._clock is not None, "no job has arrived before time zero"
        for job, delay_ns in delays_ns.items():
            if not self._ledger.ended(job) and not self._pending.returning(job):
                self._owners.delay(job, self._clock.pad_ns(delay_ns))

    def _place_servers(self, job: int, shape: Shape) -> None:
        """Restart the servers of a job that has not begun, where a shape has them."""
        self._servers.place(job, shape)
        if not self._servers.known(job):
            return
        self._servers.end(job)
        generation = self._ledger.renew(job)
        # Executors that have tasks of it already, since a plan comes before arrivals.
        self._manager.move(job, generation, self._servers.homes(job))
        self._servers.need(self._jobs[job], generation)
        if self._clock is None:
            self._startup.await_servers(job)

    def _migrate(self, job: int) -> None:
        """Go on with a job whose blocks migrate: tell executors of its new servers, or end it.

        The old servers report the barrier at which ownership moves; that report counts first.
        """
        generation = self._servers.take_over(job, self._ledger.passed(job))
        if generation is not None:
            self._ledger.migrate(job, generation)
            self._manager.move(job, generation, self._servers.homes(job))
            self._flows.tell_servers(job)
        if (over := self._servers.migrated(job)) is not None:
            begins = over.begins
            assert begins is not None
            at_ns = self._ledger.cluster_ns(over.ended_ns)
            took_ns = max(0, at_ns - self._ledger.cluster_ns(begins.since_ns))
            placed = over.shape.servers, over.shape.model_bytes or ()
            self._ledger.servers_moved(
                ServersMoved(at_ns, job, begins.round, over.far_bytes, took_ns, *placed)
            )
        self._servers.go_on(self._jobs[job], self._ledger.reserve)

    def _restore(self, restart: Restart) -> None:
        """Take over the state of a run that was cut off: each job that had begun rolls back."""
        arrived = {job for job, yes in enumerate(restart.arrived_J) if yes}
        over = {job for job, yes in enumerate(restart.ended_J) if yes}
        self._pending.resume(restart.now_ns, arrived | over, restart.wakes_ns)
        for job in over:
            self._ledger.over(job)
            # A job with parameters has finished; one without has failed, and keeps its checkpoints.
            if Path(self._outputs.params(job)).exists():
                self._outputs.drop_checkpoints(job)
        for job in sorted(arrived - over):
            round_no = self._owners.go_back(job, restart.rounds_J[job])
            self._ledger.roll_back(job, round_no, "the run was cut off", restart.now_ns)

    def _begin(self) -> ClusterClock:
        """Start the clock, and let the servers of jobs know when they may begin."""
        clock = super()._begin()
        self._ledger.begin(clock, self.numerics_J)
        self._servers.open_all()
        self._hosts.begin(resumed=self._restart is not None)
        return clock

    def _wait_for_all(self) -> None:
        """Handle messages until no process is awaited before time zero any more."""
        while not self._startup.over:
            self._receive(None)

    # Messages of processes to the controller.

    def _receive(self, timeout_ms: int | None) -> None:
        super()._receive(timeout_ms)
        self._look_at_hosts()
        # A gang may be waiting for an arrival, which no message tells.
        self._advance()
        self._gangs.go_on()
        for job in self._servers.migrating():
            self._migrate(job)

    def _handle(self, peer: bytes, message: object) -> None:
        """Pass one message to the part of the controller that it concerns."""
        match message:
            case CompEnded() | RoundReport():
                self._report(message)
            case LeftComp(seq=seq):
                self._release_jobs(self._ledger.not_on_comp(seq, self._host_ns()))
            case TaskLost():
                self._recovery.task_lost(message, self._host_ns())
            case TaskStuck(device=device, job=job, reason=reason):
                # The job fails first: then no other trainer replaces the killed one.
                self._fail(job, reason)
                self._manager.end_trainer(device, job)
            case JobBroke(job=job, reason=reason, heir=heir):
                if heir < 0 or self._recovery.heir_broke(job, heir, reason, self._host_ns()):
                    self._fail(job, reason)
            case CannotWrite(errno=errno, strerror=strerror, path=path):
                raise OSError(errno, strerror, path)
            case ExecutorReady(device=device, incarnation=incarnation):
                if self._manager.ready(device, incarnation, peer):
                    self._startup.mark_ready(device)
                    self._flows.tell_device(device)
                    self._resend_work(device)
            case OwnershipMoved():
                self._servers.ownership_moved(message)
            case BlocksCame():
                self._servers.blocks_came(message)
            case ServerReady(job=job):
                whole = self._servers.ready(peer, message)
                self._flows.tell_servers(job)
                if whole:
                    self._startup.mark_ready(("servers", job))
                    self._servers.open(self._jobs[job])
            case Verified(took_ns=took_ns):
                self.verified_ns.append(took_ns)
            case TaskRehearsed():
                self._startup.mark_ready(message)
            case GangReady():
                self._gangs.ready(peer, message)
            case HandedOver():
                self._gangs.handed_over(message)
            case GangBroke():
                self._recovery.gang_broke(message, self._host_ns())
            case _:
                raise EngineError(f"unexpected message {message}")
        self._end_jobs()

    def _report(self, report: CompEnded | RoundReport) -> None:
        """Enter a report into the ledger, and count tasks that overran their pads."""
        if isinstance(report, RoundReport):
            self.overruns[report.job] += report.overruns
            self.phases.add(report)
        elif report.overrun and (job := self._ledger.job_of(report.seq)) is not None:
            self.overruns[job] += 1
        self._release_jobs(self._ledger.report(report))
        if isinstance(report, RoundReport):
            self._recovery.saved(report)

    def _process_ended(self, ticket: int, role: Role, exited: Exited) -> None:
        """Recover from the end of a process that ended without an order to end."""
        self._look_at_hosts()
        self._recovery.ended(role, exited, self._host_ns())
        self._end_jobs()
        self._startup.forget_ended()
        self._need_all()

    def _look_at_hosts(self) -> None:
        """Let the core hear of hosts that have come or gone, before all that follows from it."""
        if self._hosts.look(self._host_ns()):
            self._end_jobs()
            self._need_all()

    def _zygote_lost(self, error: ZygoteLost) -> None:
        """Start all processes again from a new zygote."""
        self._end_pool()
        self._start_another(error)
        self._recovery.all_lost(self._pool, self._host_ns(), str(error))
        self._end_jobs()
        self._need_all()

    def _start_another(self, error: ZygoteLost) -> None:
        """Start a zygote in place of the lost one; it may be lost too while it starts."""
        self._recovery.check_zygotes(error)
        try:
            self._start_pool()
        except ZygoteLost as again:
            self._pool.close(last=False)
            self._start_another(again)

    def _end_jobs(self) -> None:
        """Free the resources of jobs that recovery has failed, or let end, meanwhile."""
        self._release_jobs(self._recovery.pop_ended())

    def _fail(self, job: int, reason: str) -> None:
        self._recovery.fail(job, reason, self._host_ns())

    def _release_jobs(self, jobs: list[int]) -> None:
        """Free the places in queues and the servers of ended jobs.

        A task that lost its race and is on COMP keeps its device to its end.
        """
        for device, seq in self._ledger.pop_lost_races():
            self._manager.tell(device, LostRace(seq))
        for job in jobs:
            # Time zero must not wait for servers that are to end.
            self._startup.mark_ready(("servers", job))
            self._manager.drop(job, ended=True)
            self._owners.end(job)
            self._flows.forget(job)

    def _need_all(self) -> None:
        """Start the servers of every job that lost them and has not ended."""
        for job in self._jobs:
            known = self._servers.known(job.index)
            if known and not self._ledger.ended(job.index):
                self._servers.need(job, self._ledger.generation(job.index))

    def _resend_work(self, device: int) -> None:
        """Give a new executor the device's work, if there was an executor before it."""
        self._startup.again(device)
        decided_ns = self._host_ns()

        for seq, one in list(self._ledger.unfinished(device)):
            self._assign(seq, one, decided_ns)
        for seq in self._ledger.lost_races_on(device):
            self._manager.tell(device, LostRace(seq))

    def _stuck(self) -> bool:
        # Blocks on their way come by themselves, and policies hear of that.
        return self._ledger.stuck() and not self._servers.handing_over()

    def _events_journalled(self) -> None:
        """Release checkpoints that the journal has made superfluous."""
        self._recovery.journalled()

    def _deliver(self, events: tuple[AnyEvent, ...]) -> None:
        """Write metrics, and let parts of the controller know of arrivals, roll-backs, barriers."""
        super()._deliver(events)
        for event in events:
            if isinstance(event, JobArrived):
                self._manager.arrived(event.job)
            elif isinstance(event, RolledBack):
                # Its rounds run again, and write their rows again.
                self._outputs.drop_metrics(event.job, event.round)
            elif isinstance(event, RoundsDone):
                self._recovery.delivered(event)

    # Messages of the controller to processes.

    def _assign(self, seq: int, one: Assignment, decided_ns: int) -> None:
        """Send an assignment to its executor, and start the processes that it needs."""
        job, generation = self._jobs[one.job], self._ledger.generation(one.job)
        self._assigned.add(one.job)
        if job.sync == "ring":
            # The processes of a gang are forked when all its ranks are assigned, not here.
            self._gangs.assigned(one)
        else:
            self._servers.need(job, generation)
            self._manager.need_trainer(one.device, job)
            self._manager.need_verifier(one.device, job)
        assign = Assign(
            seq=seq,
            job=one.job,
            round=one.round,
            rounds=one.rounds,
            shards=one.shards,
            decided_ns=decided_ns,
            generation=generation,
            homes=self._owners.homes(one.job),
            limit_ns=job.task_limit_ns,
            copy=self._ledger.is_copy(seq),
            ring=job.sync == "ring",
        )
        self._manager.tell(one.device, assign)

    def _decided_ns(self) -> int:
        """Return the host time of the events that the policy has answered; 0 before time zero."""
        return 0 if self._clock is None else self._clock.host_ns(self._pending.last_ns)

    def _opens_ns(self, job: Job) -> int | None:
        """Return when a job may begin, in host time; None before time zero."""
        return None if self._clock is None else self._clock.host_ns(job.arrival_ns)

    def _host_ns(self) -> int:
        """Return the host time of now; 0 before time zero, which ``Ledger.cluster_ns`` knows."""
        return 0 if self._clock is None else time.monotonic_ns()
