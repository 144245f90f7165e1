"""A policy that Python gives as a class or an object, named as ``python:Class`` in its runs.

A run knows its policies by name, in its file, its journal and its reports. ``given`` makes names of
classes and objects, and finds them again while its block lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from warren.model.errors import Problem, SpecError, short_line
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import build
from warren.runs.user_policies.from_file import is_foreign, what_is_wrong

PolicyLike: TypeAlias = "str | type[AnyPolicy] | AnyPolicy"
"""A policy in any form that the library takes: a name, a class, or an object."""

_PREFIX: Final = "python:"
_VALUE_CHARS: Final = 40
"""Most characters of an option's value in a name."""
_GIVEN: Final[ContextVar[Mapping[str, Any]]] = ContextVar("given", default=MappingProxyType({}))
"""The classes and objects that runs may name now. A process that is forked has them, too."""


def is_given(name: str) -> bool:
    """Tell whether a name is that of a class or an object that Python gave."""
    return name.startswith(_PREFIX)


def is_users(name: str) -> bool:
    """Tell whether a policy is the user's own: in a file, or given by Python."""
    return is_given(name) or is_foreign(name)


@contextmanager
def given(policies: Sequence[tuple[str, PolicyLike]]) -> Iterator[list[str]]:
    """Name policies, each with the question that it is for; runs may name them in the block.

    Yields the names in order. A name stays as it is.

    Raises
    ------
    SpecError
        If one is no policy, or if two that differ have one name.
    """
    found = {**_GIVEN.get()}
    names = [_named(question, policy, found) for question, policy in policies]
    before = _GIVEN.set(found)
    try:
        yield names
    finally:
        _GIVEN.reset(before)


def given_policy(name: str, options: Mapping[str, object], question: str) -> AnyPolicy:
    """Return the policy that was given under a name; a class is made with its options.

    Raises
    ------
    SpecError
        If none was given under this name, or its options are wrong.
    """
    policy = _GIVEN.get().get(name)
    if policy is None:
        own = name.removeprefix(_PREFIX)
        message = (
            f"{own} is a class or object of the Python session that began this run; "
            f"give it again from Python ({question}={own}), or save it in a file and "
            f"name FILE.py:{own.partition('(')[0]}"
        )
        raise SpecError(Problem(file=name, field=question, message=message))
    section = "" if question == "place" else f"{question}."
    if isinstance(policy, type):
        return build(policy, name, options, section)
    if options:
        field = ", ".join(f"{section}{option}" for option in options)
        message = f"{name} is an object, which has its options; give its class to set them here"
        raise SpecError(Problem(file="policy", field=field, message=message))
    made: AnyPolicy = policy
    return made


def _named(question: str, policy: PolicyLike, found: dict[str, Any]) -> str:
    """Return the name of a policy; a class or an object is added to ``found`` under it."""
    if isinstance(policy, str):
        return policy
    own = _own_name(policy)
    if wrong := list(what_is_wrong(policy)):
        message = f"{own} is not a policy: {'; '.join(wrong)}"
        # Of a value that is far from a policy, what it lacks says nothing.
        if not any(hasattr(policy, one) for one in ("decide", "initial", "explain")):
            shown = own if isinstance(policy, type) else short_line(repr(policy), _VALUE_CHARS)
            message = (
                f"expected a name, FILE.py:Class, or a policy as a class or object, got {shown}; "
                "the shortest is a subclass of warren.policy.order.JobOrder with a method order"
            )
        raise SpecError(Problem(file=question, message=message))
    name = f"{_PREFIX}{own}"
    if found.setdefault(name, policy) is not policy:
        message = (
            f"two policies would be called {own} in the results; "
            "rename a class, or make their options fields of a dataclass"
        )
        raise SpecError(Problem(file=question, message=message))
    return name


def _own_name(policy: object) -> str:
    """Return the name of a class, or of an object with those options that are no defaults."""
    if isinstance(policy, type):
        return policy.__name__
    name = getattr(policy, "__name__", type(policy).__name__)
    if not is_dataclass(policy):
        return str(name)
    shown = ((one, repr(getattr(policy, one.name))) for one in fields(policy) if one.init)
    # By their texts: values of arrays have no single answer to whether they are equal.
    options = [
        f"{one.name}={short_line(text, _VALUE_CHARS)}"
        for one, text in shown
        if text != repr(_default(one))
    ]
    return f"{name}({', '.join(options)})" if options else str(name)


def _default(one: Field[Any]) -> object:
    """Return the default of a dataclass's field."""
    return one.default_factory() if one.default_factory is not MISSING else one.default
