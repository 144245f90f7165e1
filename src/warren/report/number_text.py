"""Numbers as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
"""Units of time from the largest on: size in seconds and sign."""
NOTHING: Final = "–"
"""Stands for a value that is not known."""


def number(value: float) -> str:
    """Write four or five digits, thousands apart, never an exponent: 0.0123, 4.56, 12,345."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        digits = 1
    elif size >= 1:
        digits = 2
    else:
        digits = 4
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None) -> str:
    """Write a share of one as per cent with one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def seconds(value_s: float | None) -> str:
    """Write seconds with their unit, whatever their size."""
    return NOTHING if value_s is None else f"{number(value_s)} s"


def duration(value_s: float | None) -> str:
    """Write a time in the largest unit that leaves at least two of it: 90 s, 12.3 min, 5.2 h."""
    if value_s is None:
        return NOTHING
    return in_unit(value_s, time_unit(value_s))


def in_unit(value_s: float | None, unit: tuple[float, str]) -> str:
    """Write a time in a unit of ``time_unit``."""
    if value_s is None:
        return NOTHING
    size, sign = unit
    return f"{number(round(value_s / size, 2))} {sign}"


def time_unit(span_s: float) -> tuple[float, str]:
    """Return the unit that suits times up to ``span_s``: its size in seconds and its sign."""
    for size, sign in _UNITS:
        # At least two of minutes and longer: 90 s says more than 1.5 min. Of seconds one is
        # enough, or 1.2 s would be 1,200 ms.
        if span_s >= (2 * size if size > 1 else size):
            return size, sign
    return _UNITS[-1] if span_s > 0 else (1.0, "s")


def count(number_of: int, noun: str) -> str:
    """Write a number with its noun: ``1 job``, ``2,000 jobs``, ``2 processes``."""
    many = "es" if noun.endswith("s") else "s"
    return f"{number_of:,} {noun}{'' if number_of == 1 else many}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines in which columns stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # Without blanks behind the last cell, which may be empty.
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
