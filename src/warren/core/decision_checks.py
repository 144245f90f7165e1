"""Plain answers of policies: a foreign policy is user code and may return anything.

Shape and types are checked here; whether the cluster state allows a decision is checked in
``core.scheduling_rules``. Every refusal is one line that names the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import index
from pathlib import Path
from traceback import walk_tb
from typing import Any

import msgspec
import numpy as np

from warren.core.answers.checks import (
    WrongAnswer,
    kind_of,
    plain_classes,
    plain_delays,
    plain_groups,
    plain_host_classes,
    plain_shapes,
    questions_of,
)
from warren.model.decision import PLACE_ALONE, Assignment, Decision, Plan, Question, Reason
from warren.model.errors import InfeasibleDecision, WarrenError, one_line
from warren.model.events import Event
from warren.model.units import NEVER_NS
from warren.policy.protocol import AnyPolicy, answers


def check_policy(policy: AnyPolicy) -> None:
    """Refuse a policy whose capabilities break the protocol.

    Raises
    ------
    InfeasibleDecision
        Naming the capability.
    """
    if not isinstance(policy.name, str) or not isinstance(policy.offline, bool):
        raise _refused(policy.name, "its name is a string, offline is True or False")
    triggers = policy.triggers
    if not isinstance(triggers, set | frozenset | tuple | list) or not all(
        isinstance(one, type) and issubclass(one, Event) for one in triggers
    ):
        raise _refused(policy.name, "triggers are a frozenset of event types")
    stated = answers(policy)
    if not isinstance(stated, set | frozenset) or not stated or not stated <= set(Question):
        raise _refused(policy.name, "answers are a frozenset of Questions, at least one")


def ask(policy: AnyPolicy, call: Callable[..., Any], *args: object) -> Any:
    """Call a method of a policy; an exception becomes one line.

    Raises
    ------
    InfeasibleDecision
        Naming the error and the line of code that raised it.
    """
    try:
        return call(*args)
    except WarrenError:
        raise
    except Exception as error:
        # The innermost frame: the line that raised, in the policy or in code that it called.
        frame, line = list(walk_tb(error.__traceback__))[-1]
        text = f"{call.__name__} raised {one_line(error)}"
        where = f"{Path(frame.f_code.co_filename).name}:{line}"
        raise _refused(policy.name, f"{text} ({where})") from error


def plain_decision(
    policy: str, answered: frozenset[Question], answer: object, jobs: int, now_ns: int
) -> tuple[Decision, Any]:
    """Return the decision and memory in an answer, with Python's own whole numbers throughout.

    Numpy integers become ints; anything else of a wrong type is refused, and so is an answer to a
    question outside ``answered``. ``jobs``: number of jobs of the run; ``now_ns``: time after which
    a wake-up has to be.

    Raises
    ------
    InfeasibleDecision
        Naming the fault and the allowed values.
    """
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _refused(policy, f"decide returns (Decision, memory), got {kind_of(answer)}")
    decision, memory = answer
    if not isinstance(decision, Decision):
        raise _refused(policy, f"decide returns (Decision, memory), got {kind_of(decision)} first")
    if not isinstance(decision.assign, tuple):
        raise _refused(policy, f"assign is a tuple, got {kind_of(decision.assign)}")
    assign = decision.assign
    # Policies of Warren's own answer plainly, so their assignments are looked at and not copied.
    if not all(map(_is_plain, assign)):
        assign = tuple(_plain_assignment(policy, one) for one in assign)
    reasons = decision.reasons
    if reasons or type(reasons) is not dict:
        reasons = _plain_reasons(policy, reasons, jobs)
    wake_ns = decision.wake_ns
    if wake_ns is not None:
        wake_ns = _plain_wake(policy, wake_ns, now_ns)
    plan = None if decision.plan is None else _plain_plan(policy, decision)
    if answered != PLACE_ALONE or not _says_nothing_else(decision):
        decision = _plain_others(policy, answered, decision)
    # Nothing had to be changed: no new object for a decision that may hold thousands.
    if assign is decision.assign and plan is None and not reasons and wake_ns is None:
        return decision, memory
    return msgspec.structs.replace(
        decision, assign=assign, plan=plan, reasons=reasons, wake_ns=wake_ns
    ), memory


def _says_nothing_else(decision: Decision) -> bool:
    """Tell whether a decision holds no answer, be it of a wrong type, to another question."""
    # One by one and not in a loop: asked of every decision of a run.
    return (
        decision.groups is None
        and type(decision.classes) is dict
        and type(decision.host_classes) is dict
        and type(decision.delays_ns) is dict
        and type(decision.shapes) is dict
        and decision.only_places
    )


def _plain_others(policy: str, answered: frozenset[Question], decision: Decision) -> Decision:
    """Return a decision with plain answers to shape, group and flow, or refuse it."""
    try:
        decision = msgspec.structs.replace(
            decision,
            classes=plain_classes(decision.classes),
            host_classes=plain_host_classes(decision.host_classes),
            delays_ns=plain_delays(decision.delays_ns),
            shapes=plain_shapes(decision.shapes),
            groups=None if decision.groups is None else plain_groups(decision.groups),
        )
    except WrongAnswer as error:
        raise _refused(policy, str(error)) from None
    for question, field in questions_of(decision):
        if question not in answered:
            stated = ", ".join(sorted(answered))
            raise _refused(policy, f"{field} answers {question}; its class says: {stated}")
    return decision


def _is_plain(one: object) -> bool:
    """Tell whether an assignment holds nothing but Python's own ints, no ``bool`` or numpy's."""
    return (
        type(one) is Assignment
        and type(one.device) is type(one.job) is type(one.round) is type(one.rounds) is int
        and one.rounds < NEVER_NS
        and type(one.shards) is tuple
        and all(type(shard) is int for shard in one.shards)
    )


def _plain_assignment(policy: str, one: object) -> Assignment:
    """Return an assignment with plain ints, or refuse it."""
    if not isinstance(one, Assignment):
        raise _refused(policy, f"assign holds Assignments, got {kind_of(one)}")
    if not isinstance(one.shards, tuple):
        raise _refused(policy, f"{one}: shards are a tuple, got {kind_of(one.shards)}")
    try:
        # ``index`` takes integers of any library, and no float.
        device = int(index(one.device))
        job = int(index(one.job))
        first = int(index(one.round))
        rounds = int(index(one.rounds))
        shards = [int(index(shard)) for shard in one.shards]
    except TypeError:
        raise _refused(policy, f"{one}: allowed: whole numbers") from None
    if rounds >= NEVER_NS:
        raise _refused(policy, f"{one}: that many rounds never end")
    return Assignment(device, job, first, rounds, tuple(shards))


def _plain_reasons(policy: str, reasons: object, jobs: int) -> Mapping[int, Reason]:
    """Return reasons by plain index of their job, or refuse them."""
    if not isinstance(reasons, Mapping):
        raise _refused(policy, f"reasons map jobs to reasons, got {kind_of(reasons)}")
    plain: dict[int, Reason] = {}
    for job, reason in reasons.items():
        try:
            which, code = int(index(job)), Reason(reason)
        except (TypeError, ValueError):
            raise _refused(
                policy, f"reasons map a job's index to a Reason, got {job!r}: {reason!r}"
            ) from None
        if not 0 <= which < jobs:
            raise _refused(policy, f"a reason for job {which}; there is no such job")
        plain[which] = code
    return plain


def _plain_wake(policy: str, wake_ns: object, now_ns: int) -> int:
    """Return a wake-up's time as an int, or refuse it: it has to be later than now."""
    try:
        wake = int(index(wake_ns))  # type: ignore[arg-type]
    except TypeError:
        raise _refused(policy, f"wake_ns is whole nanoseconds, got {wake_ns!r}") from None
    # A wake-up now would come in the same instant, again and again.
    if not now_ns < wake < NEVER_NS:
        raise _refused(policy, f"wake_ns is {wake}; allowed: later than now, {now_ns}, below 2**62")
    return wake


def _plain_plan(policy: str, decision: Decision) -> Plan:
    """Return a copy of a decision's plan with int64 columns of one length, or refuse it."""
    plan = decision.plan
    if not isinstance(plan, Plan):
        raise _refused(policy, f"plan is a Plan, got {kind_of(plan)}")
    beside = decision.assign or decision.reasons or decision.wake_ns is not None
    if beside or not decision.only_places:
        raise _refused(policy, "a plan comes alone: no assign, reasons or wake_ns beside it")
    columns = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    shapes = set()
    for name, column in columns.items():
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "iu" or column.ndim != 1:
            raise _refused(policy, f"{name} of the plan is an int64 array of one axis")
        # Its largest values would become negative in int64.
        if column.dtype == np.uint64:
            raise _refused(policy, f"{name} of the plan is int64, got uint64")
        shapes.add(column.shape)
        # A copy: the policy may keep and change its own.
        columns[name] = column.astype(np.int64)
    if len(shapes) != 1:
        raise _refused(policy, "the columns of the plan are of one length")
    return Plan(**columns)


def _refused(policy: str, why: str) -> InfeasibleDecision:
    """Return the error for a policy, in one line."""
    return InfeasibleDecision(" ".join(f"policy {policy}: {why}".split()))
