"""The record of forecasts: what was expected of waiting jobs, and what came.

Forecasts know no jobs that come later, and no change of the jobs there are. Their errors correct
those after them. **An error is counted in widths of its own interval** (see ``error_of``). The
errors of the last ``RECORDED_MOST`` jobs are kept. Of these errors 10 % are below the corrected
lower bound, 10 % above the upper one, and half below the expected time. Where intervals did not
hold as often as they should, these 10 % become less, and more where they held more often.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.records.events import Foreseen
from warren.serve.records.forecasts import Correction, Spread

RECORDED_MOST: Final = 200
"""Most forecasts whose errors count, the last ones."""
NARROWEST_S: Final = 60.0
"""Least distance of a bound from its expected time in which errors are counted, in seconds."""
NARROWEST_SHARE: Final = 0.05
"""The same as a share of the expected time."""

_AT_FIRST: Final = tuple((index - 10) / 9 for index in range(21))
"""Errors that count until there are ``RECORDED_MOST``; alone they leave an interval as it is."""
STEP: Final = 0.005
"""Change of the share of errors outside a bound for each interval that failed beyond those due."""

_TAIL: Final = 0.1
"""Probability of a time before the interval, and of one after it."""
_LEAST_TAIL: Final = 0.005
_MOST_TAIL: Final = 0.25


class Held(NamedTuple):
    """Of how many forecasts the interval held."""

    held: int
    of: int


def error_of(spread: Spread, actual_s: float) -> float:
    """Return the error of a spread in its own widths: 1 at its upper bound, -1 at its lower one."""
    low_s, high_s = _widths_s(spread)
    late_s = actual_s - spread.expected_s
    return late_s / (high_s if late_s > 0 else low_s)


def corrected(spread: Spread, correction: Correction) -> Spread:
    """Return a spread with its times where a correction has them, none of them in the past."""
    low_s, high_s = _widths_s(spread)
    return Spread(
        *(max(0.0, spread.expected_s + by * (high_s if by > 0 else low_s)) for by in correction)
    )


def _widths_s(spread: Spread) -> tuple[float, float]:
    """Return the distance of the lower and the upper bound from the expected time."""
    least_s = max(NARROWEST_S, NARROWEST_SHARE * spread.expected_s)
    below_s, above_s = spread.expected_s - spread.low_s, spread.high_s - spread.expected_s
    return max(least_s, below_s), max(least_s, above_s)


class _Pending(NamedTuple):
    """A forecast whose outcome is not known yet."""

    time_ns: int
    spread: Spread
    correction: Correction

    def outcome(self, time_ns: int) -> tuple[float, bool]:
        """Return the error if it comes true at a time, and whether its interval holds then."""
        actual_s = (time_ns - self.time_ns) / NS_PER_S
        shown = corrected(self.spread, self.correction)
        return error_of(self.spread, actual_s), shown.low_s <= actual_s <= shown.high_s


class Forecasts:
    """Forecasts of one kind, and their outcomes.

    A forecast that has not come true counts as soon as its interval is over, with its error so far.
    """

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=RECORDED_MOST)

    def __contains__(self, job: str) -> bool:
        return job in self._pending

    def note(self, job: str, time_ns: int, spread: Spread, correction: Correction) -> None:
        """Take down a forecast; of a job that has one it takes the place."""
        self._pending[job] = _Pending(time_ns, spread, correction)

    def came(self, job: str, time_ns: int) -> None:
        """Note that what was foreseen of a job has happened."""
        pending = self._pending.pop(job, None)
        if pending is not None:
            self._outcomes.append(pending.outcome(time_ns))

    def drop(self, job: str) -> None:
        """Forget the forecast of a job: its user has changed what was to come."""
        self._pending.pop(job, None)

    def held(self, now_ns: int) -> Held:
        """Return of how many of the last forecasts the interval held."""
        found = self._last(now_ns)
        return Held(sum(held for _, held in found), len(found))

    def correction(self, now_ns: int) -> Correction:
        """Return the correction that the errors so far give."""
        last = self._last(now_ns)
        errors = sorted([*_AT_FIRST, *(error for error, _ in last)][-RECORDED_MOST:])
        missed = sum(not held for _, held in last)
        tail = _TAIL + STEP * (2 * _TAIL * len(last) - missed)
        tail = min(max(tail, _LEAST_TAIL), _MOST_TAIL)
        return Correction(*(_at(errors, share) for share in (tail, 0.5, 1 - tail)))

    def _last(self, now_ns: int) -> list[tuple[float, bool]]:
        late = (one.outcome(now_ns) for one in self._pending.values())
        over = [(error, held) for error, held in late if error > 1 and not held]
        return [*self._outcomes, *over][-RECORDED_MOST:]


def _at(errors: list[float], share: float) -> float:
    """Return the error below which a share of later ones is expected, with equal care both ways."""
    last = len(errors) - 1
    if share > 0.5:
        return errors[min(last, ceil(share * (last + 2)) - 1)]
    if share < 0.5:
        return errors[last - min(last, ceil((1 - share) * (last + 2)) - 1)]
    return errors[last // 2]


class ForecastRecord:
    """Forecasts of starts and of ends.

    Attributes
    ----------
    starts, ends
        The two kinds.
    """

    def __init__(self) -> None:
        self.starts = Forecasts()
        self.ends = Forecasts()

    def note(self, event: Foreseen) -> None:
        """Take down what was foreseen of a job."""
        self.starts.note(event.job, event.time_ns, event.start, event.start_by)
        self.ends.note(event.job, event.time_ns, event.end, event.end_by)

    def drop(self, job: str) -> None:
        """Forget what was foreseen of a job."""
        self.starts.drop(job)
        self.ends.drop(job)

    def ended(self, job: str, time_ns: int) -> None:
        """Note that a job has ended; a job that never started shows nothing."""
        if job in self.starts:
            self.drop(job)
        self.ends.came(job, time_ns)
