"""A policy in a file of the user's, named as ``FILE.py:Class``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warren.model.decision import PLACE_ALONE, Question
from warren.model.errors import Problem, SpecError, one_line
from warren.model.events import Event
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import build

_DATA: Final[Mapping[str, type]] = {
    "name": str,
    "source": str,
    "offline": bool,
    "needs_rounds": bool,
    "triggers": frozenset,
}
_METHODS: Final = ("initial", "decide", "explain")


def is_foreign(place: str) -> bool:
    """Tell whether a policy is named as ``FILE.py:Class``."""
    path, _, attribute = place.rpartition(":")
    return (path or attribute).endswith(".py")


def foreign(
    name: str, options: Mapping[str, object], base: str = "", question: str = "place"
) -> AnyPolicy:
    """Load and make the policy ``FILE.py:Class``; its path is relative to here, else to ``base``.

    ``question``: the question that it is named for, one of the four or ``joint``.

    Raises
    ------
    SpecError
        If the class does not exist, or is no policy of this question.
    """
    path, _, attribute = name.rpartition(":")
    unnamed = not path
    if unnamed:
        path, attribute = attribute, ""
    candidates = [Path(path), Path(base) / path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    try:
        if file is None:
            raise _Refused("no such file; a policy of your own is given as FILE.py:Class")
        module = _load(file)
        if unnamed:
            raise _Refused(
                f"names no class; {_classes(module)}; a policy is given as FILE.py:Class"
            )
        cls: Any = getattr(module, attribute, None)
        if not isinstance(cls, type):
            raise _Refused(f"{file} has no class {attribute!r}; {_classes(module)}")
        if wrong := list(what_is_wrong(cls)):
            raise _Refused(f"is not a {question} policy: {'; '.join(wrong)}")
        return build(cls, name, options, "" if question == "place" else f"{question}.")
    except SpecError:
        raise
    except _Refused as error:
        message = str(error)
    except (Exception, SystemExit) as error:
        message = f"cannot be made: {one_line(error)}"
    raise SpecError(Problem(file=name, field=question, message=message))


class _Refused(Exception):
    """Why a class in a file of the user's cannot be taken as a policy."""


def _load(file: Path) -> ModuleType:
    """Import a file of the user's as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"warren_foreign_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    # A script that was taken for a policy may call ``sys.exit``.
    except (Exception, SystemExit) as error:
        raise _Refused(f"cannot be imported: {one_line(error)}") from None
    return module


def _classes(module: ModuleType) -> str:
    """Tell the policies of a file; where it has none, all its classes."""
    # Classes that the file imports are not its own.
    own = {
        name: one
        for name, one in vars(module).items()
        if isinstance(one, type) and one.__module__ == module.__name__
    }
    policies = [name for name, one in own.items() if not any(what_is_wrong(one))]
    return f"it has: {', '.join(policies or own) or 'none'}"


def what_is_wrong(cls: object) -> Iterator[str]:
    """Yield the faults of a class or object that is no policy; nothing if it is one."""
    for name, kind in _DATA.items():
        if not isinstance(getattr(cls, name, None), kind):
            yield f"{name} must be a {kind.__name__}"
    for name in [*_METHODS, *sorted(getattr(cls, "__abstractmethods__", ()))]:
        method = getattr(cls, name, None)
        if not callable(method) or getattr(method, "__isabstractmethod__", False):
            yield f"{name} must be a method"
    triggers = getattr(cls, "triggers", ())
    if isinstance(triggers, frozenset) and not all(map(_is_event, triggers)):
        yield "triggers must be event types of warren.model.events"
    stated: object = getattr(cls, "answers", PLACE_ALONE)
    if not isinstance(stated, frozenset) or not stated or not stated <= set(Question):
        yield "answers must be a frozenset of Questions of warren.model.decision"


def _is_event(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Event)
