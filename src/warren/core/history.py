"""Reading a journal back: what every report, check and resume starts from."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

from warren.core.journal import Header, PlanRun, Record, Step, decode, plan_outcome
from warren.model.costs import IntArray
from warren.model.errors import JournalError
from warren.model.events import JobCancelled, JobFailed, ParamsSaved, RoundsDone, TasksDone
from warren.model.timeline import Timeline


@dataclass(slots=True, kw_only=True)
class History:
    """A run as its journal tells it. ``finish_ns_J`` is -1 for a job that did not finish."""

    header: Header
    timeline: Timeline
    finish_ns_J: IntArray
    failed: dict[int, str] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    rounds: list[RoundsDone] = field(default_factory=list)
    saved: dict[int, ParamsSaved] = field(default_factory=dict)

    def status(self, job: int) -> str:
        """finished | failed | cancelled | unfinished."""
        if self.finish_ns_J[job] >= 0:
            return "finished"
        if job in self.failed:
            return "failed"
        return "cancelled" if job in self.cancelled else "unfinished"


def read_history(data: bytes | memoryview) -> History:
    """The history a journal tells.

    Raises
    ------
    JournalError
        If the journal is damaged or does not open with a header.
    """
    records = decode(data)
    header = next(records, None)
    if not isinstance(header, Header):
        raise JournalError("a journal opens with a header")
    done: list[TasksDone] = []
    history = History(
        header=header,
        timeline=Timeline.from_events(done),
        finish_ns_J=np.full(len(header.jobs), -1, dtype=np.int64),
    )
    for record in records:
        try:
            _fold(history, done, record)
        except (IndexError, ValueError, TypeError, zlib.error) as error:
            raise JournalError(f"a record does not fit its header: {error}") from error
    if done:
        history.timeline = Timeline.from_events(done)
    return history


def _fold(history: History, done: list[TasksDone], record: Record) -> None:
    if isinstance(record, PlanRun):
        outcome = plan_outcome(record)
        history.timeline, history.finish_ns_J = outcome.timeline, outcome.finish_ns_J
    if not isinstance(record, Step):
        return
    for event in record.events:
        match event:
            case TasksDone():
                done.append(event)
            case RoundsDone():
                history.rounds.append(event)
                if event.finished:
                    history.finish_ns_J[event.job] = event.barrier_ns
            case JobFailed():
                history.failed[event.job] = event.reason
            case JobCancelled():
                history.cancelled.add(event.job)
            case ParamsSaved():
                history.saved[event.job] = event
            case _:
                pass
