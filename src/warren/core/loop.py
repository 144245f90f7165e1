"""The one loop of both worlds: events in, state, decision, commands out, journal.

``events -> state.apply -> view -> policy.decide -> check -> port.submit -> journal``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warren.core.decision_checks import ask, check_policy, plain_decision
from warren.core.journal import (
    MAGIC,
    CopyStep,
    Step,
    adopted,
    encode,
    going_on,
    opening,
    plan_run,
)
from warren.core.plan_assignments import plan_assignments, refuse_cycle
from warren.core.plan_feeder import PlanFeeder
from warren.core.ports import Port
from warren.core.scheduling_rules import (
    check_assignment,
    check_copy,
    check_invariants,
    check_plan,
    check_stretches,
)
from warren.core.state import State
from warren.core.stragglers import StragglerCopier
from warren.core.view_columns import is_blind
from warren.model.costs import CostTable
from warren.model.decision import NOTHING, Decision, Plan
from warren.model.errors import InfeasibleDecision
from warren.model.events import (
    AnyEvent,
    Event,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
    TaskDropped,
    Woken,
)
from warren.model.past import NO_PAST, Past
from warren.model.run import Run
from warren.policy.protocol import AnyPolicy

Sink = Callable[[bytes], object]
Observer = Callable[[State, tuple[AnyEvent, ...]], object]
IDLE_WAKES: Final = 100_000
"""A policy that is woken so often in a row, and leaves an idle cluster idle, never acts."""


@dataclass(slots=True, kw_only=True)
class Core:
    """One scheduler, which leads one run from its first decision to its last event.

    ``sink`` receives the journal's bytes, ``observe`` every step. ``inputs`` (a hash of what the
    run was made from) and ``numerics`` (the numerics class it computes in) stand in the journal's
    header. ``past``: jobs that ended before this run, which policies are told of. ``check``:
    whether invariants are checked after every step. ``compiled``: whether a plan may run in
    compiled code.
    """

    run: Run
    costs: CostTable
    policy: AnyPolicy
    port: Port
    sink: Sink
    world: str
    past: Past = NO_PAST
    inputs: str = ""
    numerics: str = ""
    observe: Observer | None = None
    check: bool = False
    compiled: bool = True
    state: State = field(init=False)
    memory: object = field(init=False, default=None)
    feeder: PlanFeeder | None = field(init=False, default=None)
    copier: StragglerCopier | None = field(init=False, default=None)
    begun: bool = field(init=False, default=False)
    """Whether there is a past: ``core.resume.catch_up`` has led it to where a journal ends."""
    _first: Decision | None = field(init=False, default=None)
    _asked: bool = field(init=False, default=False)
    _idle_wakes: int = field(init=False, default=0)
    _triggers: frozenset[type[Event]] = field(init=False)

    def __post_init__(self) -> None:
        check_policy(self.policy)
        # After these two events assigned work is gone or a device is free, so every policy is
        # asked, whatever triggers it names.
        self._triggers = frozenset(self.policy.triggers) | {RolledBack, TaskDropped}
        self.state = State(self.run, self.costs, past=self.past, blind=is_blind(self.policy))
        if self.run.scheduler.copies_after is not None:
            self.copier = StragglerCopier(self.run.scheduler.copies_after, self.state)

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
            return self.state
        # One iteration is one instant: the port gives all its events together, and () at the end.
        while events := self.port.next_events():
            self.step(events)
        self._refuse_unfinished()
        return self.state

    def begin(self, plan: Plan | None = None) -> bool:
        """Open the journal and act on the policy's answer of before time starts.

        Return True if that was a plan which has run to its end in compiled code. ``plan`` is what
        an offline policy answered before, so that it need not be asked again.
        """
        if not self._asked:
            self.ask_first(plan)
        self.begun = True
        self._open()
        if self._first is not None and self._first.plan is not None:
            return self._adopt()
        if self._first is not None:
            self._act((), self._first)
        return False

    def ask_first(self, plan: Plan | None = None) -> None:
        """Ask the policy what it answers before time starts; nothing is written or submitted.

        For a world that should not be started for a run that its policy refuses. ``plan``: as in
        ``begin``, which asks if nobody did.

        Raises
        ------
        SpecError
            If the policy refuses the run.
        InfeasibleDecision
            If it breaks a rule or raises.
        """
        self._asked = True
        self.memory = ask(self.policy, self.policy.initial, self.state.view())
        if plan is not None:
            check_plan(self.state, self.policy.name, plan)
            self._first = Decision(plan=plan)
        elif self.policy.offline:
            self._first = self._answer(())

    def go_on(self) -> None:
        """Go on with a run that was cut off: what had been submitted to the port is gone.

        The port's first events roll back jobs that have arrived.
        """
        self.sink(encode(going_on(self.run, self.state.now_ns)))
        for job in self.state.recall():
            # Jobs that have not arrived get no roll-back from the port, so the feeder takes their
            # assignments back here.
            assert self.feeder is not None, "only a plan assigns before a job arrives"
            self.feeder.roll_back(job, 0)

    def explain(self, job: int) -> str:
        """Return one sentence from the policy: why this job is where it is now."""
        policy, view = self.policy, self.state.view()
        if job >= len(view.jobs):
            # The view of a blind policy ends with the last job that has arrived.
            return "has not arrived yet"
        return str(ask(policy, policy.explain, view, self.memory, job))

    def _open(self) -> None:
        header = opening(self.run, self.world, self.policy.name, self.inputs, self.numerics)
        self.sink(MAGIC + encode(header))

    def step(self, events: tuple[AnyEvent, ...]) -> None:
        """Apply the events of one instant and do all that follows from them."""
        for event in events:
            self.state.apply(event)
        if self.check:
            check_invariants(self.state)
        # Under a plan the policy is never asked again; else it is asked if one of the events that
        # it may know of is a trigger; else the step is only recorded.
        if self.feeder is not None:
            self._feed(events)
        elif not self._triggers.isdisjoint(map(type, told := self.state.told(events))):
            self._act(events, self._answer(told))
        else:
            self._write(Step(events))
        if self.observe is not None:
            self.observe(self.state, events)

    def _answer(self, events: tuple[AnyEvent, ...]) -> Decision:
        """Ask the policy and return its decision, checked as far as is possible before acting."""
        state, policy = self.state, self.policy
        # No name for the answer: it would keep a plan that the caller lets go.
        decision, self.memory = plain_decision(
            policy.name,
            ask(policy, policy.decide, state.view(events), self.memory),
            len(state.phase_J),
            state.now_ns,
        )
        if decision.plan is not None:
            if events or not policy.offline:
                raise InfeasibleDecision(
                    f"policy {policy.name}: a plan is the first decision of an offline policy"
                )
            check_plan(state, policy.name, decision.plan)
        return decision

    def _act(self, events: tuple[AnyEvent, ...], decision: Decision) -> None:
        """Check and apply a decision, write the step to the journal, then submit it."""
        state, name = self.state, self.policy.name
        # Each assignment is checked against the state that those before it have led to.
        for one in decision.assign:
            check_assignment(state, name, one)
            state.assign(one)
        check_stretches(state, name, decision.assign)
        reasons = tuple([(job, int(reason)) for job, reason in decision.reasons.items()])
        for job, code in reasons:
            state.reason_J[job] = code
        # A first decision that is empty has neither events nor effects: no record for it.
        if decision is not NOTHING or events:
            self._write(Step(events, decision.assign, reasons, decision.wake_ns))
        if decision.wake_ns is not None and not state.done_J.all():
            self._wake_at(decision.wake_ns, events, decision)

    def _wake_at(self, wake_ns: int, events: tuple[AnyEvent, ...], decision: Decision) -> None:
        """Pass a wake-up on, unless the policy only ever asks for the next one."""
        idle = not decision.assign and all(isinstance(event, Woken) for event in events)
        self._idle_wakes = self._idle_wakes + 1 if idle else 0
        if self._idle_wakes >= IDLE_WAKES:
            # So many wake-ups without an assignment. If no device is at work and no job is still to
            # arrive, nothing can ever change: refuse rather than loop for ever.
            state, self._idle_wakes = self.state, 0
            busy = state.queued_D.any() or any(state.syncing)
            if not busy and bool((state.arrived_J | state.done_J).all()):
                self._refuse_unfinished()
        self.port.wake_at(wake_ns)

    def _adopt(self) -> bool:
        """Act on the first plan; True if it ran to its end in compiled code.

        A large plan takes much memory, so every reference to it is dropped as soon as it has run.
        """
        assert self._first is not None
        plan, self._first = self._first.plan, None
        assert plan is not None
        self.sink(encode(adopted(plan)))
        # Copies of stragglers are decided at events, which compiled code does not give.
        compiled = self.compiled and self.copier is None
        outcome = self.port.run_plan(plan) if compiled else None
        if outcome is not None:
            del plan
            self.sink(encode(plan_run(outcome)))
            self.state.finish_plan(outcome)
            return True
        assignments = plan_assignments(plan)
        refuse_cycle(self.policy.name, assignments, self.state.scale_J)
        self.state.adopt_plan()
        self.feeder = PlanFeeder(assignments, len(self.run.cluster.devices), self.state.scale_J)
        self._feed(())
        return False

    def _feed(self, events: tuple[AnyEvent, ...]) -> None:
        """Submit what the plan has next; as in ``_act``, the journal is written first."""
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
        self._write(Step(events, assigned))

    def _write(self, step: Step) -> None:
        """Write a step to the journal, then submit its assignments to the port.

        In this order, so that after a crash the journal holds all that any device was told to do.
        """
        if self.copier is not None:
            self._write_and_copy(step, self.copier)
            return
        self.sink(encode(step))
        if step.assign:
            self.port.submit(step.assign)

    def _write_and_copy(self, step: Step, copier: StragglerCopier) -> None:
        """Do as ``_write`` does, and start the copies of stragglers that are due now."""
        state = self.state
        copies, wake_ns = copier.look(state)
        for one in copies:
            check_copy(state, one)
            state.copy(one)
        told = (step.events, step.assign, step.reasons, step.wake_ns)
        self.sink(encode(CopyStep(*told, copies) if copies else step))
        if step.assign:
            self.port.submit(step.assign)
        if copies:
            self.port.copy(copies)
        if wake_ns is not None:
            self.port.wake_at(wake_ns)

    def _refuse_unfinished(self) -> None:
        """Refuse a policy that has left jobs waiting although nothing will happen any more."""
        # Jobs with tasks nobody assigned, or that have arrived and not ended.
        stuck = np.flatnonzero(self.state.open_J | (self.state.arrived_J & ~self.state.done_J))
        if len(stuck):
            job = int(stuck[0])
            raise InfeasibleDecision(
                f"policy {self.policy.name} left {len(stuck)} job(s) waiting for ever; first: "
                f"{self.run.workload.jobs[job].name}: {self.explain(job)}"
            )
