"""``grain``: 1, ``N rounds`` or a time."""

from __future__ import annotations

import re
from typing import Final

from warren.model.run import Grain
from warren.model.units import parse_time_s, seconds_to_ns
from warren.workload.text import shown

_ROUNDS: Final = re.compile(r"([0-9]{1,12}) *(rounds?)?")
_ALLOWED: Final = 'allowed: 1, "N rounds", or a time like "60 s"'


def parse_grain(value: object) -> Grain:
    """The grain a user wrote.

    Raises
    ------
    ValueError
        If it is none of the forms, or a bare number other than 1 (rounds or seconds?).
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{shown(value)} is not a grain; {_ALLOWED}")
    text = shown(value) if isinstance(value, int) else value.strip()
    if len(text) > 100:
        raise ValueError(f"{shown(value)} is not a grain; {_ALLOWED}")
    rounds = _ROUNDS.fullmatch(text)
    if rounds is None:
        return _time(text)
    count = int(rounds[1])
    if count < 1 or (rounds[2] is None and count != 1):
        raise ValueError(f'{text} is unclear; write "{text} rounds" or "{text} s"; {_ALLOWED}')
    return Grain(text=text, rounds=count, time_ns=None)


def _time(text: str) -> Grain:
    try:
        time_ns = seconds_to_ns(parse_time_s(text))
    except ValueError as error:
        raise ValueError(f"{error}; {_ALLOWED}") from None
    if time_ns < 1:
        raise ValueError(f"{shown(text)} is no time at all; {_ALLOWED}")
    return Grain(text=text, rounds=None, time_ns=time_ns)
