"""What an admin asks of a week: who had which devices, how jobs ended, which machines failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from warren.serve.page.text import duration
from warren.serve.records.events import (
    RESTARTED,
    AnyEvent,
    DeviceFaulted,
    JobEnded,
    MachineLost,
)
from warren.serve.records.xid import blames_hardware, xid
from warren.serve.replay.past_jobs import PastAttempt, PastService, past_service

_HOUR_NS: Final = 3_600 * 10**9
_FEW: Final = 10
"""Most faults that are named one by one."""


def week_lines(events: Sequence[AnyEvent], span_ns: int | None) -> list[str]:
    """Return what happened in a span of time before the last event, in a few lines.

    Parameters
    ----------
    events
        All events of the service, in their order.
    span_ns
        The span in nanoseconds; None: all.
    """
    past = past_service(events)
    since_ns = 0 if span_ns is None else past.last_ns - span_ns
    recent = [event for event in events if event.time_ns >= since_ns]
    return [
        *_hours(past, since_ns),
        *_waits(past, since_ns),
        *_ends(recent),
        *_faults(recent),
    ]


def _hours(past: PastService, since_ns: int) -> Iterator[str]:
    hours: dict[str, Counter[str]] = {}
    for job in past.jobs.values():
        for attempt in job.attempts:
            held_ns = (attempt.end_ns or past.last_ns) - max(attempt.start_ns, since_ns)
            for kind in _types(past, attempt):
                hours.setdefault(kind, Counter())[job.user] += max(0, held_ns)
    for kind, users in sorted(hours.items()):
        if total := sum(users.values()):
            shares = ", ".join(
                f"{user} {held / _HOUR_NS:,.1f}" for user, held in users.most_common() if held
            )
            yield f"device hours of {kind}: {total / _HOUR_NS:,.1f} ({shares})"


def _types(past: PastService, attempt: PastAttempt) -> Iterator[str]:
    devices = past.hosts[attempt.host].devices
    return (devices[one].type for one in attempt.devices if one in devices)


def _waits(past: PastService, since_ns: int) -> Iterator[str]:
    waits = [
        max(0, job.attempts[0].start_ns - job.come_ns)
        for job in past.jobs.values()
        if job.attempts and job.attempts[0].start_ns >= since_ns
    ]
    if waits:
        yield f"median wait until the first start: {duration(int(median(waits)))}"


def _ends(recent: Sequence[AnyEvent]) -> Iterator[str]:
    ends = [event for event in recent if isinstance(event, JobEnded)]
    states = Counter(str(end.state) for end in ends)
    if states:
        idle = sum(end.reason.startswith("idle: ") for end in ends)
        how = f", {idle} of them since they did nothing" if idle else ""
        yield f"jobs ended: {', '.join(f'{n:,} {one}' for one, n in states.most_common())}{how}"


def _faults(recent: Sequence[AnyEvent]) -> Iterator[str]:
    faults = Counter(
        (event.host, event.device, event.xid)
        for event in recent
        if isinstance(event, DeviceFaulted) and blames_hardware(event.xid)
    )
    for (host, device, number), times in faults.most_common(_FEW):
        yield f"fault: {xid(number)}, on {device} of {host}{_times(times)}"
    if len(faults) > _FEW:
        yield f"and {len(faults) - _FEW} more faults"
    lost = Counter(
        event.host
        for event in recent
        if isinstance(event, MachineLost) and event.reason != RESTARTED
    )
    for host, times in lost.most_common(_FEW):
        yield f"host {host} was away{_times(times)}"


def _times(times: int) -> str:
    return f", {times:,} times" if times > 1 else ""
