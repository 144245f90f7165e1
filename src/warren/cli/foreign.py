"""A place policy in a file of the user's.

What it answers is checked in ``warren.core.decision_checks``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warren.cli.errors import one_line
from warren.model.errors import Problem, SpecError
from warren.model.events import Event
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import build

_DATA: Final[Mapping[str, type]] = {
    "name": str, "source": str, "offline": bool, "needs_rounds": bool, "triggers": frozenset,
}  # fmt: skip
_METHODS: Final = ("initial", "decide", "explain")


def is_foreign(place: str) -> bool:
    """Whether a policy is named as ``FILE.py:Class``."""
    path, _, attribute = place.rpartition(":")
    return (path or attribute).endswith(".py")


def foreign(place: str, options: Mapping[str, object], base: str = "") -> AnyPolicy:
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
    module = _load(place, file)
    cls: Any = getattr(module, attribute, None)
    if not isinstance(cls, type):
        raise _refused(place, f"{file} has no class {attribute!r}; {_classes(module)}")
    wrong = list(_what_is_wrong(cls))
    if wrong:
        raise _refused(place, f"is not a place policy: {'; '.join(wrong)}")
    try:
        return build(cls, place, options)
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


def _classes(module: ModuleType) -> str:
    """The policies of a file; where it has none, all its classes."""
    own = {
        name: one
        for name, one in vars(module).items()
        if isinstance(one, type) and one.__module__ == module.__name__
    }
    policies = [name for name, one in own.items() if not any(_what_is_wrong(one))]
    return f"it has: {', '.join(policies or own) or 'none'}"


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
