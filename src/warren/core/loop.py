"""The one loop of both worlds: events in, state, decision, commands out, journal.

``events -> state.apply -> scheduler: (view -> policy.decide -> check)* -> journal -> port``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
import numpy as np

from warren.core.journal import (
    MAGIC,
    AnswersStep,
    CopyStep,
    Step,
    adopted,
    encode,
    going_on,
    jobs_added,
    links_used,
    opening,
    plan_run,
    step_of,
)
from warren.core.plan_assignments import plan_assignments, refuse_cycle
from warren.core.plan_feeder import PlanFeeder
from warren.core.ports import AnswerPort, GrowingPort, Port
from warren.core.scheduler import Answer, PolicyScheduler
from warren.core.scheduling_rules import check_copy, check_invariants
from warren.core.state import State
from warren.core.stragglers import StragglerCopier
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, PLACE_ALONE, Assignment, Decision, Plan, Question
from warren.model.errors import InfeasibleDecision
from warren.model.events import (
    AnyEvent,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    Woken,
)
from warren.model.job import Job
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.policy.protocol import AnyPolicy, is_blind, takes_new_jobs

Sink = Callable[[bytes], object]
Observer = Callable[[State, tuple[AnyEvent, ...]], object]
IDLE_WAKES: Final = 100_000
"""Wake-ups in a row, without an assignment, after which a policy on an idle cluster is stuck."""


@dataclass(slots=True, kw_only=True)
class Core:
    """The loop that leads one run from its first decision to its last event.

    ``policy`` places tasks; ``others`` answer shape, group and flow, and may be empty. ``sink``
    receives the journal's bytes, ``observe`` every step. The journal's header holds ``inputs``, a
    hash of the run's inputs, and ``numerics``, the numerics class it computes in. ``past``: jobs
    that ended before this run, which policies may learn from. ``check``: whether invariants are
    checked after every step. ``compiled``: whether a plan may run in compiled code.
    """

    run: Run
    costs: CostTable
    policy: AnyPolicy
    port: Port
    sink: Sink
    world: str
    others: tuple[AnyPolicy, ...] = ()
    past: Past = NO_PAST
    inputs: str = ""
    numerics: str = ""
    observe: Observer | None = None
    check: bool = False
    compiled: bool = True
    state: State = field(init=False)
    scheduler: PolicyScheduler = field(init=False)
    feeder: PlanFeeder | None = field(init=False, default=None)
    copier: StragglerCopier | None = field(init=False, default=None)
    begun: bool = field(init=False, default=False)
    """Whether there is a past: ``core.resume.catch_up`` has led it to where a journal ends."""
    _first: Answer | None = field(init=False, default=None)
    _asked: bool = field(init=False, default=False)
    _grows: bool = field(init=False, default=False)
    """Whether the port may bring jobs that are not known yet."""
    _idle_wakes: int = field(init=False, default=0)
    _begun_ns: int = field(init=False, default=0)
    """When the port began: time zero, or where a run that was cut off goes on."""

    def __post_init__(self) -> None:
        self.state = State(self.run, self.costs, past=self.past, blind=is_blind(self.policy))
        self.scheduler = PolicyScheduler(self.policy, self.others, self.state)
        beyond = self.scheduler.answered - PLACE_ALONE
        if beyond and not beyond <= self.port.carries:
            lacking = ", ".join(sorted(beyond - self.port.carries))
            raise InfeasibleDecision(f"this run cannot carry out answers to: {lacking}")
        self._grows = hasattr(self.port, "new_jobs")
        if self._grows:
            self._refuse_jobs_ahead()
        if self.run.scheduler.copies_after is not None:
            self.copier = StragglerCopier(self.run.scheduler.copies_after, self.state)

    @property
    def memory(self) -> Any:
        """The memory of the policy that places."""
        return self.scheduler.memory

    def execute(self) -> State:
        """Run to the end of all jobs and return the last state.

        Raises
        ------
        InfeasibleDecision
            If the policy breaks a rule or raises, or stops while a job could still run.
        """
        if self.begun:
            self.go_on()
        elif self.begin():
            self._write_link_use()
            return self.state
        port, grows = self.port, self._grows
        # One iteration is one instant: the port gives all its events together, and () at the end.
        while events := port.next_events():
            if grows and (new := cast("GrowingPort", port).new_jobs()) is not None:
                self.add(*new)
            self.step(events)
        self._refuse_unfinished()
        self._write_link_use()
        return self.state

    def begin(self, plan: Plan | None = None) -> bool:
        """Open the journal and act on the policy's answer of before time starts.

        Return True if that was a plan which has run to its end in compiled code. ``plan`` is an
        offline policy's earlier answer, so that it need not be asked again.
        """
        if not self._asked:
            self.ask_first(plan)
        self.begun = True
        self._open()
        if self._first is None:
            return False
        # A large plan takes much memory, so ``_adopt`` drops the only reference to it.
        if self._first[0].plan is None:
            self._act((), *self._first)
            return False
        beside = msgspec.structs.replace(self._first[0], plan=None)
        if beside != NOTHING:
            self._act((), beside, self._first[1])
        return self._adopt()

    def ask_first(self, plan: Plan | None = None) -> None:
        """Ask the policies for their answers before time starts; nothing is written or submitted.

        Call it before a world starts, so that a run that a policy refuses starts none. ``plan``: as
        in ``begin``, which asks if this was not called.

        Raises
        ------
        SpecError
            If the policy refuses the run.
        InfeasibleDecision
            If it breaks a rule or raises.
        """
        self._asked = True
        self._first = self.scheduler.first(plan)

    def go_on(self) -> None:
        """Go on with a run that was cut off: the assignments submitted to the port are gone.

        The port's first events roll back jobs that have arrived.
        """
        self._begun_ns = self.state.now_ns
        self.sink(encode(going_on(self.run, self._begun_ns)))
        for job in self.state.recall():
            # Jobs that have not arrived get no roll-back from the port, so the feeder takes their
            # assignments back here.
            assert self.feeder is not None, "only a plan assigns before a job arrives"
            self.feeder.roll_back(job, 0)
        # The port is new or has new processes, so it receives all standing answers.
        standing = self.state.answers
        port = cast("AnswerPort", self.port)
        if standing.shapes:
            port.reshape(dict(standing.shapes))
        if standing.groups:
            port.regroup(standing.groups)
        classes = standing.classes(self.state.done_J)
        if classes or standing.host_classes:
            port.classify(classes, dict(standing.host_classes))

    def add(self, jobs: tuple[Job, ...], costs: CostTable) -> None:
        """Take jobs that the run did not know at its beginning; they arrive by their events.

        ``costs``: those of these jobs alone. Before the next step, after ``begin``.

        Raises
        ------
        InfeasibleDecision
            If a policy has to know all jobs before time starts.
        ValueError
            If their indices do not go on where those of the jobs known so far end.
        """
        self._refuse_jobs_ahead()
        self.state.add(jobs, costs)
        self.run, self.costs = self.state.run, self.state.costs
        if self.copier is not None:
            self.copier.add(self.state)
        self.sink(encode(jobs_added(jobs, costs)))

    def _refuse_jobs_ahead(self) -> None:
        """Refuse a policy that has to know all jobs before time starts."""
        for policy in (self.policy, *self.others):
            if not takes_new_jobs(policy):
                raise InfeasibleDecision(
                    f"policy {policy.name} must know all jobs before the first one starts; "
                    "it cannot schedule jobs that come later"
                )

    def explain(self, job: int, question: Question = Question.PLACE) -> str:
        """Return one sentence from a policy: why this job is where it is now, or has its class."""
        return self.scheduler.explain(job, question)

    def _open(self) -> None:
        header = opening(self.run, self.world, self.policy.name, self.inputs, self.numerics)
        self.sink(MAGIC + encode(header))

    def step(self, events: tuple[AnyEvent, ...]) -> None:
        """Apply the events of one instant and do all that follows from them."""
        for event in events:
            self.state.apply(event)
        if self.check:
            check_invariants(self.state)
        if self.feeder is not None and self.scheduler.alone:
            # Under a plan the policy is never asked again.
            self._write(Step(events, self._fed(events)))
        else:
            self._act(events, *self.scheduler.answer(events))
        if self.observe is not None:
            self.observe(self.state, events)

    def _act(
        self, events: tuple[AnyEvent, ...], decision: Decision, later_ns: tuple[int, ...]
    ) -> None:
        """Write a step with its decision, which has been applied, then submit it.

        ``later_ns``: wake-ups that policies ask for after the decision's own.
        """
        if decision is NOTHING:
            # A first decision that is empty has neither events nor effects: no record for it.
            if events:
                self._write(Step(events))
            return
        for job, code in decision.reasons.items():
            self.state.reason_J[job] = code
        self._write(step_of(events, decision, later_ns))
        if decision.wake_ns is not None and (self._grows or not self.state.done_J.all()):
            self._wake_at(decision.wake_ns, events, decision)
            for wake_ns in later_ns:
                self.port.wake_at(wake_ns)

    def _wake_at(self, wake_ns: int, events: tuple[AnyEvent, ...], decision: Decision) -> None:
        """Pass a wake-up on, unless the policy only ever asks for the next one."""
        idle = not decision.assign and all(isinstance(event, Woken) for event in events)
        self._idle_wakes = self._idle_wakes + 1 if idle else 0
        if self._idle_wakes >= IDLE_WAKES:
            # The policy was woken ``IDLE_WAKES`` times without an assignment. If no device is at
            # work and no job is still to arrive, nothing can ever change: refuse rather than loop
            # for ever.
            state, self._idle_wakes = self.state, 0
            busy = state.queued_D.any() or any(state.syncing)
            if not busy and bool((state.arrived_J | state.done_J).all()) and not self._grows:
                self._refuse_unfinished()
        self.port.wake_at(wake_ns)

    def _adopt(self) -> bool:
        """Act on the first plan; True if it ran to its end in compiled code.

        A large plan takes much memory, so every reference to it is dropped as soon as it has run.
        """
        assert self._first is not None
        plan, self._first = self._first[0].plan, None
        assert plan is not None
        self.sink(encode(adopted(plan)))
        # Copies of stragglers are decided at events, which compiled code does not give.
        # So are answers to the other questions.
        compiled = self.compiled and self.copier is None and self.scheduler.alone
        outcome = self.port.run_plan(plan) if compiled else None
        if outcome is not None:
            del plan
            self.sink(encode(plan_run(outcome)))
            self.state.finish_plan(outcome)
            return True
        assignments = plan_assignments(plan)
        refuse_cycle(self.policy.name, assignments, self.state.scale_J)
        self.state.adopt_plan()
        if not self.scheduler.alone:
            self.state.answers.adopt(assignments)
        self.feeder = PlanFeeder(assignments, len(self.run.cluster.devices), self.state.scale_J)
        self.scheduler.feed = self._fed
        self._write(Step((), self._fed(())))
        return False

    def _fed(self, events: tuple[AnyEvent, ...]) -> tuple[Assignment, ...]:
        """Assign the plan's next assignments after these events, and return them."""
        assert self.feeder is not None
        for event in events:
            if isinstance(event, JobFailed | JobCancelled) or (
                isinstance(event, RoundsDone) and event.finished
            ):
                self.feeder.drop(event.job)
            elif isinstance(event, RolledBack):
                self.feeder.roll_back(event.job, event.round)
        assigned = tuple(self.feeder.feed(self.state.queued_D.tolist()))
        for one in assigned:
            self.state.assign(one)
        return assigned

    def _write(self, step: Step) -> None:
        """Write a step to the journal, then submit its assignments to the port.

        In this order the journal, after a crash, holds all that any device was asked to do.
        """
        if self.copier is not None:
            self._write_and_copy(step, self.copier)
            return
        self.sink(encode(step))
        self._submit(step)

    def _submit(self, step: Step) -> None:
        """Give the port the commands of a step that is in the journal."""
        if not isinstance(step, AnswersStep):
            if step.assign:
                self.port.submit(step.assign)
            return
        # Whoever answers other questions has a port that carries them: ``__post_init__``.
        port, answers = cast("AnswerPort", self.port), step.answers
        if answers.shapes:
            port.reshape(answers.shapes)
        if answers.groups is not None:
            port.regroup(answers.groups)
        # Before assignments: the next barrier may be that of a round that they begin.
        if answers.delays_ns:
            port.delay(answers.delays_ns)
        if step.assign:
            port.submit(step.assign)
        if answers.classes or answers.host_classes:
            port.classify(answers.classes, answers.host_classes)

    def _write_and_copy(self, step: Step, copier: StragglerCopier) -> None:
        """Do as ``_write`` does, and start the copies of stragglers that are due now."""
        state = self.state
        copies, wake_ns = copier.look(state)
        for one in copies:
            check_copy(state, one)
            state.copy(one)
        if isinstance(step, AnswersStep):
            step = msgspec.structs.replace(step, copy=copies)
        elif copies:
            step = CopyStep(step.events, step.assign, step.reasons, step.wake_ns, copies)
        self.sink(encode(step))
        self._submit(step)
        if copies:
            self.port.copy(copies)
        if wake_ns is not None:
            self.port.wake_at(wake_ns)

    def _write_link_use(self) -> None:
        """Write which bytes passed the links, if the port knows: the journal's last record."""
        use = self.port.link_use()
        if use is not None:
            self.sink(encode(links_used(msgspec.structs.replace(use, since_ns=self._begun_ns))))

    def _refuse_unfinished(self) -> None:
        """Refuse a policy that has left jobs waiting although nothing will happen any more."""
        # Jobs with unassigned tasks, or that have arrived and not ended.
        stuck = np.flatnonzero(self.state.open_J | (self.state.arrived_J & ~self.state.done_J))
        if len(stuck):
            job = int(stuck[0])
            raise InfeasibleDecision(
                f"policy {self.policy.name} left {len(stuck)} job(s) waiting for ever; first: "
                f"{self.run.workload.jobs[job].name}: {self.explain(job)}"
            )
