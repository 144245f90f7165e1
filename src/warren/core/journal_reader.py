"""Reading a journal back: the basis of every report, check and resume.

A crash leaves a torn last frame, which is dropped; damage before it is an error, also in a length,
which makes a frame look torn while whole ones follow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from warren.core.journal import (
    FRAME,
    MAGIC,
    AnswersStep,
    CopyStep,
    DelayStep,
    Header,
    JobsAdded,
    LinksUsed,
    PinnedHeader,
    PinnedResumed,
    PlanAdopted,
    PlanRun,
    Record,
    Resumed,
    Step,
    link_use,
    plan_outcome,
)
from warren.model.costs import IntArray
from warren.model.decision import Assignment, Decision, Group, Shape
from warren.model.errors import JournalError
from warren.model.events import (
    CompDone,
    HostJoined,
    HostLeft,
    JobCancelled,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    ServersMoved,
    TaskDropped,
    TasksDone,
    TasksLost,
)
from warren.model.link_use import LinkUse
from warren.model.timeline import Timeline

_TAGS: Final = tuple(
    msgspec.msgpack.encode(record.__struct_config__.tag)
    for record in (
        Step,
        CopyStep,
        AnswersStep,
        DelayStep,
        PlanAdopted,
        PlanRun,
        Resumed,
        PinnedResumed,
        JobsAdded,
        LinksUsed,
    )
)
"""The tag that follows a record's first byte, as msgpack writes it."""
_DECODER: Final = msgspec.msgpack.Decoder(Record)
_NO_ROWS: Final = Timeline.from_events(())
"""The timeline of a run before anything has been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """One return of a job to its checkpoint: ``passed`` barriers became ``event.round``.

    ``ahead`` counts tasks done of rounds whose barrier had not passed.
    """

    event: RolledBack
    passed: int
    ahead: int

    def redone_tasks(self, scale: int) -> int:
        """Return how many tasks were done and run again, of a job of ``scale`` tasks a round."""
        return (self.passed - self.event.round) * scale + self.ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAnswers:
    """Answers to shape, group and flow at one instant; ``decision`` holds nothing else."""

    time_ns: int
    decision: Decision


@dataclass(slots=True, kw_only=True)
class History:
    """A run as its journal records it. ``finish_ns_J`` is -1 for a job that did not finish.

    Tasks and rounds that a roll-back took back are in neither ``timeline`` nor ``rounds``.
    ``lost``: tasks that went down with a process. ``resumed`` counts how often the run went on
    after it was cut off. ``copies``: tasks that were started once more; ``copies_won`` of them were
    done first; ``dropped`` lists the other runs, as far as they came to their end.
    """

    header: Header
    timeline: Timeline
    finish_ns_J: IntArray
    failed: dict[int, str] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    rounds: list[RoundsDone] = field(default_factory=list)
    saved: dict[int, ParamsSaved] = field(default_factory=dict)
    lost: list[TasksLost] = field(default_factory=list)
    rollbacks: list[Rollback] = field(default_factory=list)
    resumed: int = 0
    copies: int = 0
    copies_won: int = 0
    dropped: list[TaskDropped] = field(default_factory=list)
    moves: list[ServersMoved] = field(default_factory=list)
    void_moves: list[ServersMoved] = field(default_factory=list)
    cuts: dict[tuple[int, int], tuple[TasksDone, ...]] = field(default_factory=dict)
    """By job and round of a checkpoint: the parts of the cut stretches that had run."""
    app_sha256: tuple[str, ...] = ()
    """Hash of the latest text of each job's app; empty: it had none."""
    app_sha256_J: list[list[str]] = field(default_factory=list)
    """Hashes of all texts of each job's app until the job ended, one after the other."""
    answers: list[TimedAnswers] = field(default_factory=list)
    """Answers to shape, group and flow, in order of time: only instants with an answer."""
    host_changes: list[HostLeft | HostJoined] = field(default_factory=list)
    """Opportunistic hosts that came and went, in order of time."""
    added: list[JobsAdded] = field(default_factory=list)
    """Jobs that the run did not know at its beginning; their names are in ``header``, too."""
    link_use: LinkUse | None = None
    """The bytes that passed each link over time; None if they were not counted."""

    def classes_of(self, job: int, host: int | None = None) -> list[tuple[int, int]]:
        """Return the classes of a job's bytes over time: (time in ns, class), where it changes.

        ``host``: on that host; None: on all hosts without a class of their own. It begins with
        class 0 at time 0.
        """
        found = [(0, 0)]
        for one in self.answers:
            # A class of the whole job replaces its earlier classes on single hosts.
            kind = one.decision.classes.get(job, found[-1][1])
            if host is not None:
                kind = one.decision.host_classes.get((host, job), kind)
            if kind != found[-1][1]:
                found.append((one.time_ns, kind))
        return found

    def delays_of(self, job: int) -> list[tuple[int, int]]:
        """Return the delays of a job's next rounds: (time in ns, delay in ns)."""
        return [
            (one.time_ns, one.decision.delays_ns[job])
            for one in self.answers
            if job in one.decision.delays_ns
        ]

    def shapes_of(self, job: int) -> list[tuple[int, Shape]]:
        """Return the shapes that a job was given: (time in ns, shape), in order of time."""
        return [
            (one.time_ns, one.decision.shapes[job])
            for one in self.answers
            if job in one.decision.shapes
        ]

    def servers_of(self, job: int) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Return where a job's servers were: (first round, hosts, bytes of the model on each).

        Without hosts: those of ``static``; without bytes: about the same on each. A shape that no
        barrier has met any more moved nothing.
        """
        moves = [event for event in self.moves if event.job == job]
        void = [event.time_ns for event in self.void_moves if event.job == job]
        stated = [(at, shape) for at, shape in self.shapes_of(job) if shape.servers]
        begun = [r.barrier_ns for r in self.rounds if r.job == job][:1]
        if moves or void:
            begun = begun or [min(void + [event.time_ns - event.took_ns for event in moves])]
        if begun:
            # Later shapes moved servers, or nothing. The first place is that of the last shape
            # before the job had its first state.
            stated = [(at, shape) for at, shape in stated if at < begun[0]]
            stated = stated[:1] if moves or void else stated
        first = stated[-1][1] if stated else None
        begin = (0, (), ()) if first is None else (0, first.servers, first.model_bytes or ())
        return [begin, *((one.round, one.servers, one.model_bytes) for one in moves)]

    def groups_over_time(self) -> list[tuple[int, tuple[Group, ...]]]:
        """Return all groups from each instant on at which they changed: (time in ns, groups)."""
        return [
            (one.time_ns, one.decision.groups)
            for one in self.answers
            if one.decision.groups is not None
        ]

    def apps_of(self, job: int) -> tuple[str, ...]:
        """Return the hashes of the texts of its app that a job had, one after the other."""
        return tuple(filter(None, self.app_sha256_J[job])) if self.app_sha256_J else ()

    def rounds_run(self) -> IntArray:
        """Return how many rounds of each job ran: one past the last round in the timeline."""
        line = self.timeline
        ran_J = np.zeros(len(self.finish_ns_J), dtype=np.int64)
        np.maximum.at(ran_J, line.job_R, line.round_R + line.rounds_R)
        return ran_J

    def status(self, job: int) -> str:
        """Return ``finished``, ``failed``, ``cancelled`` or ``unfinished``."""
        if self.finish_ns_J[job] >= 0:
            return "finished"
        if job in self.failed:
            return "failed"
        return "cancelled" if job in self.cancelled else "unfinished"


def read_history(data: bytes | memoryview) -> History:
    """Read the history in a journal.

    Raises
    ------
    JournalError
        If the journal is damaged or does not open with a header.
    """
    records = decode(data)
    header = next(records, None)
    if not isinstance(header, Header):
        raise JournalError("a journal opens with a header")
    # ``done`` collects rows of the timeline, which a roll-back may still take away; ``racing``
    # holds, by (job, round, shard), copies of tasks without a finished run.
    done: list[TasksDone] = []
    racing: dict[tuple[int, int, int], Assignment] = {}
    history = History(
        header=header,
        timeline=_NO_ROWS,
        finish_ns_J=np.full(len(header.jobs), -1, dtype=np.int64),
    )
    if isinstance(header, PinnedHeader):
        history.app_sha256_J = [[] for _ in header.jobs]
        _take_apps(history, header.app_sha256)
    # A checksum vouches for bytes, not for sense: indices may exceed the names in the header.
    for record in records:
        try:
            _fold(history, done, racing, record)
        except (IndexError, ValueError, TypeError, zlib.error) as error:
            raise JournalError(f"a record does not fit its header: {error}") from error
    # A plan in compiled code wrote its timeline as columns; then there are no events.
    if done:
        history.timeline = Timeline.from_events(done)
    return history


def _fold(
    history: History,
    done: list[TasksDone],
    racing: dict[tuple[int, int, int], Assignment],
    record: Record,
) -> None:
    """Add one record to the history, to ``done`` and to ``racing``."""
    if not isinstance(record, Step):
        _fold_between(history, record)
        return
    for event in record.events:
        match event:
            case TasksDone():
                done.append(event)
                if racing:
                    # The first run that is done settles the race; the copy won if it is that run.
                    copy = racing.pop((event.job, event.round, event.shards[0]), None)
                    history.copies_won += copy is not None and copy.device == event.device
            case CompDone():
                pass
            case RoundsDone():
                history.rounds.append(event)
                if event.cut:
                    history.cuts[event.job, event.round] = event.cut
                if event.finished:
                    history.finish_ns_J[event.job] = event.barrier_ns
            case JobFailed():
                history.failed[event.job] = event.reason
            case JobCancelled():
                history.cancelled.add(event.job)
            case ParamsSaved():
                history.saved[event.job] = event
            case TaskDropped():
                history.dropped.append(event)
            case TasksLost():
                history.lost.append(event)
            case ServersMoved():
                (history.void_moves if event.reason else history.moves).append(event)
            case HostLeft() | HostJoined():
                history.host_changes.append(event)
            case RolledBack():
                _roll_back(history, done, event)
                # The job's tasks under way are gone, copies included.
                for task in [task for task in racing if task[0] == event.job]:
                    del racing[task]
            case _:
                pass
    if isinstance(record, CopyStep):
        racing.update(((one.job, one.round, one.shards[0]), one) for one in record.copy)
        history.copies += len(record.copy)
    if isinstance(record, AnswersStep) and not (answers := record.answers).is_empty:
        _take_answers(history, record, answers)


def _fold_between(history: History, record: Record) -> None:
    """Add a record that is no step to the history."""
    match record:
        case PlanRun():
            outcome = plan_outcome(record)
            history.timeline, history.finish_ns_J = outcome.timeline, outcome.finish_ns_J
        case Resumed():
            history.resumed += 1
            if isinstance(record, PinnedResumed):
                _take_apps(history, record.app_sha256)
        case JobsAdded():
            _add_jobs(history, record)
        case LinksUsed():
            history.link_use = _checked(link_use(record), jobs=len(history.header.jobs))
        case _:
            pass


def _add_jobs(history: History, record: JobsAdded) -> None:
    """Add jobs that have come to the names of the header, and to what there is by job."""
    header, names = history.header, tuple(job.name for job in record.jobs)
    history.header = msgspec.structs.replace(header, jobs=(*header.jobs, *names))
    history.finish_ns_J = np.append(history.finish_ns_J, np.full(len(names), -1, dtype=np.int64))
    if isinstance(header, PinnedHeader):
        history.app_sha256_J += [[] for _ in names]
    history.added.append(record)


def _checked(use: LinkUse, jobs: int) -> LinkUse:
    """Return the use of the links, if its columns go together and its jobs are the header's."""
    columns = (use.link_R, use.job_R, use.class_R, use.bin_R, use.bytes_R)
    if use.bin_ns < 1 or len({len(column) for column in columns}) > 1:
        raise ValueError("columns of what passed the links do not go together")
    if any((column < 0).any() for column in columns) or (use.job_R >= jobs).any():
        raise IndexError("what passed the links names a job that the header does not")
    return use


def _take_answers(history: History, record: Step, answers: Decision) -> None:
    """Add the answers to shape, group and flow at one instant."""
    jobs = len(history.header.jobs)
    named = {*answers.shapes, *answers.classes, *(job for _, job in answers.host_classes)}
    named.update(answers.delays_ns)
    named.update(job for group in answers.groups or () for job in group.jobs)
    if not all(0 <= job < jobs for job in named):
        raise IndexError("an answer names a job that the header does not")
    # Before time starts there are no events.
    time_ns = record.events[-1].time_ns if record.events else 0
    history.answers.append(TimedAnswers(time_ns=time_ns, decision=answers))


def _take_apps(history: History, app_sha256: tuple[str, ...]) -> None:
    """Note that jobs which have not ended have these texts of their apps from now on."""
    if len(app_sha256) != len(history.app_sha256_J):
        raise JournalError("a record does not fit its header: it names other apps")
    history.app_sha256 = app_sha256
    for job, (known, digest) in enumerate(zip(history.app_sha256_J, app_sha256, strict=True)):
        if history.status(job) == "unfinished" and known[-1:] != [digest]:
            known.append(digest)


def _roll_back(history: History, done: list[TasksDone], event: RolledBack) -> None:
    """Take back rounds that run again after a return to a checkpoint.

    If the checkpoint cuts a stretch in two, the part before it stays.
    """
    job, first = event.job, event.round
    # The cost of the roll-back: barriers passed so far, and tasks done of rounds beyond them.
    passed = max((one.round + one.rounds for one in history.rounds if one.job == job), default=0)
    ahead = sum(_rounds_from(one, passed) * len(one.shards) for one in done if one.job == job)
    history.rollbacks.append(Rollback(event=event, passed=passed, ahead=ahead))
    # Checkpoints later than this one are gone for this job.
    history.cuts = {
        key: cut for key, cut in history.cuts.items() if key[0] != job or key[1] <= first
    }
    # The event names the kept part itself, or the barrier of the checkpoint has named it before.
    kept = event.kept or history.cuts.get((job, first), ())
    # A part kept at an earlier return to the same checkpoint stands there already.
    kept_rows = {(one.round, one.shards) for one in kept}
    done[:] = [
        one
        for one in done
        if one.job != job or not (_rounds_from(one, first) or (one.round, one.shards) in kept_rows)
    ]
    done += kept
    history.rounds[:] = [
        msgspec.structs.replace(one, rounds=one.rounds - _rounds_from(one, first))
        if one.job == job
        else one
        for one in history.rounds
        if one.job != job or one.round < first
    ]


def _rounds_from(one: TasksDone | RoundsDone, first: int) -> int:
    """Return how many of an event's rounds are ``first`` or later."""
    return max(0, one.round + one.rounds - max(one.round, first))


def decode(data: bytes | memoryview) -> Iterator[Record]:
    """Yield all records of a journal, in order.

    Raises
    ------
    JournalError
        If the magic line is missing, or a frame before the last one is damaged.
    """
    return (record for record, _ in frames(data))


def is_empty(data: bytes) -> bool:
    """Tell whether a run was cut off before its journal had a whole record.

    Raises
    ------
    JournalError
        As ``decode``.
    """
    return MAGIC.startswith(data) or not any(frames(data))


def frames(data: bytes | memoryview) -> Iterator[tuple[Record, int]]:
    """Yield all records of a journal, each with the number of bytes up to its end.

    Raises
    ------
    JournalError
        As ``decode``.
    """
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise JournalError("not a Warren journal (format 1)")
    offset = len(MAGIC)
    while offset + FRAME.size <= len(view):
        length, checksum = FRAME.unpack_from(view, offset)
        end = offset + FRAME.size + length
        payload = view[offset + FRAME.size : end]
        # Too short for its length: a torn last frame, unless a whole frame follows; then it is the
        # length that is damaged.
        if len(payload) < length:
            if _record_in(bytes(view[offset + 1 :])):
                raise JournalError(f"damaged length at byte {offset}")
            return
        # A wrong checksum in the very last frame comes from a crash in the middle of a write.
        if zlib.crc32(payload) != checksum:
            if end >= len(view):
                return
            raise JournalError(f"damaged record at byte {offset}")
        try:
            record = _DECODER.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise JournalError(f"unreadable record at byte {offset}: {error}") from error
        yield record, end
        offset = end


def _record_in(data: bytes) -> bool:
    """Tell whether a whole frame with a true checksum lies somewhere in ``data``."""
    # Every record is a msgpack array: one byte for its length, then its tag. So a frame's payload
    # begins one byte before a tag, and its length and checksum come right before the payload.
    for tag in _TAGS:
        place = data.find(tag, FRAME.size + 1)
        while place >= 0:
            begin = place - 1
            length, checksum = FRAME.unpack_from(data, begin - FRAME.size)
            payload = data[begin : begin + length]
            if len(payload) == length and zlib.crc32(payload) == checksum:
                return True
            place = data.find(tag, place + 1)
    return False
