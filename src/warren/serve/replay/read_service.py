"""The journal of a service, read beside its daemon, as a run to try other policies on."""

from __future__ import annotations

from pathlib import Path

from warren.model.errors import JournalError, Problem, SpecError
from warren.model.units import parse_time_s, seconds_to_ns
from warren.runs.comparison.observed import ObservedRun, observed
from warren.serve.journal.journal import Journal
from warren.serve.replay.found import FILE
from warren.serve.replay.past_jobs import past_service
from warren.serve.replay.service_run import PLACE, service_run
from warren.serve.replay.week import week_lines


def load_service(path: str, since: str | None = None, *, ends_count: bool = True) -> ObservedRun:
    """Read what a service did, up to its last event.

    Parameters
    ----------
    path
        The home of the service, or its journal.
    since
        How much time before the last event, such as ``7d``; None: all.
    ends_count
        See ``service_run``.

    Raises
    ------
    SpecError
        If the journal cannot be read, ``since`` is no time, or no job ran in it.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    span_ns = None if since is None else _span_ns(since)
    try:
        with Journal(file, read_only=True) as journal:
            past = past_service(journal.events())
    except (JournalError, KeyError, IndexError) as error:
        raise SpecError(Problem(file=path, message=f"its journal: {error}")) from None
    since_ns = 0 if span_ns is None else past.last_ns - span_ns
    found = service_run(past, path, since_ns=since_ns, ends_count=ends_count)
    if not found.run.workload.jobs:
        when = "" if since is None else f" in the last {since} before its last event"
        raise SpecError(Problem(file=path, message=f"no job ran{when}"))
    return observed(found.run, found.events, PLACE)


def load_week(path: str, since: str | None = None) -> list[str]:
    """Return what an admin asks of the time before a service's last event, in a few lines.

    Parameters
    ----------
    path, since
        As for ``load_service``.

    Raises
    ------
    SpecError
        If the journal cannot be read, or ``since`` is no time.
    """
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    span_ns = None if since is None else _span_ns(since)
    try:
        with Journal(file, read_only=True) as journal:
            return week_lines(list(journal.events()), span_ns)
    except (JournalError, KeyError, IndexError) as error:
        raise SpecError(Problem(file=path, message=f"its journal: {error}")) from None


def _span_ns(since: str) -> int:
    try:
        span_s = parse_time_s(since)
    except ValueError as error:
        raise SpecError(Problem(file="--since", message=str(error))) from None
    if span_s <= 0:
        raise SpecError(Problem(file="--since", message=f"{since!r} is not more than 0"))
    return seconds_to_ns(min(span_s, 1e9))
