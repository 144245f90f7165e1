"""Instants as dates, with a time zone or without one.

A time without a zone is one of some clock that is not stated. Where other times of the table state
their zone, it is taken as that of the time nearest by the clock; else it is taken as it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from warren.model.units import NEVER_NS, NS_PER_S

_NAMED_UTC: Final = re.compile(r"\s*(?:UTC|GMT|[zZ])$")


def instant(text: str) -> datetime | None:
    """Return the instant of ``2020-04-01 12:30:00``, a T and a time zone allowed; or None."""
    try:
        return datetime.fromisoformat(_NAMED_UTC.sub("+00:00", text))
    except ValueError:
        return None


def since_1970_ns(when: datetime) -> int | None:
    """Return an instant in nanoseconds since 1970, a time without a zone as it stands.

    None if it is before 1970 or after the range of times.
    """
    # Only differences of instants count, so any one zone will do.
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    # In whole numbers: a float of seconds since 1970 does not hold nanoseconds.
    since = when - datetime(1970, 1, 1, tzinfo=UTC)
    time_ns = (since.days * 86_400 + since.seconds) * NS_PER_S + since.microseconds * 1000
    return time_ns if 0 <= time_ns < NEVER_NS else None


class Zones:
    """The time zones that the times of a table state, by their clock times."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = {
            (when.replace(tzinfo=None), when.utcoffset() or timedelta(0))
            for text in texts
            if (when := instant(text)) is not None and when.tzinfo is not None
        }
        self._known = sorted(known)
        self._clocks = [clock for clock, _ in self._known]

    def placed(self, when: datetime) -> tuple[datetime, str]:
        """Return an instant with a zone, and the remark on an assumed one; empty: it states one.

        Of two equally near times the earlier one counts. If no time states a zone, nothing is
        assumed.
        """
        if when.tzinfo is not None or not self._known:
            return when, ""
        after = bisect_left(self._clocks, when)
        near = self._known[max(0, after - 1) : after + 1]
        _, offset = min(near, key=lambda one: abs(one[0] - when))
        minutes = round(offset / timedelta(minutes=1))
        name = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        return (when - offset).replace(tzinfo=UTC), name
