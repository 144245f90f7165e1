"""The base of both live engines: a private folder, a socket, zygotes, the clock, and their end."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar, Self

from warren.core.ports import Restart
from warren.live.clock import ClusterClock
from warren.live.control.agent_hosts import agent_pool
from warren.live.control.event_queue import PendingEvents
from warren.live.control.run_context import gpus_found_by_agents
from warren.live.control.run_files import RunFiles
from warren.live.gpu.discovery import Gpu, class_of, classes_of, gpus_of
from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.messages import StartZygote
from warren.live.process.child_limits import USERS
from warren.live.process.device_claims import devices_held
from warren.live.process.host_placement import HostPlacement, placement_of
from warren.live.process.linux import NoInterrupt, parents
from warren.live.process.memory_limit import MemoryLimit, cgroups_of, memory_limit
from warren.live.process.preload import libraries
from warren.live.process.process_pool import (
    CleanupGuard,
    NoMoreProcesses,
    ProcessPool,
    ZygoteLost,
    ZygoteStarts,
)
from warren.live.process.processes import Processes
from warren.live.process.scratch import free_path, hold, remove_left_folders
from warren.live.process.specs import Exited, Role
from warren.live.testbed.namespaces import HERE, inside
from warren.live.training.app.app_imports import sources_of
from warren.live.training.app.pinned_files import APPS, pin_files, save_pins
from warren.live.transport.host_identity import NOWHERE
from warren.live.transport.sockets import Hub, Poller, controller_address, remove_folder
from warren.model.decision import PLACE_ALONE, Plan, Question
from warren.model.errors import Problem, SpecError
from warren.model.events import AnyEvent, RoundsDone
from warren.model.job import Job
from warren.model.link_use import LinkUse
from warren.model.run import Run
from warren.model.timeline import PlanOutcome
from warren.model.units import NS_PER_MS


class LiveEngine(ABC):
    """A port of the core with real processes behind it. Use as a context manager.

    Parameters
    ----------
    run : Run
        The run: its jobs, its cluster and its scheduler.
    out_dir : Path or str
        The run's folder, where journal, logs, parameters and checkpoints go.

    Raises
    ------
    SpecError
        If the cluster's testbed is not up, or a job's name cannot name a file.
    """

    # Of the four questions.
    carries: ClassVar[frozenset[Question]] = PLACE_ALONE
    _starts: ZygoteStarts

    def __init__(self, run: Run, out_dir: Path | str) -> None:
        self._run = run
        self._jobs = run.workload.jobs
        self._devices = run.cluster.devices
        # Asked for here too, so that a testbed that is not up is reported before planning begins.
        self._placement = self._placement_now()
        self._outputs = RunFiles(Path(out_dir), self._jobs)
        self._journal = Path(out_dir) / "journal"
        self._restart: Restart | None = None
        self._pending = PendingEvents(self._jobs)
        own = run.sources
        self._sources = sources_of(self._jobs, run.base) if own is None else own
        emulate = run.cluster.emulate
        self._scale = 1.0 if emulate is None else emulate.time_scale
        self._clock: ClusterClock | None = None
        self._folder: Path | None = None
        self._held: int | None = None
        self._pool_or_none: Processes | None = None
        self._guard: CleanupGuard | None = None
        self._memory: MemoryLimit | None = None
        self._hub_or_none: Hub | None = None
        self._poller_or_none: Poller | None = None
        self._gpus: tuple[int | None, ...] = (None,) * len(self._devices)
        self._claims = ExitStack()
        # Additions to the numerics class: of the run, and of each job.
        self._of_gpus = ""
        self._of_gpus_J = ("",) * len(self._jobs)
        self.numerics = ""
        """The numerics class that all of the run's processes share."""
        self.numerics_J = ("",) * len(self._jobs)
        """The numerics class of each job, which may not use all devices."""

    def __enter__(self) -> Self:
        try:
            self.start()
        # ``__exit__`` is not called when ``__enter__`` raises: processes must be ended here.
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resume(self, restart: Restart) -> None:
        """Continue a run that was cut off. To be called before ``start``."""
        self._restart = restart

    def start(self) -> None:
        """Bring up the zygotes; time zero comes with the first ``next_events``.

        Raises
        ------
        EngineError
            If a process of Warren's own does not come up.
        SpecError
            If the run that is to go on computes in another numerics class, its hosts are not up,
            it names GPUs that are not here, or another run has its devices.
        """
        self._find_gpus()
        self._claims.enter_context(devices_held(self._run, self._journal.parent))
        # A testbed may have been set up again since ``__init__``.
        self._placement = self._placement_now()
        remove_left_folders()
        # ``close`` must know of every resource before a signal can end the run.
        with NoInterrupt(), self._saying_need():
            self._folder = free_path(short=True)
            limit_bytes = self._run.cluster.local.memory_bytes
            # Agents limit the processes of their machines.
            here_bytes = None if self._placement.agents else limit_bytes
            cgroups = cgroups_of(here_bytes, self._folder.name, self._placement.quotas)
            # The guard is there before anything that a kill could leave behind.
            self._guard = CleanupGuard(self._folder, cgroups)
            self._folder.mkdir(mode=0o700)
            self._held = hold(self._folder)
            with inside(self._placement.places_H[0] if self._placement.agents else HERE):
                mine = self._placement.identity(0) if self._placement.agents else NOWHERE
                self._hub_or_none = Hub(controller_address(str(self._folder)), mine)
            self._memory = memory_limit(here_bytes, cgroups, self._outputs.run_log)
            if self._placement.agents and limit_bytes is not None:
                self._memory = MemoryLimit(limit_bytes, "")
            self._poller_or_none = Poller()
            self._poller.register(self._hub)
        save_pins(self._folder / APPS, self._sources)
        self._starts = ZygoteStarts(libraries(self._sources))
        self._start_warm()
        if self._restart is not None:
            refuse_another_class(self._journal, self._jobs, self._restart, self.numerics)

    def _find_gpus(self) -> None:
        """Find which devices are GPUs of this machine: none, if times are emulated.

        Agents find those of their machines later.
        """
        cluster = self._run.cluster
        if cluster.emulate is not None or gpus_found_by_agents(cluster):
            self._use_gpus((None,) * len(self._devices))
        else:
            self._use_gpus(gpus_of(self._devices))

    def _use_gpus(self, gpus: Sequence[Gpu | None]) -> None:
        """Let each device be this GPU."""
        self._gpus = tuple(None if gpu is None else gpu.index for gpu in gpus)
        self._of_gpus = class_of(gpus)
        self._of_gpus_J = classes_of(self._devices, gpus, self._jobs)

    def _start_warm(self) -> None:
        """Start the zygotes; a zygote lost while it starts is started again."""
        while True:
            try:
                self._start_pool()
                return
            except ZygoteLost as error:
                self._starts.lost(error)
                self._pool.close(last=False)

    def _start_pool(self) -> None:
        """Start the zygotes, wait until they are warm, and poll their pipes."""
        assert self._folder is not None
        wanted = self._starts.libraries
        log, guard = self._outputs.run_log, self._guard
        cgroups = "" if self._memory is None else self._memory.cgroups
        limit_bytes = self._run.cluster.local.log_bytes
        with NoInterrupt(), self._saying_need():
            if self._placement.agents:
                self._pool_or_none = self._agents(StartZygote(wanted, str(log), limit_bytes))
            else:
                self._pool_or_none = ProcessPool(
                    self._folder, log, wanted, guard, cgroups, self._placement, limit_bytes
                )
        with self._saying_need():
            found = self._pool.await_zygote().numerics
        if gpus_found_by_agents(self._run.cluster) and isinstance(self._pool, AgentPool):
            of_device = self._pool.gpus
            self._use_gpus([of_device.get(device.index) for device in self._devices])
            # Agents know the number that the GPU of a device has at present.
            self._gpus = tuple(
                device.index if device.index in of_device else None for device in self._devices
            )
        self.numerics, *of_jobs = (
            f"{found}; {added}" if added else found for added in (self._of_gpus, *self._of_gpus_J)
        )
        self.numerics_J = tuple(of_jobs)
        for fd in self._pool.fds:
            self._poller.register(fd)

    def _agents(self, zygote: StartZygote) -> AgentPool:
        """Start the agents of hosts that are taken for machines of their own."""
        assert self._folder is not None
        log, pins = self._outputs.run_log, pin_files([self._sources]).items()
        files = {f"{APPS}/{name}": data for name, data in pins}
        return agent_pool(self._run.cluster, self._placement, self._folder, log, zygote, files)

    def close(self) -> None:
        """End every process, wait for it and remove the sockets; may be called twice."""
        with NoInterrupt():
            # Processes first: they write to the hub's sockets and to the folder to their end.
            if self._pool_or_none is not None:
                self._pool_or_none.close(last=True)
                self._pool_or_none = None
            if self._hub_or_none is not None:
                if self._poller_or_none is not None:
                    self._poller_or_none.close()
                    self._poller_or_none = None
                self._hub_or_none.close()
                self._hub_or_none = None
            if self._folder is not None:
                remove_folder(self._folder)
                self._folder = None
            if self._held is not None:
                os.close(self._held)
                self._held = None
            # The guard last: should this method be killed, the guard removes the rest.
            if self._guard is not None:
                self._guard.close()
                self._guard = None
            self._outputs.close()
            self._claims.close()

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event at a cluster time."""
        self._pending.wake_at(time_ns)

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Return None: a live run plays a plan event by event, never as a whole."""
        return None

    def link_use(self) -> LinkUse | None:
        """Return None: bytes of real links are not counted."""
        return None

    def next_events(self) -> tuple[AnyEvent, ...]:
        """Wait for the next instant at which something happens; the first call is time zero.

        Returns
        -------
        tuple of AnyEvent
            All events of that instant; empty when nothing can happen without a new assignment.

        Raises
        ------
        EngineError
            If a process of Warren's own is lost.
        """
        # The core asks for more only after it has journalled the last events.
        self._events_journalled()
        clock = self._clock if self._clock is not None else self._begin()
        while True:
            # Messages that are here come before time advances; only then is anything waited for.
            self._receive(0)
            self._advance()
            if events := self._pending.pop():
                self._deliver(events)
                return events
            if self._stuck():
                return ()
            self._receive(self._timeout_ms(clock))

    @property
    def session(self) -> int:
        """The process session id of everything that was started; agents begin their own."""
        assert isinstance(self._pool, ProcessPool)
        return self._pool.session

    def processes(self) -> Mapping[int, Role]:
        """Return the living processes of this run that do a role's work, by process id."""
        forked, parent_of = self._pool.pids(), parents()
        # A process with user code is the child of a process that the zygote forked
        # (``fork_below``).
        below = {parent: pid for pid, parent in parent_of.items() if parent in forked}
        others = {pid: role for pid, role in forked.items() if not isinstance(role, USERS)}
        users = {below[pid]: role for pid, role in forked.items() if pid in below}
        return others | {pid: role for pid, role in users.items() if isinstance(role, USERS)}

    @property
    def _hub(self) -> Hub:
        assert self._hub_or_none is not None
        return self._hub_or_none

    @property
    def _poller(self) -> Poller:
        assert self._poller_or_none is not None
        return self._poller_or_none

    @property
    def _pool(self) -> Processes:
        assert self._pool_or_none is not None
        return self._pool_or_none

    def _begin(self) -> ClusterClock:
        """Start the clock at time zero, or at the time at which a run was cut off."""
        clock = ClusterClock(0, self._scale)
        # Time zero is placed so that the cluster time of now is that of the last event handed out.
        zero_ns = time.monotonic_ns() - clock.pad_ns(self._pending.last_ns)
        self._clock = ClusterClock(zero_ns, self._scale)
        return self._clock

    @contextmanager
    def _saying_need(self) -> Iterator[None]:
        """Add the number of processes needed to the error of a machine that allows too few."""
        try:
            yield
        except NoMoreProcesses:
            devices, jobs = len(self._devices), len(self._jobs)
            # The command, its guard and zygotes; executors; and processes with user code. Each of
            # these counts as two, since one waits for it. A device has one for each job, and
            # another to verify tasks.
            users = devices + jobs * (devices + max(1, self._run.scheduler.servers))
            own = 2 + len(self._placement.places_H)
            plain = not self._run.cluster.is_scheduled
            raise NoMoreProcesses(own + (2 if plain else devices + 2 * users)) from None

    def _events_journalled(self) -> None:  # noqa: B027
        """Note that the events handed out before are in the journal."""

    def _zygote_lost(self, error: ZygoteLost) -> None:
        """Handle the end of a zygote, and of everything that it forked."""
        raise error

    def _placement_now(self) -> HostPlacement:
        """Look up the hosts for processes; they may have changed meanwhile."""
        return placement_of(self._run.cluster)

    def _end_pool(self) -> None:
        """End the rest of the pool; another will begin on the present hosts."""
        # While the pipes are open: an epoll forgets closed files, the poller's tables do not.
        for fd in self._pool.fds:
            self._poller.unregister(fd)
        self._pool.close(last=False)
        self._placement = self._placement_now()

    def _now_ns(self) -> int:
        """Return the cluster time of now."""
        assert self._clock is not None
        return self._clock.cluster_ns(time.monotonic_ns())

    def _receive(self, timeout_ms: int | None) -> None:
        """Handle the messages that have come, after a wait for one of at most ``timeout_ms``.

        Arrivals and wake-ups that are due become events before each message is handled. So a
        message about a job never comes before its arrival.
        """
        ready = self._poller.poll(timeout_ms)
        if self._hub in ready:
            for peer, message, _ in self._hub.drain():
                self._advance()
                self._handle(peer, message)
        for fd in self._pool.fds:
            if fd in ready:
                self._advance()
                try:
                    with self._saying_need():
                        for ticket, role, exited in self._pool.hear(fd):
                            self._process_ended(ticket, role, exited)
                except ZygoteLost as error:
                    # The pipes of ``ready`` are those of a pool that is gone.
                    self._zygote_lost(error)
                    return

    def _advance(self) -> None:
        """Turn arrivals and wake-ups that are due by now into events."""
        if self._clock is not None:
            self._pending.advance(self._now_ns())

    def _timeout_ms(self, clock: ClusterClock) -> int | None:
        """Return how long to wait for the next arrival or wake-up; None: for messages only."""
        due_ns = self._pending.next_due_ns()
        if due_ns is None:
            return None
        # Rounded up: a poll that ends too early would repeat again and again for the rest.
        return max(0, -(-(clock.host_ns(due_ns) - time.monotonic_ns()) // NS_PER_MS))

    def _deliver(self, events: tuple[AnyEvent, ...]) -> None:
        """Note that the core gets these events, and write their metrics to the jobs' files."""
        for event in events:
            if isinstance(event, RoundsDone) and event.loss is not None:
                last = event.round + event.rounds - 1
                metrics = dict(event.metrics)
                self._outputs.add_metrics(event.job, last, event.barrier_ns, event.loss, metrics)

    @abstractmethod
    def _handle(self, peer: bytes, message: object) -> None:
        """Handle one message that a process has sent to the controller."""

    @abstractmethod
    def _process_ended(self, ticket: int, role: Role, exited: Exited) -> None:
        """Handle the end of a process that ended without an order to end."""

    @abstractmethod
    def _stuck(self) -> bool:
        """Tell whether nothing can happen any more without a further assignment."""


def refuse_another_class(
    journal: Path, jobs: Sequence[Job], restart: Restart, numerics: str
) -> None:
    """Refuse to continue a run in another numerics class than it began in.

    Jobs that do not ask for ``numerics: strict`` may go on in any class.

    Parameters
    ----------
    journal : Path
        The journal of the run, which the error names.
    jobs : sequence of Job
        All jobs of the run.
    restart : Restart
        Where the run stood, and its numerics class.
    numerics : str
        The class that the processes compute in now.

    Raises
    ------
    SpecError
        If a strict job has not ended; names both classes and the first such job.
    """
    if restart.numerics in ("", numerics):
        return
    rows = zip(jobs, restart.ended_J, strict=True)
    for job in [job for job, ended in rows if not ended and job.numerics == "strict"][:1]:
        message = (
            f"the run computes in numerics class '{restart.numerics}' and would go on in "
            f"'{numerics}': job {job.name} (numerics: strict) would get other bits"
        )
        raise SpecError(Problem(file=str(journal), message=message))
