"""Asking the policies of a run: group, shape, place and flow, in this order, each when it is due.

A policy is asked after one of its triggers, or when a wake-up of its own has come. Its answer is
checked and applied before the next policy is asked, so each sees what those before it answered. A
policy that answers several questions is asked once, at the first of them. Each has a memory of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from warren.core.answers.rules import check_answers
from warren.core.decision_checks import ask, check_policy, plain_decision
from warren.core.scheduling_rules import check_assignment, check_plan, check_stretches
from warren.core.state import State
from warren.core.view_columns import ViewColumns
from warren.model.decision import NOTHING, PLACE_ALONE, Assignment, Decision, Plan, Question
from warren.model.errors import InfeasibleDecision
from warren.model.events import AnyEvent, Event, HostJoined, RolledBack, TaskDropped, Woken
from warren.policy.protocol import AnyPolicy, answers, is_blind

_ORDER: Final = tuple(Question)
Feed = Callable[[tuple[AnyEvent, ...]], tuple[Assignment, ...]]
"""Given the events of an instant, the plan's next assignments."""
Answer = tuple[Decision, tuple[int, ...]]
"""The answer at one instant, and wake-ups that were asked for after ``wake_ns``."""
_NOTHING: Final[Answer] = (NOTHING, ())


@dataclass(slots=True, eq=False)
class _Asked:
    """One policy and its state: its memory, and its wake-ups still to come.

    ``answers``: the questions that it answers. ``shown``: the view that it sees. ``triggers``: the
    events after which it is asked; a wake-up is its own.
    """

    policy: AnyPolicy
    answers: frozenset[Question]
    shown: ViewColumns
    triggers: frozenset[type[Event]]
    memory: Any = None
    wakes_ns: list[int] = field(default_factory=list)

    def is_due(self, events: tuple[AnyEvent, ...], now_ns: int) -> bool:
        """Tell whether it is asked after these events; strikes off its wake-ups that have come."""
        kinds = set(map(type, events))
        due = not self.triggers.isdisjoint(kinds)
        # Only with the event itself, which live may come a moment late: the policy is to see it.
        if self.wakes_ns and Woken in kinds:
            coming = [one for one in self.wakes_ns if one > now_ns]
            due = due or len(coming) < len(self.wakes_ns)
            self.wakes_ns = coming
        return due


class PolicyScheduler:
    """The policies of one run, asked in order; their answers are applied to the state.

    Parameters
    ----------
    place
        The policy that places tasks; it may answer other questions, too.
    others
        Policies that answer shape, group and flow. None: these answers never change.
    state
        The state that they see, and that their answers change.
    """

    __slots__ = ("_asked", "_place", "_state", "_triggers", "alone", "feed")

    def __init__(self, place: AnyPolicy, others: tuple[AnyPolicy, ...], state: State) -> None:
        self._state = state
        self.feed: Feed | None = None
        asked = [_asked(one, state) for one in (place, *others)]
        _refuse_two_for_one(asked)
        self._asked = sorted(asked, key=_first_question)
        self._place = next(one for one in self._asked if one.policy is place)
        self.alone = not others
        """Whether there is one policy: then nothing has to be put together or kept apart."""
        # A wake-up that a policy named as a trigger reaches it, whoever asked for it.
        self._triggers = self._place.triggers | (frozenset(place.triggers) & {Woken})

    @property
    def memory(self) -> Any:
        """The memory of the policy that places."""
        return self._place.memory

    @property
    def answered(self) -> frozenset[Question]:
        """Return the questions that the policies answer."""
        return frozenset().union(*(one.answers for one in self._asked))

    def first(self, plan: Plan | None) -> Answer | None:
        """Ask the policies that plan ahead for their answers before time starts.

        ``plan`` is the earlier answer of the policy that places, so that it need not be asked
        again. None: no policy plans ahead.
        """
        found: list[Decision] = []
        for asked in self._asked:
            policy = asked.policy
            asked.memory = ask(policy, policy.initial, asked.shown.view(self._state.now_ns, ()))
            if plan is not None and asked is self._place:
                check_plan(self._state, policy.name, plan)
                found.append(Decision(plan=plan))
            elif policy.offline:
                found.append(self._answer(asked, ()))
        return _together(found) if found else None

    def answer(self, events: tuple[AnyEvent, ...]) -> Answer:
        """Ask each policy that is due, and apply its answer."""
        state = self._state
        if self.alone:
            seen = self._place.shown.told(events)
            if self._triggers.isdisjoint(map(type, seen)):
                return _NOTHING
            return self._answer(self._place, seen), ()
        found: list[Decision] = []
        for asked in self._asked:
            if asked is self._place and self.feed is not None:
                # A plan stands in for the policy that made it.
                found.append(Decision(assign=self.feed(events)))
            elif asked.is_due(seen := asked.shown.told(events), state.now_ns):
                found.append(self._answer(asked, seen))
        return _together(found)

    def explain(self, job: int, question: Question) -> str:
        """Return one sentence from the policy that answers this question, on one job."""
        found = [one for one in self._asked if question in one.answers]
        if not found:
            return f"no policy answers {question}"
        asked, policy = found[0], found[0].policy
        view = asked.shown.view(self._state.now_ns, ())
        if job >= len(view.jobs):
            # The view of a blind policy ends with the last job that has arrived.
            return "has not arrived yet"
        return str(ask(policy, policy.explain, view, asked.memory, job))

    def _answer(self, asked: _Asked, events: tuple[AnyEvent, ...]) -> Decision:
        """Ask one policy; return its decision, checked and applied but for a plan."""
        state, policy = self._state, asked.policy
        # No name for the answer: it would keep a plan that the caller lets go.
        decision, asked.memory = plain_decision(
            policy.name,
            asked.answers,
            ask(policy, policy.decide, asked.shown.view(state.now_ns, events), asked.memory),
            len(state.phase_J),
            state.now_ns,
        )
        if decision.plan is not None:
            if events or not policy.offline:
                raise InfeasibleDecision(
                    f"policy {policy.name}: a plan is the first decision of an offline policy"
                )
            check_plan(state, policy.name, decision.plan)
        if decision.wake_ns is not None and not self.alone:
            asked.wakes_ns.append(decision.wake_ns)
        # A plain decision of a policy that answers place alone holds nothing else.
        if asked.answers != PLACE_ALONE and not decision.only_places:
            check_answers(state, policy.name, decision)
            state.answer(decision)
        # Each assignment is checked against the state that those before it have led to.
        for one in decision.assign:
            check_assignment(state, policy.name, one)
            state.assign(one)
        if decision.assign:
            check_stretches(state, policy.name, decision.assign)
        return decision


def _asked(policy: AnyPolicy, state: State) -> _Asked:
    """Check a policy as ``check_policy`` does, and return it with its memory to be asked."""
    check_policy(policy)
    answered, blind = answers(policy), is_blind(policy)
    triggers = frozenset(policy.triggers) - {Woken}
    # After these events assigned work is gone or a device is free, so a policy that places is
    # asked, whatever triggers it names.
    if Question.PLACE in answered:
        triggers |= {RolledBack, TaskDropped, HostJoined}
    return _Asked(policy, answered, state.shown_to(blind=blind), triggers)


def _refuse_two_for_one(asked: Iterable[_Asked]) -> None:
    """Refuse two policies that answer one question."""
    known: dict[Question, str] = {}
    for one in asked:
        for question in sorted(one.answers):
            if question in known:
                raise InfeasibleDecision(
                    f"policy {one.policy.name}: {question} is answered by {known[question]} already"
                )
            known[question] = one.policy.name


def _first_question(asked: _Asked) -> int:
    """Return the place of the first question that a policy answers, in the order of asking."""
    return min(_ORDER.index(one) for one in asked.answers)


def _together(found: list[Decision]) -> Answer:
    """Combine the policies' answers at one instant: no two answer one question."""
    # Mostly one was asked, or none; and a decision that changes nothing is known by identity.
    found = [one for one in found if one is not NOTHING]
    if len(found) < 2:
        return (found[0] if found else NOTHING), ()
    wakes_ns = sorted({one.wake_ns for one in found if one.wake_ns is not None})
    whole = msgspec.structs.replace(NOTHING, wake_ns=wakes_ns[0] if wakes_ns else None)
    for one in found:
        whole = msgspec.structs.replace(
            whole,
            assign=one.assign or whole.assign,
            plan=whole.plan if one.plan is None else one.plan,
            reasons=one.reasons or whole.reasons,
            classes=one.classes or whole.classes,
            host_classes=one.host_classes or whole.host_classes,
            delays_ns=one.delays_ns or whole.delays_ns,
            shapes=one.shapes or whole.shapes,
            groups=whole.groups if one.groups is None else one.groups,
        )
    return whole, tuple(wakes_ns[1:])
