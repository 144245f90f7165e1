"""Define a trace format: one value a file, listed in ``registry.py``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.file_kinds import unreadable_kind
from warren.workload.text import unpacked
from warren.workload.traces.rows import NoJob, TraceRequest, TraceRow

# Characters of the text that a format may look at, to tell whether a trace is its own.
_SNIFFED: Final = 1 << 16
SOME_TYPE: Final = "GPU"
"""The device type of traces that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHead:
    """The beginning of a trace. ``columns``: the first line between commas; ``tabs``: its TABs."""

    text: str
    columns: tuple[str, ...]
    tabs: int

    def has(self, *columns: str) -> bool:
        """Tell whether the first line names all of these columns."""
        return all(column in self.columns for column in columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """A kind of trace: its detection, its reader, and the costs of its jobs.

    ``types`` are the device types if no cluster gives them. ``unit``: the name of a row in
    messages. ``costs``: the source of T^c and T^s, for the profile rows.
    """

    looks: Callable[[TraceHead], bool]
    read: Callable[[TraceRequest], Iterator[TraceRow | NoJob]]
    types: tuple[str, ...] = (SOME_TYPE,)
    unit: str = "line"
    costs: Mapping[str, str] = field(
        default_factory=lambda: {
            "comp": "length of a round, stated by the reader",
            "sync": "the trace states run times only",
        }
    )


def head_of(file: str, content: bytes) -> TraceHead:
    """Return the beginning of a trace's text, unpacked.

    Raises SpecError if it is damaged gzip data, or a file of a kind that is no text.
    """
    plain = unpacked(file, content)
    if kind := unreadable_kind(plain):
        raise SpecError(Problem(file=file, message=kind))
    start = plain[:_SNIFFED].decode("utf-8-sig", errors="replace").lstrip()
    # Bytes cut in the middle of a character become a replacement sign, which no format looks for.
    line = start.split("\n", 1)[0].rstrip("\r")
    return TraceHead(text=start, columns=cells_in(line), tabs=line.count("\t"))


def cells_in(line: str, delimiter: str = ",") -> tuple[str, ...]:
    """Return the cells of a line of a table, without quotes and spaces around them."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        cells = line.split(delimiter)
    return tuple(cell.strip() for cell in cells)
