"""What a replay of a service leaves out or assumes: a sentence for each that is there."""

from __future__ import annotations

from collections.abc import Iterator

from warren.serve.records.jobs import JobState
from warren.serve.replay.window import Window


def notes_of(window: Window, *, ends_count: bool) -> tuple[str, ...]:
    """Return the notes on a window; ``ends_count`` as for ``service_run``."""
    return tuple(_notes(window, ends_count=ends_count))


def _notes(window: Window, *, ends_count: bool) -> Iterator[str]:
    for what, number in _counts(window, ends_count=ends_count):
        if number:
            yield f"{what}: {number:,} {'job' if number == 1 else 'jobs'}"
    if any(one.job.spec.priority for one in window.jobs):
        yield "priorities of jobs, and limits and shares of users, play no part in a simulation"
    if window.troubles or window.moved_hosts:
        yield "hosts that came, went, were lost or drained count as there all the time"


def _counts(window: Window, *, ends_count: bool) -> Iterator[tuple[str, int]]:
    """Yield what was done with some jobs, and with how many."""
    jobs, specs = window.jobs, [one.job.spec for one in window.jobs]
    yield (
        "there before, so they come at the beginning, running ones first, with the rest of their "
        "time",
        window.early,
    )
    yield "left out, since they did not run", window.never_ran
    yield (
        "still running at the last event, counted with their time so far",
        sum(one.runs_on for one in jobs),
    )
    bad = (JobState.FAILED, JobState.CANCELLED) if ends_count else ()
    yield (
        "failed or cancelled after they had run, counted with that time",
        sum(one.job.state in bad for one in jobs),
    )
    often = "run once for the sum of the times" if ends_count else "counted with the last time"
    yield f"started more than once, {often}", sum(len(one.attempts) > 1 for one in jobs)
    yield "held, so they come when they were released", sum(one.job.released for one in jobs)
    yield (
        "ready to share devices, which they have alone in a simulation",
        sum(one.share for one in specs),
    )
    if len(window.hosts) > 1:
        yield (
            "bound to a host, which a simulation does not do",
            sum(one.host is not None for one in specs),
        )
    if len(window.types) > 1:
        yield (
            "allowed on several device types, on each of which they take the same time",
            sum(one.device_type not in window.types for one in specs),
        )
