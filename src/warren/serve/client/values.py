"""Values as people write them: 4h, 16 GB, 1-10, lr=0.1,0.2, 12:any."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Final

_SECONDS: Final = {
    "d": 86_400.0,
    "h": 3_600.0,
    "min": 60.0,
    "m": 60.0,
    "s": 1.0,
}
"""Seconds of each unit of time."""
_LONGEST_S: Final = 3_650 * 86_400.0
"""Longest time that can be meant, in seconds."""
_LARGEST: Final = 2**31
"""Largest whole number that can be meant."""


def seconds(text: str) -> float:
    """Return the seconds of ``30m``, ``4h``, ``1d 12h``.

    Raises
    ------
    ValueError
        If it is no time, or has no unit: a bare number means minutes to some, seconds to others.
    """
    import re

    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)(?![a-z])\s*", text)
    whole = re.fullmatch(r"\s*(?:\d+(?:\.\d+)?\s*(?:d|h|min|m|s)(?![a-z])\s*)+", text)
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts) if whole else 0.0
    if not 0 < total <= _LONGEST_S:
        raise ValueError(f"{_shown(text)} is no time; write it like 30m, 4h or 1d12h")
    return total


def size(text: str) -> int:
    """Return the bytes of ``16 GB``, ``16G`` or ``512 MiB``.

    Raises
    ------
    ValueError
        If it is no size, or has no unit.
    """
    from warren.model.units import parse_bytes

    short = text.strip()
    try:
        # A bare number of bytes is refused: to some programs it means megabytes.
        named = short[-1:].isalpha() and len(short) <= 40
        found = parse_bytes(short if short.endswith("B") else f"{short}B") if named else 0
    except ValueError:
        found = 0
    if found < 1:
        raise ValueError(f"{_shown(text)} is no size; write it like 16GB or 512MiB")
    return found


def whole(text: str) -> int:
    """Return a whole number.

    Raises
    ------
    ValueError
        If it is none.
    """
    digits = text.strip()
    if not digits.removeprefix("-").isdecimal() or abs(int(digits)) > _LARGEST:
        raise ValueError(f"expected a whole number, got {_shown(text)}")
    return int(digits)


def positive(text: str) -> int:
    """Return a whole number of at least 1.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = whole(text)
    if found < 1:
        raise ValueError(f"must be at least 1, got {_shown(text)}")
    return found


def counted(text: str) -> int:
    """Return a whole number of at least 0.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = whole(text)
    if found < 0:
        raise ValueError(f"must be at least 0, got {_shown(text)}")
    return found


def span(text: str) -> tuple[int, int]:
    """Return the first and the last index of ``1-10``.

    Raises
    ------
    ValueError
        If it is no such span.
    """
    first, dash, last = text.strip().partition("-")
    if not dash or not first.isdecimal() or not last.isdecimal() or int(first) > int(last):
        raise ValueError(f"{_shown(text)} is no array; write its first and last index, like 1-10")
    return int(first), int(last)


def axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the values of ``lr=0.1,0.01``.

    Raises
    ------
    ValueError
        If it is no name with values.
    """
    name, equals, values = text.partition("=")
    found = tuple(values.split(","))
    if not equals or not name.isidentifier() or not all(found):
        raise ValueError(f"{_shown(text)} is no sweep; write it like lr=0.1,0.01")
    if len(set(found)) < len(found):
        raise ValueError(f"{_shown(text)} has a value twice")
    return name, found


def dependency(text: str) -> dict[str, str]:
    """Return the job of ``12``, ``12:any`` or ``prepare:ok``, and which end it must have.

    Raises
    ------
    ValueError
        If no job is named.
    """
    # A name may have a colon; only a known end is cut off.
    job, _, when = text.rpartition(":")
    if when not in ("ok", "any"):
        job, when = text, "ok"
    if not job.strip():
        raise ValueError(f"{_shown(text)} names no job; write an id or a name, like 12 or 12:any")
    return {"job": job.strip(), "when": when}


def setting(text: str) -> tuple[str, str]:
    """Return the name and the value of an environment variable, ``NAME=VALUE``.

    Raises
    ------
    ValueError
        If there is no name.
    """
    name, equals, value = text.partition("=")
    if not equals or not name or "\0" in text:
        raise ValueError(f"{_shown(text)} is no variable; write NAME=VALUE")
    return name, value


def signal(text: str) -> str:
    """Return the name of a signal that asks a command to save: ``USR1`` of ``SIGUSR1``.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    return _one_of(text.upper().removeprefix("SIG"), ("TERM", "INT", "HUP", "USR1", "USR2"))


def scheduler(text: str) -> str:
    """Return the name of another scheduler, which a command may take Warren for.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    return _one_of(text, ("slurm",))


def level(text: str) -> str:
    """Return the level of a certificate, such as ``exact``.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    return _one_of(text, ("exact", "equal order", "restarts", "loses"))


def _one_of(text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise ValueError(f"{_shown(text)} is unknown; allowed: {', '.join(allowed)}")
    return text


def _shown(text: str) -> str:
    """Return a typed value for a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
