"""The end of jobs that do nothing: only after word of their host that they still do nothing."""

from __future__ import annotations

from typing import Final

from warren.model.units import NS_PER_S
from warren.serve.hosts.port import AttemptIdle
from warren.serve.queue.idleness import idle_ends, no_longer_watched
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent

NEWS_S: Final = 180.0
"""Age of a report from which on it says nothing about the present, in seconds."""


class IdleReaper:
    """Knows which attempts do nothing now, and ends those whose time is over.

    A warning is in the journal; this knowledge is not. After a restart of the service, or of an
    agent, no job is ended before its host has watched it again.

    Parameters
    ----------
    works
        Whether idle jobs are ended at all.
    """

    def __init__(self, works: bool) -> None:
        self._works = works
        self._idle_ns: dict[str, int] = {}

    def note(self, report: AttemptIdle, now_ns: int) -> None:
        """Take over what a host says."""
        if report.since_ns is not None and not report.stirs:
            self._idle_ns[report.attempt] = now_ns
        else:
            self._idle_ns.pop(report.attempt, None)

    def due(self, queue: Queue, now_ns: int) -> list[AnyEvent]:
        """Return the ends of jobs that are due, or the end of all warnings."""
        if not self._works:
            return no_longer_watched(queue, now_ns)
        oldest_ns = now_ns - int(NEWS_S * NS_PER_S)
        self._idle_ns = {name: at for name, at in self._idle_ns.items() if at >= oldest_ns}
        return idle_ends(queue, self._idle_ns.__contains__, now_ns)
