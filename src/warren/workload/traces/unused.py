"""Rows of a trace that are no jobs: counted by reason, never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from warren.workload.text import shown
from warren.workload.traces.rows import NoJob

FIRST: Final = 10
"""So many of a reason's lines are shown."""


@dataclass(slots=True)
class Unused:
    """Counts of rows that were not used. ``unit`` is what a row is called in the notes."""

    unit: str = "line"
    rows: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, row: NoJob) -> None:
        """Count one row."""
        self.rows.setdefault(row.reason, []).append((row.line, row.value))

    @property
    def total(self) -> int:
        """Rows of all reasons."""
        return sum(len(found) for found in self.rows.values())

    def notes(self, file: str) -> Iterator[str]:
        """One remark a reason: how many rows, why, and where the first of them stand."""
        for reason, found in self.rows.items():
            what = "row" if len(found) == 1 else "rows"
            yield f"{file}: {len(found)} {what} not used: {reason} ({self._where(found)})"

    def _where(self, found: Iterable[tuple[int, str]]) -> str:
        rows = list(found)
        first = [
            f"{self.unit} {line}" + (f" {shown(value)}" if value else "")
            for line, value in rows[:FIRST]
        ]
        return ", ".join(first) + ("" if len(rows) <= FIRST else ", ...")
