"""Every error Warren raises on purpose.

::

    WarrenError
    ├── SpecError            wrong input: one problem or many, each with its place
    ├── InfeasibleDecision   a policy asked for what the cluster state does not allow
    ├── InvalidTransition    an event that cannot happen in the state it met
    ├── InputDataError       a job's input data find no place, or do not come back from disk
    ├── JournalError         a journal that cannot be read back
    └── EngineError          the live side could not start or keep its processes

Expected trouble, such as a crashed job, is an event and never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault of one input: its place, what is wrong, what is allowed."""

    file: str
    field: str = ""
    line: int | None = None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.field, self.message) if part)
        return printable(" ".join(text.split()))


class WarrenError(Exception):
    """Base of all errors raised on purpose."""


class SpecError(WarrenError):
    """Wrong input. ``problems`` lists all of them at once, one line each."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InfeasibleDecision(WarrenError):
    """A policy's decision breaks a rule; the text names the policy, the job and the rule."""


class InvalidTransition(WarrenError):
    """An event met a state in which it cannot happen; the text holds the job's story."""


class InputDataError(WarrenError):
    """A job's input data find no place in memory or on disk, or do not come back whole."""


class JournalError(WarrenError):
    """A journal is not one, or is damaged before its last record."""


class EngineError(WarrenError):
    """The live side could not start or keep its own processes."""


_LINE_CHARS: Final = 1000
"""The most characters of an error's text that a line repeats."""
_READ_CHARS: Final = 8 * _LINE_CHARS
"""The most characters of an error's text that are looked at: a text may have 100 MB."""

_CHAIN: Final = 100
"""The most errors of a chain that are looked at."""


def one_line(error: BaseException, most: int = _LINE_CHARS) -> str:
    """Return kind and text of an error in one line that every file, message and terminal takes.

    User code may raise anything: the line is made whatever the error's own methods do. A group
    shows the first error in it too.

    Parameters
    ----------
    error
        The error.
    most
        The most characters of the line; it ends in ``...`` where it is cut.
    """
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    line = _named(error) if first is error else f"{_named(error)}; first: {_named(first)}"
    return short_line(line, most)


def _named(error: BaseException) -> str:
    """Return kind and text of one error; its kind alone if it has no text."""
    return f"{kind_of(error)}: {text_of(error)[:_READ_CHARS]}".rstrip(": ")


def kind_of(error: BaseException) -> str:
    """Return the name of an error's class, whatever its metaclass says."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def text_of(error: BaseException) -> str:
    """Return the text of an error; its ``__str__`` may raise anything, or give odd strings."""
    try:
        # Not a subclass of str, which may have methods of its own.
        return "".join([str(error)])
    except BaseException as failed:
        return f"its text cannot be read: {kind_of(failed)}"


def short_line(text: str, most: int = _LINE_CHARS) -> str:
    """Return the beginning of a text as one printable line of at most ``most`` characters."""
    line = printable(" ".join(text[:_READ_CHARS].split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def printable(text: str) -> str:
    """Return a text with all that cannot be printed as an escape: ``\\x1b``, ``\\udce9``.

    Control characters would steer a terminal; a lone surrogate fits into no file or message.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, and so on, up to a bound: a chain may be a ring."""
    at: BaseException | None = error
    for _ in range(_CHAIN):
        if at is None:
            return
        yield at
        at = at.__context__ if at.__cause__ is None else at.__cause__
