"""Answers of the service as text: tables that fit the terminal, and moments."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

NARROWEST: Final = 60
"""Fewest columns that a table is made for."""


def clean(value: object) -> str:
    """Return a value without control characters: other users chose the names of their jobs."""
    text = str(value)
    if text.isprintable():
        return text
    from warren.model.errors import printable

    return printable(text)


def moment(seconds: float | None) -> str:
    """Return a moment since 1970 in local time; empty if there is none."""
    if seconds is None:
        return ""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def width() -> int | None:
    """Return the columns of the terminal; None where standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return None
    return max(columns, NARROWEST) if columns else None


def table(
    rows: Sequence[Sequence[str]], room: int | None, shrinks: Sequence[int] = ()
) -> list[str]:
    """Return rows as lines with columns below each other; the first row is the head.

    Parameters
    ----------
    rows
        Cells.
    room
        Columns of the terminal; None: as wide as they are.
    shrinks
        Columns that become narrower, in this order, if the terminal is narrow. What is cut off
        ends in ``…``. The last column needs no blanks behind it.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    over = 0 if room is None else sum(widths) + 2 * (len(widths) - 1) - room
    for at in shrinks:
        least = max(len(rows[0][at]), 10)
        given = min(max(over, 0), max(widths[at] - least, 0))
        widths[at] -= given
        over -= given
    return [
        "  ".join(
            _cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cut(cell: str, width: int) -> str:
    """Return a cell of at most this width."""
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def fields(pairs: Mapping[str, Any]) -> list[str]:
    """Return names and values as lines, without those of no value."""
    shown = {name: clean(value) for name, value in pairs.items() if value not in (None, "", [], ())}
    room = max(map(len, shown), default=0)
    return [f"{name:{room}}  {value}" for name, value in shown.items()]
