"""Numbers in text: whole ones, in every form that logs and tables have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MISSING: Final = frozenset(
    {"", "nan", "na", "n/a", "#n/a", "<na>", "null", "none", "nil", "-", "--", "?", "nat"}
)
"""Contents of a cell without a value, in small letters."""

_FORM: Final = (
    r"(?:(?<![\w.)\]])[-+\u2212])?"
    r"(?:(?:{digits})(?:\.\d*)?|(?<![\d.])\.\d+)(?:[eE][-+]?\d+|[dD][-+]\d+)?"
    r"|(?:(?<![\w.)\]])[-+\u2212])?\b(?:inf(?:inity)?|nan)\b"
)
_PLAIN: Final = re.compile(_FORM.format(digits=r"\d+(?:_\d+)*"), re.IGNORECASE)
_GROUPED: Final = re.compile(
    _FORM.format(digits=r"(?<!\d,)\d{1,3}(?:,\d{3})+(?![\d,])|\d+(?:_\d+)*"), re.IGNORECASE
)
_AROUND: Final = " \t\"'`()[]{}<>.,;:|%="
"""Characters around a number in the text that a pattern finds."""
SIGN: Final = re.compile(r"(?<![\w.)\]])[-+\u2212](?=\.?\d)")
"""The sign of a number."""
NO_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:nan|inf(?:inity)?)(?!\w)", re.IGNORECASE)
"""A word that stands in place of a number."""


def is_missing(text: str) -> bool:
    """Tell whether a cell holds no value, in any spelling of that; an infinite value is none."""
    plain = text.strip().lower()
    return plain in MISSING or (NO_NUMBER.fullmatch(plain) is not None)


def number_in(text: str) -> float | None:
    """Return the number that a text is, perhaps in percent or with commas; None if it is none."""
    found = _GROUPED.fullmatch(text.strip().removesuffix("%").rstrip())
    return None if found is None else _parsed(found[0])


def whole_number(line: str, span: tuple[int, int], others: Iterable[tuple[int, int]] = ()) -> str:
    """Return the text of the whole number in or around a part of a line.

    A part that begins or ends inside a number, such as ``1.04`` in ``1.04E+01`` or ``0.5`` in
    ``-0.5``, stands for all of it. A part that is no single number is returned as it is.

    Parameters
    ----------
    line
        A line of a log.
    span
        Where the part begins and ends.
    others
        Parts that are read for themselves: no number goes over a comma into them.
    """
    start, end = span
    # ``12,345``: one number, unless the part stands behind the comma, or another part does.
    for form in (_GROUPED, _PLAIN):
        found = [one for one in form.finditer(line) if one.start() < end and start < one.end()]
        if len(found) != 1:
            continue
        (one,) = found
        behind_comma = one.start() < start and line[start - 1] == ","
        if behind_comma or any(one.start() < last and first < one.end() for first, last in others):
            continue
        rest = line[start : max(start, one.start())] + line[min(end, one.end()) : end]
        return line[start:end] if rest.strip(_AROUND) else one[0]
    return line[start:end]


def _parsed(text: str) -> float:
    plain = text.replace(",", "").replace("\u2212", "-")
    # Fortran's exponent of a double: 1.0D+01. Words, such as nan, have no digits.
    return float(re.sub("[dD](?=[-+])", "e", plain))
