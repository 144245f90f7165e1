"""Shifted rounds: jobs on one link begin their rounds at times at which they send in turn.

What
    Jobs that share links get a place each on a common circle, so that their bursts overlap least. A
    job is delayed once to come to its place, and again when its rounds have drifted from it.
Source
    CASSINI (NSDI'24), 3 to 5: the geometric abstraction with its unified circle, the affinity graph
    of jobs and links, time shifts, and their adjustment at a drift of 5 % of an iteration. It has
    no published scheduler; this is CASSINI-like, by the paper's text.
Differs
    It only shifts: CASSINI also chooses among placements by their compatibility, which place does
    here. One optimum over all links replaces one a link and a walk (``solve.flows.rotations``).
    A round's length and phases are not profiled by counters but follow from bytes and from costs,
    until tasks have computed for longer in four rounds, or a round was faster. A load that a link
    has no time for makes rounds longer. Periods become whole numbers of a unit by at most
    ``drift``; a job without such a ratio of lengths has no turn. A place is relative to the other
    jobs, with no origin in time: at each barrier those jobs wait that make all together wait
    least, so a delay common to all of them costs nothing. The wait of a job is limited: a period
    when jobs come or go, and ``budget`` of its rounds, so that bursts that do not fit cost little.
    A delay acts at the barrier after the one at which it was decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import msgspec
from immutables import Map

from warren.model.decision import MOST_DELAY_NS, NOTHING, Decision, Question
from warren.model.events import Event, RolledBack, RoundsDone, TasksDone
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.job_traffic import TOLD, JobTraffic
from warren.policy.common.round_phases import RoundPhases, round_phases
from warren.policy.flow.changed import known_jobs
from warren.policy.flow.circles import Turn, turns_of

_RECENT: Final = 4
"""Rounds that show that tasks compute for longer than the costs say. The lengths of the rounds
themselves do not count: rounds that meet others on a link take longer, and would seem to fill it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds:
    """The known facts about the rounds of a job.

    ``start_ns``: when the present one began. ``pending_ns``: the answered delay that the next
    barrier meets. ``busy_ns``: computing time of each device for the present one; ``recent_ns``:
    that of the busiest device in each of the last ones. ``credit_ns``: time that the policy may
    still make it wait.
    """

    start_ns: int
    pending_ns: int = 0
    busy_ns: Map[int, int] = field(default_factory=Map)
    recent_ns: tuple[int, ...] = ()
    credit_ns: int = 0

    def computed(self, event: TasksDone) -> _Rounds:
        """Return it after tasks."""
        busy_ns = self.busy_ns.get(event.device, 0) + event.busy_ns
        return replace(self, busy_ns=self.busy_ns.set(event.device, busy_ns))

    def passed(self, event: RoundsDone, budget: float) -> _Rounds:
        """Return it after a barrier."""
        took_ns = max(0, event.barrier_ns - self.start_ns) // event.rounds
        comp_ns = max(self.busy_ns.values(), default=0) // event.rounds
        # Saved up for one round at most, so that nothing costs much at once.
        earned_ns = round(budget * took_ns * event.rounds)
        credit_ns = max(self.credit_ns, min(self.credit_ns + earned_ns, took_ns))
        return _Rounds(
            start_ns=event.barrier_ns + self.pending_ns,
            recent_ns=(*self.recent_ns, comp_ns)[-_RECENT:],
            credit_ns=credit_ns,
        )

    @property
    def comp_ns(self) -> int:
        """Return the least computing time of a round, by the last ones; 0: they were too few."""
        return min(self.recent_ns) if len(self.recent_ns) == _RECENT else 0


@dataclass(frozen=True, slots=True)
class _Memory:
    """``known``: the jobs that turns were given to, or could have been; ``lengths_ns``: of rounds,
    alone, as they were thought to be then."""

    traffic: JobTraffic = field(default_factory=JobTraffic)
    rounds: Map[int, _Rounds] = field(default_factory=Map)
    known: tuple[int, ...] = ()
    lengths_ns: Mapping[int, int] = field(default_factory=dict)
    turns: Mapping[int, Turn] = field(default_factory=dict)

    def after(self, view: View, budget: float) -> tuple[_Memory, list[int]]:
        """Return it with the events of this instant, and the jobs that passed a barrier."""
        rounds, passed = self.rounds, list[int]()
        for event in view.changes:
            if isinstance(event, TasksDone):
                if event.job in rounds:
                    rounds = rounds.set(event.job, rounds[event.job].computed(event))
            elif isinstance(event, RoundsDone):
                before = rounds.get(event.job)
                if before is None:
                    rounds = rounds.set(event.job, _Rounds(start_ns=event.barrier_ns))
                else:
                    rounds = rounds.set(event.job, before.passed(event, budget))
                    passed.append(event.job)
            elif isinstance(event, RolledBack) and event.job in rounds:
                rounds = rounds.delete(event.job)
        return replace(self, traffic=self.traffic.after(view), rounds=rounds), passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Shift rounds of jobs on one link by ``slices`` of the shortest, and again after ``drift``."""

    drift: float = 0.05
    slices: int = 40
    budget: float = 0.05

    name: ClassVar[str] = "shift"
    source: ClassVar[str] = "CASSINI-like (NSDI'24) 3-5"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = TOLD

    def __post_init__(self) -> None:
        """Refuse options out of their ranges."""
        if not 0 < self.drift <= 0.5:
            raise ValueError(f"drift must be above 0, at most 0.5, got {self.drift:g}")
        if not 2 <= self.slices <= 1000:
            raise ValueError(f"slices must be 2 to 1000, got {self.slices}")
        if not 0 <= self.budget <= 1:
            raise ValueError(f"budget must be 0 to 1, got {self.budget:g}")

    def initial(self, view: View) -> _Memory:
        """Return a memory of nothing."""
        return _Memory()

    def decide(self, view: View, memory: _Memory) -> tuple[Decision, _Memory]:
        """Give turns if jobs have come, gone or changed their times; else keep jobs in theirs."""
        seen, passed = memory.after(view, self.budget)
        there = [job for job in known_jobs(view, seen.traffic) if view.round_bytes_J[job] > 0]
        known = tuple(job for job in there if job in seen.rounds)
        circles = {seen.turns[job].circle for job in passed if job in seen.turns}
        wanted: dict[int, int] = {}
        is_changed = known != seen.known
        is_new = is_changed or self._is_otherwise(view, seen, passed)
        if is_new:
            # An answer for a turn that a job no longer has is taken back.
            wanted = {job: 0 for job in seen.known if job in seen.rounds}
            seen = self._give_turns(view, seen, known)
            circles = {turn.circle for turn in seen.turns.values()}
        for circle in sorted(circles):
            waits_ns = self._waits_ns(seen, circle, view.now_ns, fresh=is_new)
            if is_new:
                wanted |= waits_ns
                continue
            for job in passed:
                # Of the others it is not known yet when their round at hand is over.
                if job in waits_ns and waits_ns[job] > self.drift * seen.turns[job].period_ns:
                    wanted[job] = waits_ns[job]
        return _answered(seen, wanted, free=is_changed)

    def explain(self, view: View, memory: _Memory, job: int) -> str:
        """Say in one sentence when the job's rounds begin."""
        turn = memory.turns.get(job)
        if turn is None:
            return "begins its rounds when it can: it meets no job that it could send in turn with"
        others = sum(one.circle == turn.circle for one in memory.turns.values()) - 1
        offset_s, period_s = turn.offset_ns / NS_PER_S, turn.period_ns / NS_PER_S
        turns = f"in turn with {others} of the other jobs"
        return f"begins {offset_s:.3g} s into each {period_s:.3g} s, {turns}"

    def _is_otherwise(self, view: View, memory: _Memory, jobs: list[int]) -> bool:
        """Tell whether rounds have shown to take another time than turns were given by."""
        for job in jobs:
            thought_ns = memory.lengths_ns.get(job)
            if thought_ns is not None:
                now_ns = _length_ns(memory, job, _phases(view, memory, job))
                if abs(now_ns - thought_ns) > self.drift * thought_ns:
                    return True
        return False

    def _give_turns(self, view: View, memory: _Memory, known: tuple[int, ...]) -> _Memory:
        """Place all jobs again."""
        phases = {job: _phases(view, memory, job) for job in known}
        lengths_ns = {job: _length_ns(memory, job, phases[job]) for job in known}
        turns = turns_of(phases, lengths_ns, self.slices, self.drift)
        return replace(memory, known=known, lengths_ns=lengths_ns, turns=turns)

    def _waits_ns(
        self, memory: _Memory, circle: int, now_ns: int, *, fresh: bool
    ) -> dict[int, int]:
        """Return the wait of each job of a circle for its turn.

        One of them need not wait, and all together wait least. ``fresh``: answered delays that were
        not served are taken back; otherwise jobs wait beside them.
        """
        jobs = [job for job, turn in memory.turns.items() if turn.circle == circle]
        starts_ns = {}
        for job in jobs:
            known = memory.rounds[job]
            # The next start has the same place as this one, but where a round should be over.
            late = known.start_ns + memory.turns[job].period_ns < now_ns
            pending_ns = 0 if fresh else known.pending_ns
            starts_ns[job] = (now_ns if late else known.start_ns) + pending_ns

        def waits_ns(first: int) -> dict[int, int]:
            origin_ns = starts_ns[first] - memory.turns[first].offset_ns
            return {
                job: (origin_ns + memory.turns[job].offset_ns - starts_ns[job])
                % memory.turns[job].period_ns
                for job in jobs
            }

        return min(map(waits_ns, jobs), key=lambda found: sum(found.values()))


def _phases(view: View, memory: _Memory, job: int) -> RoundPhases:
    """Return a job's round alone; it computes as long as its costs say, or longer if it did."""
    stated = round_phases(view, memory.traffic, job)
    return stated._replace(comp_s=max(stated.comp_s, memory.rounds[job].comp_ns / NS_PER_S))


def _length_ns(memory: _Memory, job: int, phases: RoundPhases) -> int:
    """Return the time of a round alone; a faster round that was seen is the better estimate."""
    fastest_ns: float = memory.traffic.fastest_ns.get(job, math.inf)
    return max(1, round(min(phases.length_s * NS_PER_S, fastest_ns)))


def _answered(
    memory: _Memory, wanted: Mapping[int, int], *, free: bool
) -> tuple[Decision, _Memory]:
    """Answer the delays that jobs have credit for, if they differ from earlier answers.

    ``free``: jobs have come or gone, and no job needs credit.
    """
    rounds, delays_ns = memory.rounds, dict[int, int]()
    for job, delay_ns in wanted.items():
        known = rounds[job]
        credit_ns = known.credit_ns + known.pending_ns
        if delay_ns > MOST_DELAY_NS or (delay_ns > credit_ns and not free):
            delay_ns = 0
        if delay_ns != known.pending_ns:
            delays_ns[job] = delay_ns
            left_ns = max(0, credit_ns - (0 if free else delay_ns))
            rounds = rounds.set(job, replace(known, pending_ns=delay_ns, credit_ns=left_ns))
    if not delays_ns:
        return NOTHING, memory
    return msgspec.structs.replace(NOTHING, delays_ns=delays_ns), replace(memory, rounds=rounds)
