"""The files that a run file names: found beside it, read, and what is wrong with them kept."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from warren.model.errors import Problem, SpecError
from warren.workload.specs.types import is_path
from warren.workload.text import Reader, fetch
from warren.workload.yaml_document import Document, Path

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """``document`` is the run file in ``folder``; ``problems`` grow as files turn out wrong."""

    document: Document
    folder: str
    read: Reader
    problems: list[Problem] = field(default_factory=list)

    def raw(self, key: str) -> Any:
        """What the run file says under a key, as it stands; None where it says nothing."""
        data = self.document.data
        return data.get(key) if isinstance(data, dict) else None

    def joined(self, named: str) -> str:
        """The path of a file that the run file names."""
        return posixpath.join(self.folder, named)

    def follow(
        self, at: Path, named: str, parse: Callable[[str, bytes], Document]
    ) -> Document | None:
        """The file that stands at ``at``, parsed; None and problems where it cannot be."""
        content = self.content(at, named)
        if content is None:
            return None
        return self.attempt(lambda: parse(self.joined(named), content))

    def content(self, at: Path, named: str) -> bytes | None:
        """The content of the file that stands at ``at``; None and a problem where it has none."""
        if not is_path(named):
            return None  # the schema has refused it
        line = self.document.line(at)
        by = self.document.file if line is None else f"{self.document.file}:{line}"
        return self.attempt(lambda: fetch(self.joined(named), self.read, by))

    def attempt(self, make: Callable[[], T]) -> T | None:
        """What is made, or None and its problems."""
        try:
            return make()
        except SpecError as error:
            self.problems.extend(error.problems)
            return None
