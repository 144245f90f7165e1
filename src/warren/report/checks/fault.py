"""What a check found: one line a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import BoolArray

SHOWN: Final = 10
"""Faults of one kind that are listed one by one; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong in a run folder: where it stands, what it is, what was expected."""

    place: str
    what: str
    expected: str

    def __str__(self) -> str:
        return " ".join(f"{self.place}: {self.what}; expected {self.expected}".split())


def listed(wrong: BoolArray | Iterable[bool], fault: Callable[[int], Fault]) -> list[Fault]:
    """The faults of one rule: ``fault(i)`` for the first true places, then how many more."""
    places: npt.NDArray[Any] = np.flatnonzero(np.asarray(wrong))
    found = [fault(int(place)) for place in places[:SHOWN]]
    if len(places) > SHOWN:
        last = found[-1]
        more = f"{last.what} (and {len(places) - SHOWN} more like this)"
        found[-1] = Fault(place=last.place, what=more, expected=last.expected)
    return found
