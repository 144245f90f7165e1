"""Tables that sort by a click on a heading: cells as values, filled into one template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from warren.report.page.fill import fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its text, the number it sorts by (None: its text), and how it looks."""

    text: object
    kind: str = ""
    sort: str | None = None
    title: str | None = None
    colour: str = ""
    link: str = ""
    share_pct: float | None = None
    """Length of a bar below the text, in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row's cells, the key that highlights it, and its job where it stands for one."""

    cells: Sequence[Cell]
    key: str
    job: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A column's heading; a column of text is not set to the right."""

    text: str
    is_text: bool


def number_cell(text: object, value: object, share_pct: float | None = None) -> Cell:
    """Make the cell of a number: set to the right, sorted by its value if it has one."""
    sort = repr(value) if isinstance(value, int | float) else None
    return Cell(text=text, kind="n", sort=sort, share_pct=share_pct)


def table(headings: Iterable[tuple[str, bool]], rows: Iterable[TableRow], note: str = "") -> Markup:
    """Make a table of rows; headings say whether their column is text. ``note`` stands above it."""
    named = [Heading(text=_unit_held(text), is_text=is_text) for text, is_text in headings]
    return fill("table.html", headings=named, rows=list(rows), note=note)


def _unit_held(heading: str) -> str:
    """Return a heading that wraps in a narrow table, but not between a word and its unit."""
    words = heading.rsplit(" ", 1)
    return "\u00a0".join(words) if words[-1] in ("ms", "s", "min", "h", "d") else heading
