"""Times and sizes as people read them, in the terminal and on the page."""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from typing import Final

_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))
"""Units of time from the largest on, in seconds, with their signs."""


def span(seconds: float | None) -> str:
    """Return a time in its two largest units: 12 s, 4 min 30 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for size, unit in _UNITS:
        if whole >= size:
            smaller = {"d": (3_600, "h"), "h": (60, "min"), "min": (1, "s")}[unit]
            rest = int(whole % size) // smaller[0]
            return f"{int(whole // size)} {unit}" + (f" {rest} {smaller[1]}" if rest else "")
    return f"{whole} s"


def size(count: float | None) -> str:
    """Return bytes in the unit that suits them: 512 MB, 80 GB."""
    if count is None:
        return ""
    for unit, value in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= value:
            return f"{count / value:.3g} {unit}"
    return f"{count:.0f} B"
