"""A run that was cut off goes on: a new core is led to where the old one's journal ends.

The core takes the journal's events again, one step after the other, and the policy, which is pure,
is asked again: that gives its memory back. The records that the core would write are compared with
those of the journal. Nothing is submitted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from warren.core.journal import (
    MAGIC,
    Header,
    JobsAdded,
    LinksUsed,
    PlanAdopted,
    Record,
    Resumed,
    Step,
    added_costs,
    adopted_plan,
)
from warren.core.journal_reader import decode, frames
from warren.core.loop import Core
from warren.core.ports import Restart
from warren.core.state import State, containing
from warren.model.decision import Assignment, Group, Plan, Question, Shape
from warren.model.errors import InfeasibleDecision, JournalError
from warren.model.events import AnyEvent, Woken
from warren.model.link_use import LinkUse
from warren.model.timeline import PlanOutcome

_WHAT: Final = {
    "run": "name",
    "world": "world",
    "place": "place policy",
    "grain": "grain",
    "seed": "seed",
    "jobs": "list of jobs",
    "devices": "cluster",
}
"""Fields of a header that must not change, and their names in messages."""


def catch_up(core: Core, journal: bytes) -> tuple[Restart, int]:
    """Lead a new core to the end of a journal of its run.

    Return where the core's port has to start from, and how many bytes of the journal hold whole
    records: the rest is torn, and the core's next record belongs there. A journal in which nothing
    has happened leaves the core unchanged and gives 0 bytes: the run starts from the beginning.

    Raises
    ------
    JournalError
        If the journal is damaged or belongs to another run.
    InfeasibleDecision
        If the policy decides otherwise than it did.
    """
    records, size = _whole(journal)
    past = _Past(core.policy.name, records)
    # While the past is played again, it takes the place of the port and of the journal.
    if any(isinstance(one, Step) and one.events for one in records):
        port = core.port
        sink = core.sink
        observe = core.observe
        core.port = past
        core.sink = past.compare
        core.observe = None
        try:
            past.play(core)
        finally:
            core.port = port
            core.sink = sink
            core.observe = observe
    else:
        size = 0
    state = core.state
    restart = Restart(
        now_ns=state.now_ns,
        rounds_J=tuple(_known_round(state, job) for job in range(len(state.groups))),
        arrived_J=tuple(state.arrived_J.tolist()),
        ended_J=tuple(state.done_J.tolist()),
        wakes_ns=tuple(past.wakes_ns),
        numerics=past.numerics if size else "",
    )
    return restart, size


def _whole(journal: bytes) -> tuple[list[Record], int]:
    """Return all whole records of a journal, and how many bytes they take."""
    # Cut off before or within the magic line: nothing was written.
    if MAGIC.startswith(journal[: len(MAGIC)]) and len(journal) <= len(MAGIC):
        return [], 0
    pairs = list(frames(journal))
    return [record for record, _ in pairs], pairs[-1][1] if pairs else 0


def _known_round(state: State, job: int) -> int:
    """Return the last round that the job may go back to: barriers passed, less one in a stretch.

    The next barrier would report the parts of the stretch that have run (``RoundsDone.cut``), and
    that barrier is not in the journal.
    """
    passed = int(state.round_J[job])
    first = containing(state.groups[job], passed)
    return passed if first in (None, passed) else passed - 1


class _Past:
    """A journal's record of a run, as a port that gives its events and a sink that compares.

    ``_place`` is the position of the record that the core has to write next.
    """

    def __init__(self, policy: str, records: list[Record]) -> None:
        self._policy = policy
        self._records = records
        self._place = 0
        self.wakes_ns: list[int] = []

    @property
    def numerics(self) -> str:
        """The numerics class that the run computes in."""
        header = self._records[0]
        return header.numerics if isinstance(header, Header) else ""

    def play(self, core: Core) -> None:
        """Lead the core through everything again, from the header to the last whole record."""
        # Each call writes records, which ``compare`` counts; so ``_place`` moves on with every one.
        core.begin(self._plan())
        while self._place < len(self._records):
            match self._records[self._place]:
                case Resumed():
                    core.go_on()
                case JobsAdded() as added:
                    core.add(added.jobs, added_costs(added))
                case Step(events=events) if events:
                    self._woken(events)
                    core.step(events)
                case LinksUsed():
                    # The run was over: nothing was decided on it.
                    self._place += 1
                case _:
                    raise self._otherwise()

    def compare(self, data: bytes) -> None:
        """Check that the record the core writes is the journal's next."""
        written = _only(decode(data if data.startswith(MAGIC) else MAGIC + data))
        known = self._records[self._place]
        if isinstance(written, Header):
            _check_header(written, known)
        elif isinstance(written, Resumed) and isinstance(known, Resumed):
            if written.time_ns != known.time_ns:  # it may have gone on with other texts of apps
                raise self._otherwise()
        # A plan is not compared: it is the journal's own, which ``begin`` was given.
        elif written != known and not (
            isinstance(written, PlanAdopted) and type(known) is type(written)
        ):
            raise self._otherwise()
        self._place += 1

    def _plan(self) -> Plan | None:
        """Return the plan that the policy answered then; None if it answered none."""
        # Before a plan there may be a step: other answers from before time started.
        found = [one for one in self._records[1:3] if isinstance(one, PlanAdopted)]
        return adopted_plan(found[0]) if found else None

    def _woken(self, events: tuple[AnyEvent, ...]) -> None:
        """Strike off wake-ups that have come."""
        for event in events:
            if isinstance(event, Woken):
                self.wakes_ns = [one for one in self.wakes_ns if one > event.time_ns]

    def _otherwise(self) -> InfeasibleDecision:
        return InfeasibleDecision(
            f"policy {self._policy} decided otherwise when asked again at record {self._place}: "
            "is it deterministic?"
        )

    # The methods of a port: everything was done when the journal was written.

    @property
    def carries(self) -> frozenset[Question]:
        """Return all questions: the run's own port has refused those that it does not carry."""
        return frozenset(Question)

    def reshape(self, shapes: Mapping[int, Shape]) -> None:
        """Do nothing: jobs have had their shapes."""

    def regroup(self, groups: tuple[Group, ...]) -> None:
        """Form no groups: they were formed then."""

    def classify(
        self, classes: Mapping[int, int], host_classes: Mapping[tuple[int, int], int]
    ) -> None:
        """Do nothing: jobs have had their classes."""

    def delay(self, delays_ns: Mapping[int, int]) -> None:
        """Do nothing: delays that were not served then are void."""

    def submit(self, assignments: tuple[Assignment, ...]) -> None:
        """Submit nothing: these assignments were submitted then."""

    def copy(self, copies: tuple[Assignment, ...]) -> None:
        """Start nothing: these copies were started then."""

    def wake_at(self, time_ns: int) -> None:
        """Keep a wake-up that was asked for: the new port has to know it if it has not come."""
        self.wakes_ns.append(time_ns)

    def next_events(self) -> tuple[AnyEvent, ...]:
        """Return no events: ``play`` drives the core and never asks."""
        return ()

    def run_plan(self, plan: Plan) -> PlanOutcome | None:
        """Return None: plans of live runs go through events."""
        return None

    def link_use(self) -> LinkUse | None:
        """Return None: ``play`` does not lead the core to the run's end and never asks."""
        return None


def _check_header(written: Header, known: Record) -> None:
    """Refuse a journal whose header differs from the header that this run would write."""
    if not isinstance(known, Header):
        raise JournalError("a journal opens with a header")
    for name, what in _WHAT.items():
        if getattr(written, name) != getattr(known, name):
            raise JournalError(f"was written by a run with another {what}")
    if written.inputs != known.inputs:
        raise JournalError("the run's settings, jobs or costs were changed since it began")


def _only(records: Iterator[Record]) -> Record:
    """Return the only record: the core writes one at a time."""
    (record,) = records
    return record
