"""What both live engines share: a private folder, a socket, a zygote, the clock, and their end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from warren.core.ports import Restart
from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.run_files import RunFiles
from warren.live.process.child_limits import USERS
from warren.live.process.host_placement import HostPlacement, placement_of
from warren.live.process.linux import NoInterrupt, parents
from warren.live.process.memory_limit import MemoryLimit, cgroups_of, memory_limit
from warren.live.process.preload import libraries
from warren.live.process.process_pool import CleanupGuard, ProcessPool, ZygoteLost
from warren.live.process.scratch import free_path
from warren.live.process.specs import Exited, Role
from warren.live.training.app.app_imports import sources_of
from warren.live.training.app.pinned_files import APPS, save_pins
from warren.live.transport.sockets import Hub, Poller, controller_address, remove_folder
from warren.model.decision import Plan
from warren.model.errors import Problem, SpecError
from warren.model.events import AnyEvent, RoundsDone
from warren.model.job import Job
from warren.model.run import Run
from warren.model.timeline import PlanOutcome

_MS: Final = 1_000_000


class LiveEngine(ABC):
    """A port of the core with real processes behind it. Use as a context manager."""

    def __init__(self, run: Run, out_dir: Path | str) -> None:
        self._run, self._jobs, self._devices = run, run.workload.jobs, run.cluster.devices
        self._placement = (
            self._placement_now()
        )  # what is wrong here is told before anything is planned
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
        self._pool_or_none: ProcessPool | None = None
        self._guard: CleanupGuard | None = None
        self._memory: MemoryLimit | None = None
        self._hub_or_none: Hub | None = None
        self._poller_or_none: Poller | None = None
        self.numerics = ""
        """The numerics class that all of the run's processes share."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def resume(self, restart: Restart) -> None:
        """Before ``start``: go on with a run that was cut off."""
        self._restart = restart

    def start(self) -> None:
        """Bring up the zygote; time zero comes with the first ``next_events``.

        Raises
        ------
        EngineError
            If a process of Warren's own does not come up.
        SpecError
            If the run that is to go on computes in another numerics class, or its hosts are not up.
        """
        self._placement = self._placement_now()
        with NoInterrupt():  # what is made must be known before a signal can end the run
            self._folder = free_path(short=True)
            limit_bytes = self._run.cluster.local.memory_bytes
            cgroups = cgroups_of(limit_bytes, self._folder.name, self._placement.quotas)
            self._guard = CleanupGuard(self._folder, cgroups)  # before there is anything to be left
            self._folder.mkdir(mode=0o700)
            self._hub_or_none = Hub(controller_address(str(self._folder)))
            self._memory = memory_limit(limit_bytes, cgroups, self._outputs.run_log)
            self._poller_or_none = Poller()
            self._poller.register(self._hub)
        save_pins(self._folder / APPS, self._sources)
        self._start_pool()
        if self._restart is not None:
            refuse_another_class(self._journal, self._jobs, self._restart, self.numerics)

    def _start_pool(self) -> None:
        assert self._folder is not None
        wanted = libraries(self._sources)
        log, guard = self._outputs.run_log, self._guard
        cgroups = "" if self._memory is None else self._memory.cgroups
        limit_bytes = self._run.cluster.local.log_bytes
        with NoInterrupt():
            self._pool_or_none = ProcessPool(
                self._folder, log, wanted, guard, cgroups, self._placement, limit_bytes
            )
        self.numerics = self._pool.await_zygote().numerics
        for pipe in self._pool.pipes:
            self._poller.register(pipe.fileno())

    def close(self) -> None:
        """End every process, wait for it and remove the sockets; may be called twice."""
        with NoInterrupt():
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
            if self._guard is not None:
                self._guard.close()
                self._guard = None
            self._outputs.close()

    def wake_at(self, time_ns: int) -> None:
        """Ask for a ``Woken`` event."""
        self._pending.wake_at(time_ns)

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Live plans go through events."""
        return None

    def next_events(self) -> tuple[AnyEvent, ...]:
        """Wait for the next instant at which something happens; the first call is time zero.

        Raises
        ------
        EngineError
            If a process of Warren's own is lost.
        """
        self._events_journalled()
        clock = self._clock if self._clock is not None else self._begin()
        while True:
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
        """The process session of everything that was started."""
        return self._pool.session

    def processes(self) -> Mapping[int, Role]:
        """Living processes forked for this run, by process id: who does the work of each role."""
        forked, parent_of = self._pool.pids(), parents()
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
    def _pool(self) -> ProcessPool:
        assert self._pool_or_none is not None
        return self._pool_or_none

    def _begin(self) -> ClusterClock:
        """Time goes on where the agenda stands: at zero, or where a run was cut off."""
        clock = ClusterClock(0, self._scale)
        zero_ns = time.monotonic_ns() - clock.pad_ns(self._pending.last_ns)
        self._clock = ClusterClock(zero_ns, self._scale)
        return self._clock

    def _events_journalled(self) -> None:  # noqa: B027
        """What was handed out before has been journalled."""

    def _zygote_lost(self, error: ZygoteLost) -> None:
        """A zygote is gone, and everything that it forked."""
        raise error

    def _placement_now(self) -> HostPlacement:
        """The hosts that processes are to be on, which may be others than they were."""
        return placement_of(self._run.cluster)

    def _end_pool(self) -> None:
        """End what is left of it; another will begin on the hosts that there are now."""
        for pipe in self._pool.pipes:
            self._poller.unregister(pipe.fileno())
        self._pool.close(last=False)
        self._placement = self._placement_now()

    def _now_ns(self) -> int:
        assert self._clock is not None
        return self._clock.cluster_ns(time.monotonic_ns())

    def _receive(self, timeout_ms: int | None) -> None:
        """Take what is here, after waiting for something if there is time."""
        ready = self._poller.poll(timeout_ms)
        if self._hub in ready:
            for peer, message, _ in self._hub.drain():
                self._advance()
                self._handle(peer, message)
        for host, pipe in enumerate(self._pool.pipes):
            if pipe.fileno() in ready:
                self._advance()
                try:
                    for ticket, role, exited in self._pool.hear(host):
                        self._process_ended(ticket, role, exited)
                except ZygoteLost as error:
                    self._zygote_lost(error)
                    return

    def _advance(self) -> None:
        """Who is to arrive by now has arrived, whatever is said of them next."""
        if self._clock is not None:
            self._pending.advance(self._now_ns())

    def _timeout_ms(self, clock: ClusterClock) -> int | None:
        due_ns = self._pending.next_due_ns()
        if due_ns is None:
            return None
        return max(0, -(-(clock.host_ns(due_ns) - time.monotonic_ns()) // _MS))

    def _deliver(self, events: tuple[AnyEvent, ...]) -> None:
        """The core gets these events; metrics go to their files."""
        for event in events:
            if isinstance(event, RoundsDone) and event.loss is not None:
                last = event.round + event.rounds - 1
                metrics = dict(event.metrics)
                self._outputs.add_metrics(event.job, last, event.barrier_ns, event.loss, metrics)

    @abstractmethod
    def _handle(self, peer: bytes, message: object) -> None:
        """Take one message."""

    @abstractmethod
    def _process_ended(self, ticket: int, role: Role, exited: Exited) -> None:
        """Take note of a process that ended without being told to."""

    @abstractmethod
    def _stuck(self) -> bool:
        """Whether nothing can happen any more without a further assignment."""


def refuse_another_class(
    journal: Path, jobs: Sequence[Job], restart: Restart, numerics: str
) -> None:
    """A run goes on in its own numerics class, unless all that is left of it gave that up.

    Raises
    ------
    SpecError
        Naming both classes and a job.
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
