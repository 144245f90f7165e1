"""What all routes share: the daemon, who asks, the audit of refusals, and figures of requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from starlette.requests import Request

from warren.model.errors import WarrenError
from warren.model.units import NS_PER_S
from warren.serve.api.callers import Callers
from warren.serve.api.errors import Failure
from warren.serve.api.limits import RateLimit
from warren.serve.forecast.copies import copied
from warren.serve.forecast.run_lengths import lengths_of
from warren.serve.forecast.when import When
from warren.serve.forecast.why import Why, explained
from warren.serve.journal.journal import JournalWriteError
from warren.serve.queue.forecasts import Held
from warren.serve.queue.refusals import Refusal, why_unknown
from warren.serve.queue.requests import Submitted
from warren.serve.queue.state import Queue
from warren.serve.queue.views import JobShown, shown
from warren.serve.records.events import AnyEvent, Refused
from warren.serve.records.jobs import JobState, ServiceJob, attempt_id
from warren.serve.records.users import Caller, User

if TYPE_CHECKING:
    from warren.serve.daemon.daemon import Daemon

T = TypeVar("T", bound=Submitted | list[AnyEvent])

UNKNOWN: Final = "(unknown)"
"""Who asked, in the audit, where no token was right; no user can have this name."""

_REFUSALS: Final = (30, 60.0)
"""Most refusals of a user that the audit keeps, and the seconds in which they are counted."""
_WHYS_MAX: Final = 1_000
"""Most answers to why a job waits that are kept for pages."""
_ACTION_MAX: Final = 300
"""Most characters of an action or a reason in the audit."""


class Histogram:
    """Counts durations by upper bounds, as Prometheus reads them."""

    BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

    def __init__(self) -> None:
        self.counts = [0] * (len(self.BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count a duration in seconds."""
        self.counts[bisect_left(self.BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


class Service:
    """The daemon, as routes use it.

    Parameters
    ----------
    daemon
        The daemon whose queue this is.
    jobs_run_as
        How jobs run, for people: as their users, or all as one account.
    log_place
        Returns where the log of an attempt is, for people, of a host and the attempt's name.
    as_accounts
        Whether commands run as the accounts of their users.

    ``one_look`` is held by the request that looks ahead: that takes long, and one after another.
    """

    def __init__(
        self,
        daemon: Daemon,
        jobs_run_as: str = "",
        log_place: Callable[[str, str], str] = "{}:{}".format,
        *,
        as_accounts: bool = False,
    ) -> None:
        self._log_place = log_place
        self.as_accounts = as_accounts
        self.daemon = daemon
        self.jobs_run_as = jobs_run_as
        self.closing = False
        self.submit_latency = Histogram()
        self._refusals = RateLimit(*_REFUSALS, daemon.now_ns)
        self.one_look = asyncio.Lock()
        self._whys: dict[str, tuple[int, Why]] = {}
        self.callers = Callers(self._users, os.geteuid(), daemon.now_ns, self.refuse)

    @property
    def queue(self) -> Queue:
        """Return the queue; only the daemon changes it."""
        return self.daemon.queue

    @property
    def now_ns(self) -> int:
        """Return the time in nanoseconds since 1970."""
        return self.daemon.now_ns()

    def _users(self) -> Mapping[str, User]:
        return self.queue.users

    def ask(self, request: Callable[[Queue, int], T], caller: Caller, action: str) -> T:
        """Carry out a request; its events are on disk when this returns.

        Parameters
        ----------
        request
            Called with the queue and the time.
        caller, action
            Who asks for what: for the audit, if it is forbidden.

        Raises
        ------
        Failure
            400, 403, 404 or 409 as the queue refuses it, 507 if the disk is full.
        """
        try:
            return self.daemon.ask(request)
        except Refusal as refusal:
            if refusal.kind == "forbidden":
                self.refuse(caller.user, action, str(refusal))
            raise Failure(refusal.kind, str(refusal)) from None
        except JournalWriteError as error:
            raise Failure("full", str(error)) from None
        except WarrenError as error:
            raise Failure("wrong", str(error)) from None

    def check_notify(self, url: str) -> None:
        """Look whether notices can go to a URL.

        Raises
        ------
        Failure
            400 if they cannot; the text does not hold the URL.
        """
        try:
            self.daemon.notifier.check(url)
        except Refusal as refusal:
            raise Failure(refusal.kind, str(refusal)) from None

    def refuse(self, by: str, action: str, reason: str) -> None:
        """Keep a refusal for the audit; of a caller that is refused very often not each one."""
        by = by or UNKNOWN
        if self._refusals.add(by):
            event = Refused(
                time_ns=self.now_ns, by=by, action=action[:_ACTION_MAX], reason=reason[:_ACTION_MAX]
            )
            with contextlib.suppress(JournalWriteError):  # a full disk changes no answer
                self.daemon.record([event])

    async def until(self, done: Callable[[], bool], timeout_s: float, request: Request) -> bool:
        """Wait until something holds, looking after each change of the queue alone.

        Returns whether it holds: the time may be over, the caller gone or the service closing.
        """
        changed = self.daemon.changed
        gone = asyncio.create_task(_disconnected(request))
        try:
            async with asyncio.timeout(timeout_s):
                while not (holds := done()) and not self.closing and not gone.done():
                    change = asyncio.create_task(changed.wait(changed.count))
                    await asyncio.wait((change, gone), return_when=asyncio.FIRST_COMPLETED)
                    change.cancel()
                return holds
        except TimeoutError:
            return done()
        finally:
            gone.cancel()

    def close(self) -> None:
        """Let all requests that wait for something end now."""
        self.closing = True
        self.daemon.changed.note()

    def job(self, job: str, caller: Caller) -> ServiceJob:
        """Return a job by its id, or the caller's last one of a name.

        Raises
        ------
        Failure
            404 if there is none, or if it is an array.
        """
        queue = self.queue
        found = queue.jobs.get(job) or queue.jobs.get(queue.last_named.get((caller.user, job), ""))
        if found is None:
            ids = queue.ids(job)
            if ids:
                raise Failure("unknown", f"{job} is an array; its jobs are {ids[0]} to {ids[-1]}")
            raise Failure("unknown", why_unknown(queue, job, caller.user))
        return found

    async def why(self, job: ServiceJob, fresh_s: float = 0.0) -> Why:
        """Return why a job waits; it is looked for beside the loop, for one request at a time.

        An answer that is younger than ``fresh_s`` seconds is given again.
        """
        async with self.one_look:
            now_ns = self.now_ns
            kept = self._whys.get(job.id)
            if kept is not None and now_ns - kept[0] < fresh_s * NS_PER_S:
                return kept[1]
            queue = copied(self.queue)
            job = queue.jobs.get(job.id, job)
            lengths = lengths_of(self.queue)
            found = await asyncio.to_thread(
                explained, queue, job, now_ns, self.daemon.order, lengths.middle_s
            )
            self._whys[job.id] = now_ns, found
            if len(self._whys) > _WHYS_MAX:
                del self._whys[next(iter(self._whys))]
            return found

    async def shown(self, job: ServiceJob, caller: Caller) -> JobShown:
        """Return what a caller may see of a job; of another user's job no command and no log."""
        expected = await self.daemon.foresight.when(job)
        now_ns = self.now_ns
        seen = shown(self.queue, job, caller, now_ns, self.daemon.order)
        if expected is not None:
            held = self.queue.forecasts.starts.held(now_ns)
            seen = _with_forecast(seen, expected, held, now_ns)
        attempt = job.attempt
        if attempt is None or not may_see(job, caller):
            return seen
        place = self._log_place(attempt.host, attempt_id(job.id, attempt.number))
        return msgspec.structs.replace(seen, log=place)


def may_see(job: ServiceJob, caller: Caller) -> bool:
    """Tell whether a caller may see the command, the folder and the log of a job, and change it."""
    return caller.role == "admin" or caller.user == job.user


def _with_forecast(seen: JobShown, expected: When, held: Held, now_ns: int) -> JobShown:
    """Return a job with when it is expected to start and to end; a running job has started."""
    now_s = now_ns / NS_PER_S
    runs = seen.state is JobState.RUNNING
    return msgspec.structs.replace(
        seen,
        expected_start_s=None if runs else now_s + expected.start_s,
        expected_start_80_s=(
            None if runs else (now_s + expected.start_low_s, now_s + expected.start_high_s)
        ),
        expected_end_s=now_s + expected.end_s,
        expected_end_80_s=(now_s + expected.end_low_s, now_s + expected.end_high_s),
        starts_held=held if held.of else None,
    )


async def _disconnected(request: Request) -> None:
    """Return when the caller has closed the connection; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
