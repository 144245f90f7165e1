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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with one input: where it stands, what is wrong, what is allowed."""

    file: str
    field: str = ""
    line: int | None = None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (place, self.field, self.message) if part)
        return " ".join(text.split())


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
    """An event met a state in which it cannot happen; the text tells the job's story."""


class InputDataError(WarrenError):
    """A job's input data find no place in memory or on disk, or do not come back whole."""


class JournalError(WarrenError):
    """A journal is not one, or is damaged before its last record."""


class EngineError(WarrenError):
    """The live side could not start or keep its own processes."""


_LINE_CHARS: Final = 1000
"""The most characters of an error's text that a line repeats: user code may raise anything."""


def one_line(error: BaseException) -> str:
    """Return kind and text of an error in one line of bounded length."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")
    return text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}..."
