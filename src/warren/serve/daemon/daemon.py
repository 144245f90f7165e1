"""The daemon: requests and reports become events on disk, events become orders to hosts.

All of it happens in one thread, in one event loop. An event is in the journal before the queue
has it, before a caller is answered, and before a host hears of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeVar

import msgspec

from warren.model.errors import one_line
from warren.model.units import NS_PER_S
from warren.serve.daemon.changes import Changes
from warren.serve.daemon.foresight import Foresight
from warren.serve.daemon.idle import IdleReaper
from warren.serve.daemon.orders import start_order
from warren.serve.daemon.self_tests import TestOrders
from warren.serve.hosts.port import (
    AgentJoined,
    AgentLost,
    AttemptIdle,
    CommandEnded,
    Hosts,
    Report,
)
from warren.serve.journal.journal import Journal, JournalWriteError
from warren.serve.notices.notifier import Notifier
from warren.serve.queue.reports import events_of
from warren.serve.queue.requests import cancel
from warren.serve.queue.state import Queue
from warren.serve.records.events import (
    RESTARTED,
    AnyEvent,
    AttemptBegun,
    CancelAsked,
    IdleEndAsked,
    MachineLost,
    PreemptAsked,
)
from warren.serve.records.jobs import Attempt, ServiceJob, attempt_id, resume_of
from warren.serve.records.machines import Machine
from warren.serve.records.users import Caller, account_name
from warren.serve.schedule.decide import decide
from warren.serve.schedule.policy_order import PlacePolicy
from warren.serve.schedule.preemption import PreemptionRules, preemptions

Order = Literal["strict", "backfill"]
Answer = TypeVar("Answer")

TICK_S: Final = 3.0
"""Time between two looks at what no event announces, in seconds."""
LOOK_NS: Final = 5 * NS_PER_S
"""Shortest time between two looks for jobs that may be preempted, in nanoseconds."""
LOOK_AGAIN_NS: Final = 30 * NS_PER_S
"""Time between two looks, or questions to a policy, where only time has passed, in nanoseconds."""
_LATEST_NS: Final = 1 << 63
"""Time that no clock reports, in nanoseconds since 1970."""
_STOP_S: Final = 10.0
"""Longest wait for jobs to end after their grace, when the service stops them, in seconds."""


class Daemon:
    """The queue, its journal and its hosts. ``start`` it, ``stop`` it, ``ask`` it.

    Parameters
    ----------
    journal
        The open journal. Its events are read at once.
    hosts
        All hosts.
    order
        How jobs may overtake each other.
    policy
        The place policy in whose order jobs start; None: by fair shares.
    preempts
        The limits within which running jobs are asked to leave for others; None: none is.
    now_ns
        The clock, in nanoseconds since 1970.
    account_of
        Returns the account that commands of an account's users run as; None: the agent's.
    log_limit_bytes
        Most bytes that the log of an attempt takes on disk; None: no limit.
    tick_s
        Time between two looks at what no event announces, in seconds.
    ends_idle
        Whether jobs that did nothing since their warning are ended.
    notifier
        Sends notices to users and admins; None: to users alone.
    foresees
        Whether forecasts of new jobs are put on record.
    say
        Called with each line that an operator should read.
    """

    def __init__(
        self,
        journal: Journal,
        hosts: Hosts,
        *,
        order: Order = "strict",
        policy: PlacePolicy | None = None,
        preempts: PreemptionRules | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        account_of: Callable[[str], str | None] = lambda _: None,
        log_limit_bytes: int | None = None,
        tick_s: float = TICK_S,
        ends_idle: bool = False,
        notifier: Notifier | None = None,
        foresees: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.journal = journal
        self.hosts = hosts
        self.order: Order = order
        self.policy = policy
        self.preempts = preempts
        self.queue = _replayed(journal, policy, say)
        self.changed = Changes()
        self.disk_error: str | None = None
        self.now_ns = now_ns
        self._account_of = account_of
        self._log_limit_bytes = log_limit_bytes
        self._tick_s = tick_s
        self.foresight = Foresight(lambda: self.queue, order, now_ns, self.record, say)
        self._foresees = foresees
        self._say = say
        self._idle = IdleReaper(ends_idle)
        self._tests = TestOrders(hosts)
        self.notifier = notifier or Notifier(say=say)
        self._reports: deque[Report] = deque()
        self._unused: dict[str, AgentJoined] = {}
        self._turn: asyncio.Handle | None = None
        self._ticks: asyncio.Task[None] | None = None
        self._starts_jobs = True
        self._fault: str | None = None
        # The latest decision, and the latest look for jobs that may be preempted: the version of
        # the queue, and the time.
        self._decided = self._looked = (-1, 0)

    async def start(self) -> None:
        """Open the hosts, and begin to schedule.

        Raises JournalWriteError if the disk does not take events.
        """
        self.record(
            [
                MachineLost(time_ns=self.now_ns(), host=name, reason=RESTARTED)
                for name, machine in self.queue.machines.items()
                if machine.connected
            ]
        )
        await self.hosts.open(self.report)
        self._ticks = asyncio.get_running_loop().create_task(self._tick())
        self._soon()

    async def stop(self) -> None:
        """Close the hosts; jobs run on. The journal stays open."""
        self._starts_jobs = False
        if self._ticks is not None:
            self._ticks.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticks
        await self.foresight.stop()
        if self._turn is not None:
            self._turn.cancel()
        await self.hosts.close()

    async def end_jobs(self) -> None:
        """Start no job any more, cancel those that run, and wait until they have ended.

        Jobs of hosts that are not connected are left alone.
        """
        self._starts_jobs = False
        running = [
            (job, attempt)
            for name, machine in self.queue.machines.items()
            if machine.connected
            for job, attempt in self._running_on(name)
        ]
        if not running:
            return
        service = Caller(user="", role="admin")
        self.ask(lambda queue, now: cancel(queue, [job.id for job, _ in running], service, now))
        names = [attempt_id(job.id, attempt.number) for job, attempt in running]
        longest_s = max(job.spec.grace_s for job, _ in running) + _STOP_S
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while any(self._runs(name) for name in names):
                    await self.changed.wait(self.changed.count)

    def ask(self, request: Callable[[Queue, int], Answer]) -> Answer:
        """Carry out a request, and return its answer when its events are on disk.

        Parameters
        ----------
        request
            Called with the queue and the time in nanoseconds since 1970. It returns the list of its
            events, or a value with a field ``events``.

        Raises
        ------
        Refusal
            If the request is refused. Nothing was changed.
        JournalWriteError
            If the disk does not take events. Nothing was changed.
        """
        answer = request(self.queue, self.now_ns())
        self.record(getattr(answer, "events", answer))  # type: ignore[arg-type]
        return answer

    def record(self, events: Sequence[AnyEvent]) -> None:
        """Write events to the journal, apply them, and let hosts know what they mean.

        Raises JournalWriteError if the disk does not take them. Nothing was changed.
        """
        if not events:
            return
        self._append(events)
        self._apply(events)
        self._follow(events)

    def report(self, report: Report) -> None:
        """Take a report of a host; it is worked on in the next turn of the loop."""
        if isinstance(report, AgentLost):
            # A join that has waited for the disk is past: orders that follow from it would reach
            # the next connection.
            self._reports = deque(one for one in self._reports if not _is_join(one, report.host))
        self._reports.append(report)
        self._soon()

    def _soon(self) -> None:
        """Work on reports and schedule, once, in the next turn of the loop."""
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        self._turn = None
        with suppress(JournalWriteError):  # said already; the next tick tries again
            self._take_reports()
            if self._starts_jobs:
                self._schedule()

    def _schedule(self) -> None:
        """Start the jobs that may start, and ask others to leave for those that may not."""
        now_ns = self.now_ns()
        # A policy takes long to ask, and time alone rarely changes its answer.
        if self.policy is None or self._is_due(self._decided, 0, now_ns):
            self.record(decide(self.queue, now_ns, self.order))
            self._decided = self.queue.version, now_ns
        if self.preempts is not None and self._is_due(self._looked, LOOK_NS, now_ns):
            self.record(preemptions(self.queue, now_ns, self.preempts))
            self._looked = self.queue.version, now_ns
        if self.policy is not None and self.policy.fault != self._fault:
            self._fault = self.policy.fault
            self._say(f"{self._fault}; jobs go in the order of their submission instead")

    def _is_due(self, latest: tuple[int, int], pause_ns: int, now_ns: int) -> bool:
        """Tell whether to look again: after a pause if the queue has changed, else after longer."""
        changed = latest[0] != self.queue.version
        return now_ns >= latest[1] + (pause_ns if changed else LOOK_AGAIN_NS)

    async def _tick(self) -> None:
        """Look now and then: for what has waited for the disk, and what depends on time alone."""
        while True:
            await asyncio.sleep(self._tick_s)
            with suppress(JournalWriteError):  # said already; the next tick tries again
                self.record(self._idle.due(self.queue, self.now_ns()))
            self._tests.order(self.queue, self.now_ns())
            self.notifier.look(self.queue, self.now_ns())
            self._soon()
            if self._foresees:
                self.foresight.begin()

    def _append(self, events: Sequence[AnyEvent]) -> None:
        """Write events to the journal, and say when the disk begins or ceases to refuse them."""
        try:
            self.journal.append(events)
        except JournalWriteError as error:
            if self.disk_error is None:
                self._say(str(error))
                self.notifier.disk_refuses(str(error))
            self.disk_error = str(error)
            raise
        if self.disk_error is not None:
            self._say(f"{self.journal.path}: can be written again")
            self.disk_error = None

    def _apply(self, events: Sequence[AnyEvent]) -> None:
        _apply_all(self.queue, events, self._say)

    def _follow(self, events: Sequence[AnyEvent]) -> None:
        """Give the orders that events on disk mean, and wake what waits for changes."""
        if self._foresees:
            self.foresight.note(events)
        for event in events:
            if isinstance(event, AttemptBegun):
                job = self.queue.jobs[event.job]
                self._order_start(job, job.attempts[event.attempt - 1])
            elif isinstance(event, CancelAsked | PreemptAsked | IdleEndAsked):
                self._order_stop(self.queue.jobs[event.job])
        self.notifier.take(self.queue, events)
        self.changed.note()
        self._soon()

    def _order_start(self, job: ServiceJob, attempt: Attempt) -> None:
        account = self._account_of(account_name(self.queue.users, job.user))
        order = start_order(job, attempt, account, self._log_limit_bytes)
        self.hosts.start(attempt.host, order)

    def _order_stop(self, job: ServiceJob) -> None:
        """Have the host of a job end it, if it runs: by a cancel, or else by a preemption."""
        attempt, resume = job.attempt, resume_of(job.spec)
        if attempt is None or attempt.ended_ns is not None:
            return
        name = attempt_id(job.id, attempt.number)
        is_preempted = job.cancelled_by is None and not job.idle.end_reason
        if is_preempted and resume is not None:
            self.hosts.stop(attempt.host, name, resume.grace_s, preempt=True)
        else:
            self.hosts.stop(attempt.host, name, job.spec.grace_s)

    def _take_reports(self) -> None:
        """Work on the reports that have come, with one sync of the disk for all of them.

        Raises JournalWriteError if the disk does not take their events; they wait.
        """
        while self._reports:
            # After an error of the disk one report shows whether it takes events again.
            count = 1 if self.disk_error else len(self._reports)
            taken = [self._reports[i] for i in range(count)]
            events: list[AnyEvent] = []
            for report in taken:
                found = self._events_of(report)
                events += found
                if count > 1:
                    # The next report finds the queue as this one leaves it.
                    self._apply(found)
            if count > 1:
                self._append_applied(events)
                if events:
                    self._follow(events)
            else:
                self.record(events)
            for _ in taken:
                self._reports.popleft()
            for report in taken:
                self._answer(report)

    def _append_applied(self, events: Sequence[AnyEvent]) -> None:
        """Write events that the queue has already; if it fails the queue is as it is on disk."""
        try:
            self._append(events)
        except JournalWriteError:
            self.queue = _replayed(self.journal, self.policy, self._say)
            raise

    def _events_of(self, report: Report) -> list[AnyEvent]:
        """Return the events of a report; a report that makes no sense is named and left out."""
        try:
            if isinstance(report, AgentLost):
                self._unused.pop(report.host, None)
            if isinstance(report, AgentJoined) and not self._may_use(report):
                return []
            if abs(getattr(report, "time_ns", 0)) >= _LATEST_NS:
                raise ValueError("its clock is wrong")
            if isinstance(report, AttemptIdle):
                self._idle.note(report, self.now_ns())
            return events_of(self.queue, report, self.now_ns())
        except Exception as error:  # one host must not stop the others
            self._say(f"a report of a host is left out: {report!r:.200}: {one_line(error)}")
            return []

    def _may_use(self, report: AgentJoined) -> bool:
        """Tell whether a host may be used from now on.

        A host that is connected says nothing new: what it lists is older than later orders. A host
        with attempts of another queue, or attempts that were given up while it was away, is used
        once they have ended.
        """
        host = report.machine.name
        waiting = self._unused.get(host)
        if waiting is not None and waiting is not report:
            return False  # it is the same connection, and attempts may have ended since
        self._unused.pop(host, None)
        known = self.queue.machines.get(host)
        if known is not None and known.connected:
            return False
        unknown = [name for name in report.attempts if self._attempt(name) is None]
        over = self._over(report)
        if unknown:
            self._say(
                f"machine {host} is not used: it has attempts that this queue does not know "
                f"({', '.join(unknown[:3])}); end them, or start its agent with another home"
            )
        elif over:
            self._say(
                f"machine {host} is used once attempts that ended without it are gone "
                f"({', '.join(over[:3])}); they are killed"
            )
        if unknown or over:
            self._unused[host] = report
        return host not in self._unused

    def _answer(self, report: Report) -> None:
        """Answer a report whose events are on disk: repeat orders, or let the host forget."""
        if isinstance(report, CommandEnded):
            # Also where the end was known: the host reports until it may forget.
            found = self._attempt(report.attempt)
            if found is None or found[1].ended_ns is not None:
                self.hosts.forget(report.host, report.attempt)
            joined = self._unused.get(report.host)
            if joined is not None:
                left = tuple(name for name in joined.attempts if name != report.attempt)
                joined = msgspec.structs.replace(joined, attempts=left)
                self._unused[report.host] = joined  # another end may come in the same turn
                if not self._over(joined) and all(map(self._attempt, left)):
                    self.report(joined)
        elif isinstance(report, AgentJoined):
            host = report.machine.name
            if host not in self._unused:
                self._say(_joined_line(report.machine))
                self._meet(report)
                return
            for name in self._over(report):
                # Its job may run elsewhere by now. If it has ended its report comes once more.
                self.hosts.stop(host, name, 0.0)

    def _meet(self, report: AgentJoined) -> None:
        """Give orders again that a host may have missed while it was not connected."""
        host = report.machine.name
        self._tests.joined(host)
        self._tests.order(self.queue, self.now_ns())
        for job, attempt in self._running_on(host):
            if attempt_id(job.id, attempt.number) not in report.attempts:
                self._order_start(job, attempt)
            asked = job.cancelled_by is not None or bool(job.idle.end_reason)
            if asked or attempt.preempt_ns is not None:
                self._order_stop(job)

    def _running_on(self, host: str) -> list[tuple[ServiceJob, Attempt]]:
        """Return the jobs that hold devices of a host, each with the attempt that does."""
        jobs = (self.queue.jobs[name] for name in self.queue.machines[host].attempts)
        return [(job, job.attempts[-1]) for job in jobs]

    def _attempt(self, name: str) -> tuple[ServiceJob, Attempt] | None:
        """Return the job and the attempt of this name; None if the queue has none."""
        job_id, _, number = name.rpartition(".")
        job = self.queue.jobs.get(job_id)
        if job is None or not number.isdecimal() or not 1 <= int(number) <= len(job.attempts):
            return None
        return job, job.attempts[int(number) - 1]

    def _over(self, report: AgentJoined) -> list[str]:
        """Return the attempts of a host that have ended for the queue."""
        found = {name: self._attempt(name) for name in report.attempts}
        return [name for name, one in found.items() if one and one[1].ended_ns is not None]

    def _runs(self, name: str) -> bool:
        """Tell whether an attempt has not ended."""
        found = self._attempt(name)
        return found is not None and found[1].ended_ns is None


def _is_join(report: Report, host: str) -> bool:
    return isinstance(report, AgentJoined) and report.machine.name == host


def _joined_line(machine: Machine) -> str:
    """Return what an operator should know of a machine that has joined."""
    types = Counter(device.type for device in machine.devices)
    devices = ", ".join(f"{count} {name}" for name, count in types.items()) or "no devices"
    return f"machine {machine.name} joined: {devices}; jobs are held by: {machine.limits}"


def _replayed(journal: Journal, policy: PlacePolicy | None, say: Callable[[str], None]) -> Queue:
    """Return the queue as the events on disk have made it."""
    queue = Queue()
    queue.policy = policy
    _apply_all(queue, journal.events(), say)
    return queue


def _apply_all(queue: Queue, events: Iterable[AnyEvent], say: Callable[[str], None]) -> None:
    """Apply events; an event that cannot happen is left out, at each start once more."""
    for event in events:
        try:
            queue.apply(event)
        except Exception as error:  # a fault of the program must not keep it from starting
            say(f"an event that cannot happen is left out: {event!r:.200}: {one_line(error)}")
