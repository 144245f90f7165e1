"""Read a YAML file as plain values that still know their lines.

Only the core of YAML is read: mappings, lists, strings, numbers, ``true``/``false`` and ``null``.
Aliases, tags, merge keys, duplicate keys, several documents and NaN are refused, so a file means
exactly its visible text and cannot grow while it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from warren.model.errors import Problem, SpecError
from warren.workload.text import FLOAT, INT, decoded, dotted, shown

MAX_DEPTH: Final = 50

Place: TypeAlias = "int | tuple[int, dict[str, Place]] | tuple[int, list[Place]]"
Path: TypeAlias = tuple[str | int, ...]

# libyaml's parser where it is compiled in, which is much faster; only its events are used.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Unlike YAML 1.1: ``yes`` and ``no`` are text.
_WORDS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(slots=True)
class Document:
    """The values of one file (or of a Python object) and where each of them stands."""

    file: str
    data: Any
    place: Place = 0
    overridden: list[Path] = field(default_factory=list)
    columns: Mapping[str, str] | None = None
    """Columns of a table by the field that they hold; None where the file is no table."""
    notes: tuple[str, ...] = ()
    """Remarks on ignored parts."""

    def line(self, path: Path) -> int | None:
        """Return the line of a field, or of the nearest thing around it; None if there is none."""
        # A value from an override is in no line of the file.
        if any(path[: len(known)] == known for known in self.overridden):
            return None
        place = self.place
        # A place is a line, or a line with the places inside a mapping or a list.
        for key in path:
            inside = None if isinstance(place, int) else place[1]
            if isinstance(inside, dict) and key in inside:
                place = inside[str(key)]
            elif isinstance(inside, list) and isinstance(key, int) and key < len(inside):
                place = inside[key]
            else:
                break
        return (place if isinstance(place, int) else place[0]) or None

    def where(self, path: Path) -> str:
        """Return the file and line of a field, for messages about the thing it names."""
        line = self.line(path)
        return self.file if line is None else f"{self.file}:{line}"

    def named(self, path: Path) -> str:
        """Return a field as the user knows it: a dotted path, or the column of a table."""
        if self.columns is None:
            return dotted(path)
        return self.columns.get(str(path[1]), str(path[1])) if len(path) > 1 else ""

    def problem(self, path: Path, message: str) -> Problem:
        """Return a problem with one field of this file."""
        return Problem(
            file=self.file, field=self.named(path), line=self.line(path), message=message
        )


def parse_document(file: str, text: str) -> Document:
    """Read one YAML document.

    Raises SpecError if the text is not YAML, or uses refused features; with all problems that one
    reading can find.
    """
    builder = _Builder(file)
    try:
        return builder.document(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        raise SpecError([*builder.problems, _syntax(file, text, error)]) from None
    except (ValueError, OverflowError, RecursionError) as error:
        message = f"is not readable YAML: {type(error).__name__}"
        raise SpecError([*builder.problems, Problem(file=file, message=message)]) from None


def parse_value(file: str, field_name: str, text: str) -> Any:
    """Read one value as it would stand in a file: the right side of ``--set KEY=VALUE``."""
    try:
        # An argument that is no UTF-8 holds surrogates; so encoded, it is refused like a file.
        return parse_document(file, decoded(file, text.encode("utf-8", "surrogatepass"))).data
    except SpecError as error:
        first = error.problems[0].message
        message = f"{shown(text)} cannot be read as a value: {first}"
        raise SpecError(Problem(file=file, field=field_name, message=message)) from None


def _syntax(file: str, text: str, error: yaml.YAMLError) -> Problem:
    """Return a problem for text that the parser refuses, with its line where that is known."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = (
        _tab(text, mark)
        or getattr(error, "problem", None)
        or getattr(error, "reason", None)
        or "cannot be read"
    )
    # The mark of an unfinished file may lie after its last line.
    last = max(1, len(text.splitlines()))
    line = None if mark is None else min(mark.line + 1, last)
    return Problem(file=file, line=line, message=f"is not YAML: {said}")


def _tab(text: str, mark: Any) -> str:
    """Return the advice if the unreadable line is indented with a tab; empty if it is not."""
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    indent = line[: len(line) - len(line.lstrip())]
    return "a tab; indent with spaces" if "\t" in indent else ""


class _Builder:
    """Builds values from parser events, one pass, bounded depth."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def document(self, events: Iterator[Any]) -> Document:
        """Build the one document of a file; a second one is refused."""
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                break
        else:
            raise SpecError(Problem(file=self.file, message="is empty"))
        data, place = self._node(events, next(events), ())
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._refuse(event, (), "holds several documents; allowed: one a file")
                break
        if self.problems:
            raise SpecError(self.problems)
        return Document(file=self.file, data=data, place=place)

    def _node(self, events: Iterator[Any], event: Any, path: Path) -> tuple[Any, Place]:
        """Build the value that begins with an event, and the place where it stands."""
        line = event.start_mark.line + 1
        if len(path) > MAX_DEPTH:
            self._refuse(event, path[:3], f"is nested deeper than {MAX_DEPTH} levels")
            raise SpecError(self.problems)
        # Aliases of aliases could grow a small file without bound.
        if isinstance(event, yaml.AliasEvent):
            self._refuse(event, path, "is an alias (*); write the value out")
            return None, line
        if event.tag is not None:
            self._refuse(event, path, f"has a tag ({shown(event.tag)}); tags are not allowed")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, path, line)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, path, line)
        return self._scalar(event, path), line

    def _sequence(self, events: Iterator[Any], path: Path, line: int) -> tuple[Any, Place]:
        values: list[Any] = []
        places: list[Place] = []
        # Values and places are built side by side, so that each value has its line.
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            value, place = self._node(events, event, (*path, len(values)))
            values.append(value)
            places.append(place)
        return values, (line, places)

    def _mapping(self, events: Iterator[Any], path: Path, line: int) -> tuple[Any, Place]:
        values: dict[str, Any] = {}
        places: dict[str, Place] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._key(events, event, path)
            value, place = self._node(events, next(events), (*path, key))
            if key in values:
                self._refuse(event, (*path, key), f"stands twice; first in line {_at(places[key])}")
            values[key] = value
            places[key] = place
        return values, (line, places)

    def _key(self, events: Iterator[Any], event: Any, path: Path) -> str:
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        self._refuse(event, path, "has a key that is not a plain word")
        raise SpecError(self.problems)

    def _scalar(self, event: Any, path: Path) -> Any:
        """Return the value of plain text; quoted content is always text."""
        text = event.value
        # ``style`` is set for quoted text, ``implicit`` is false where a tag was written.
        if event.style or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if INT.fullmatch(text):
            return int(text)
        if _NOT_A_NUMBER.fullmatch(text):
            self._refuse(event, path, f"{text} is not a number Warren can use")
            return 0
        # Longer than any intended number; such text stays text, and the schema refuses it.
        if len(text) <= 400 and FLOAT.fullmatch(text):
            return self._finite(event, path, float(text))
        return text

    def _finite(self, event: Any, path: Path, value: float) -> float:
        if not math.isfinite(value):
            self._refuse(event, path, f"{shown(event.value)} is too large")
        return value

    def _refuse(self, event: Any, path: Path, message: str) -> None:
        line = event.start_mark.line + 1
        self.problems.append(
            Problem(file=self.file, field=dotted(path), line=line, message=message)
        )


def _at(place: Place) -> int:
    return place if isinstance(place, int) else place[0]
