"""Hosts that are there only at times: opportunistic hosts with announced absences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from warren.model.units import NS_PER_S

FORM: Final = "HOST HOST: FROM-TO FROM-TO; ... with times in seconds, TO left out for ever"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class Absence:
    """A host, by name, that is not there from one time to another, in ns; -1: it stays away."""

    host: str
    from_ns: int
    to_ns: int

    def holds(self, now_ns: int) -> bool:
        """Tell whether the host is away."""
        return self.from_ns <= now_ns and (self.to_ns < 0 or now_ns < self.to_ns)


@lru_cache(maxsize=16)  # asked for at each decision
def absences_of(text: str) -> tuple[Absence, ...]:
    """Read absences from an option of a policy; raises ValueError if it has another form.

    For example ``h4 h5: 0-60 120-180; h6: 90-``.
    """
    found = []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        hosts, colon, spans = part.partition(":")
        matches = [_SPAN.fullmatch(span) for span in spans.split()]
        if not (hosts.split() and colon and matches and all(matches)):
            raise ValueError(f"away has {part!r}; allowed: {FORM}")
        for match in filter(None, matches):
            begin = round(float(match[1]) * NS_PER_S)
            end = -1 if match[2] is None else round(float(match[2]) * NS_PER_S)
            if 0 <= end <= begin:
                raise ValueError(
                    f"away has {match[0]!r}, which ends before it begins; allowed: {FORM}"
                )
            found += [Absence(host, begin, end) for host in hosts.split()]
    return tuple(found)


def next_change_ns(absences: Iterable[Absence], now_ns: int) -> int | None:
    """Return when the next host comes or goes; None: none does any more."""
    times = (time for one in absences for time in (one.from_ns, one.to_ns))
    return min((time for time in times if time > now_ns), default=None)
