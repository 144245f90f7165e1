"""A place policy in a file of the user's: loaded, and never trusted to answer in form."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from warren.cli.ending import PolicyError, keep_traceback, one_line
from warren.model.decision import Decision
from warren.model.errors import Problem, SpecError
from warren.model.events import Event
from warren.model.plan import Assignment, Plan
from warren.model.view import View
from warren.policy.place.registry import build
from warren.policy.protocol import AnyPolicy

_DATA: Final[Mapping[str, type]] = {
    "name": str, "source": str, "offline": bool, "needs_rounds": bool, "triggers": frozenset,
}  # fmt: skip
_METHODS: Final = ("initial", "decide", "explain")


def is_foreign(place: str) -> bool:
    """Whether a policy is named as ``FILE.py:Class``."""
    path, _, attribute = place.rpartition(":")
    return (path or attribute).endswith(".py")


def foreign(place: str, options: Mapping[str, object], base: str = "") -> Foreign:
    """The policy class ``FILE.py:Class``; the path is relative to here, else to ``base``.

    Raises
    ------
    SpecError
        If there is no such class, or it is no place policy.
    """
    path, _, attribute = place.rpartition(":")
    candidates = [Path(path), Path(base) / path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if not path or file is None:
        raise _refused(place, "no such file; a policy of your own is given as FILE.py:Class")
    cls: Any = getattr(_load(place, file), attribute, None)
    if not isinstance(cls, type):
        raise _refused(place, f"{file} has no class {attribute!r}")
    wrong = list(_what_is_wrong(cls))
    if wrong:
        raise _refused(place, f"is not a place policy: {'; '.join(wrong)}")
    try:
        return Foreign(place, build(cls, place, options))
    except SpecError:
        raise
    except (Exception, SystemExit) as error:
        raise _refused(place, f"cannot be made: {one_line(error)}") from None


def _load(place: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"warren_foreign_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _refused(place, f"cannot be imported: {one_line(error)}") from None
    return module


def _what_is_wrong(cls: type) -> Iterator[str]:
    for name, kind in _DATA.items():
        if not isinstance(getattr(cls, name, None), kind):
            yield f"{name} must be a {kind.__name__}"
    for name in _METHODS:
        if not callable(getattr(cls, name, None)):
            yield f"{name} must be a method"
    triggers = getattr(cls, "triggers", ())
    if isinstance(triggers, frozenset) and not all(map(_is_event, triggers)):
        yield "triggers must be event types of warren.model.events"


def _is_event(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Event)


def _refused(place: str, message: str) -> SpecError:
    return SpecError(Problem(file=place, field="place", message=message))


class Foreign:
    """A policy of the user's: what it raises or answers wrongly becomes a ``PolicyError``."""

    def __init__(self, place: str, policy: AnyPolicy) -> None:
        self._place, self.policy = place, policy
        self.name, self.source = policy.name, policy.source
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.triggers = policy.triggers

    def initial(self, view: View) -> Any:
        """The policy's first memory."""
        return self._call("initial", self.policy.initial, view)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        """The policy's decision, in form."""
        answer = self._call("decide", self.policy.decide, view, memory)
        wrong = _out_of_form(answer)
        if wrong:
            raise PolicyError(f"{self._place}: decide: {wrong}")
        found: tuple[Decision, Any] = answer
        return found

    def explain(self, view: View, memory: Any, job: int) -> str:
        """The policy's sentence."""
        return str(self._call("explain", self.policy.explain, view, memory, job))

    def _call(self, what: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except (Exception, SystemExit) as error:
            text = f"{self._place}: {what} raised {one_line(error)}"
            raise PolicyError(f"{text} (traceback: {keep_traceback(error)})") from None


def _out_of_form(answer: object) -> str:
    """What the core could not read in an answer; empty if it can."""
    if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Decision):
        return f"must return (Decision, memory), not {type(answer).__name__}"
    decision = answer[0]
    if decision.plan is not None:
        return _plan_out_of_form(decision.plan)
    if not isinstance(decision.assign, tuple):
        return f"assign must be a tuple, not {type(decision.assign).__name__}"
    for one in decision.assign:
        if not isinstance(one, Assignment):
            return f"assign holds {type(one).__name__}, not Assignment"
        strange = _no_int(one.device, one.job, one.round, one.rounds, *one.shards)
        if strange:
            return f"{one}: {strange}"
    return _no_int(*decision.reasons, *([] if decision.wake_ns is None else [decision.wake_ns]))


def _plan_out_of_form(plan: object) -> str:
    if not isinstance(plan, Plan):
        return f"plan must be a Plan, not {type(plan).__name__}"
    columns = [getattr(plan, field.name) for field in fields(Plan)]
    right = all(isinstance(c, np.ndarray) and c.dtype == np.int64 and c.ndim == 1 for c in columns)
    if not right or len({len(column) for column in columns}) > 1:
        return "the columns of a plan must be int64 arrays of one length"
    return ""


def _no_int(*numbers: object) -> str:
    """The number must go into the journal, which takes no numpy scalars."""
    strange = next((one for one in numbers if type(one) is not int), None)
    if strange is None:
        return ""
    return f"{strange!r} is {type(strange).__name__}, not int; write int(...)"
