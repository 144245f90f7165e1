"""Faults of a run folder, one line of text each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from warren.model.costs import BoolArray

SHOWN: Final = 10
"""Faults of one kind that are listed one by one; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a run folder: its place, the value, the expected value."""

    place: str
    what: str
    expected: str

    def __str__(self) -> str:
        return " ".join(f"{self.place}: {self.what}; expected {self.expected}".split())


def listed(wrong: BoolArray | Iterable[bool], fault: Callable[[int], Fault]) -> list[Fault]:
    """Return the faults of one rule: those of the first true places, then how many more.

    ``wrong`` says for each place of a table whether the rule is broken there. ``fault`` is called
    only for places that are listed: a large timeline with a systematic fault has one in every row.
    """
    places: npt.NDArray[np.intp] = np.flatnonzero(np.asarray(wrong))
    found = [fault(int(place)) for place in places[:SHOWN]]
    if len(places) > SHOWN:
        # The last line holds the number of the rest, so there is no line without a place.
        last = found[-1]
        more = f"{last.what} (and {len(places) - SHOWN} more like this)"
        found[-1] = Fault(place=last.place, what=more, expected=last.expected)
    return found
