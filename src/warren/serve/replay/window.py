"""The jobs of a service that ran in a stretch of its time, and the hosts that were there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warren.serve.replay.past_jobs import PastAttempt, PastHost, PastJob, PastService


@dataclass(frozen=True, slots=True)
class JobInWindow:
    """A job that ran: when it came, and its attempts that ran, all in the window, in ns.

    ``waited``: it was there at the beginning, but not running. ``runs_on``: it runs at the end.
    """

    job: PastJob
    come_ns: int
    attempts: tuple[PastAttempt, ...]
    runs_on: bool = False

    @property
    def last_try(self) -> int:
        """Return the place of the attempt at which its last try began: others went on from it."""
        place = len(self.attempts) - 1
        while place > 0 and self.attempts[place - 1].goes_on:
            place -= 1
        return place

    def run_ns(self, *, all_attempts: bool) -> int:
        """Return how long it ran, in all its attempts or in its last try, in ns."""
        counted = self.attempts if all_attempts else self.attempts[self.last_try :]
        return sum((one.end_ns or 0) - one.start_ns for one in counted)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a service's time.

    ``jobs`` by the time they came; ``never_ran``: how many others were there and did not run;
    ``early``: how many of ``jobs`` were there before. ``types``: kind of each device type.
    ``begin_ns``: when the first job came, in ns since 1970. ``troubles``: how often a host was lost
    or drained; ``moved_hosts``: how many hosts came or were taken away.
    """

    jobs: tuple[JobInWindow, ...]
    hosts: dict[str, PastHost]
    types: dict[str, str]
    begin_ns: int
    end_ns: int
    never_ran: int
    early: int
    troubles: int
    moved_hosts: int


def window_of(past: PastService, since_ns: int) -> Window:
    """Return what a service did from ``since_ns``, in ns since 1970, to its last event.

    Jobs that had ended before are not in it. Jobs that were there already come at the beginning,
    running ones first, with the rest of their time.
    """
    taken: list[tuple[tuple[int, bool, int], JobInWindow]] = []
    never_ran = early = 0
    for order, job in enumerate(past.jobs.values()):
        ran = [one for one in job.attempts if one.ran]
        inside = tuple(
            replace(one, start_ns=max(one.start_ns, since_ns), end_ns=one.end_ns or past.last_ns)
            for one in ran
            if (one.end_ns or past.last_ns) > since_ns
        )
        if not inside:
            never_ran += not ran and (job.come_ns >= since_ns or job.state is None)
            continue
        early += job.come_ns < since_ns
        come_ns = max(job.come_ns, since_ns)
        waits = not any(one.start_ns < since_ns for one in ran)
        runs_on = job.attempts[-1].end_ns is None
        taken.append(((come_ns, waits, order), JobInWindow(job, come_ns, inside, runs_on)))
    jobs = tuple(one for _, one in sorted(taken, key=lambda item: item[0]))
    begin_ns = min((one.come_ns for one in jobs), default=since_ns)
    used = {attempt.host for one in jobs for attempt in one.attempts}
    hosts = {
        name: host
        for name, host in past.hosts.items()
        if name in used or host.until_ns is None or host.until_ns > begin_ns
    }
    devices = [one for host in hosts.values() for one in host.devices.values()]
    return Window(
        jobs=jobs,
        hosts=hosts,
        types={one.type: one.kind for one in devices},
        begin_ns=begin_ns,
        end_ns=past.last_ns,
        never_ran=never_ran,
        early=early,
        troubles=sum(one >= begin_ns for one in past.troubles),
        moved_hosts=sum(
            host.from_ns > begin_ns or host.until_ns is not None for host in hosts.values()
        ),
    )
