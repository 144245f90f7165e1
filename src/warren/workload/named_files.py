"""Find and read the files that a run file names, and keep their problems."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from warren.model.errors import Problem, SpecError
from warren.workload.specs.types import is_path
from warren.workload.text import Reader, decoded, fetch
from warren.workload.yaml_document import Document, Path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files that ``document``, a run file in ``folder``, names; ``problems`` are collected."""

    document: Document
    folder: str
    read: Reader
    problems: list[Problem] = field(default_factory=list)

    def joined(self, named: str) -> str:
        """Return the path of a file that the run file names, joined to its folder."""
        return posixpath.join(self.folder, named)

    def follow(
        self, at: Path, named: str, parse: Callable[[str, str], Document]
    ) -> Document | None:
        """Parse the file that stands at ``at``; None and problems where it cannot be."""
        content = self.content(at, named)
        if content is None:
            return None
        file = self.joined(named)
        return self.attempt(lambda: parse(file, decoded(file, content)))

    def content(self, at: Path, named: str) -> bytes | None:
        """Read the file that stands at ``at``; None and a problem where it cannot be read."""
        if not is_path(named):
            # The schema has refused it already.
            return None
        by = self.document.where(at)
        return self.attempt(lambda: fetch(self.joined(named), self.read, by))

    def attempt(self, make: Callable[[], T]) -> T | None:
        """Return the result of ``make``; on a SpecError, keep the problems and return None."""
        try:
            return make()
        except SpecError as error:
            self.problems.extend(error.problems)
            return None
