"""The classes of jobs by their expected gain in the next period: JPAS from outside.

*Source.* JPAS (JNCA'20). 3.1: period, prediction at the agent. 3.2: a class is the order among the
jobs of the host; the last class takes the rest. 3.3: class 0 for jobs that are not known yet. 4.2,
the engineering method: the greatest speed seen is that of a job with the link to itself.
*Differs.* ``classes_by_gain`` orders the jobs of one host alone; over several, ``coordination``
draws one worker a job. Speed is the steps between lines, over at least ``SPAN_READS`` reads of the
log, since logs come in bursts. A job whose log has been silent for ``SILENT_PERIODS`` may have
ended, or be in a long epoch: its known gain stands. If none is known, it goes last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from warren.live.enforcement.training_log import TrainingLog
from warren.model.decision import CLASSES
from warren.predict.accuracy_gain import expected_gain, orders_by_gain, steps_ahead
from warren.predict.curve import curve_of
from warren.predict.curve_kind import UNSTATED, CurveKind

LEAST_POINTS: Final = 4
"""Points below which a curve predicts nothing: the job is not known yet."""
SILENT_PERIODS: Final = 5
SPAN_READS: Final = 4
"""Least reads of a log between two lines for a speed to count as the greatest."""
_RARE: Final = 1.5
"""Periods between two lines, above which a log comes too rarely."""


class _Line(NamedTuple):
    """A line that counted: the look that found it, when it was written, its step."""

    read: int
    at_s: float
    step: float


@dataclass(slots=True)
class WatchedJob:
    """A job as its log shows it: ``gain`` is None while it is not known.

    ``kind``: the stated facts of its curve, in steps of its log. ``unseen``: points have come since
    the gain was predicted. ``gap_s``: time between its last two lines. ``step_s``: the least time
    of a step between two lines that are ``SPAN_READS`` reads apart; until there are any, between
    the two lines that are furthest apart.
    """

    name: str
    log: TrainingLog
    step_s: float | None = None
    gain: float | None = None
    silent_periods: int = 0
    kind: CurveKind = UNSTATED
    unseen: bool = False
    gap_s: float | None = None
    _lines: list[_Line] = field(default_factory=list)
    _reads: int = 0
    _clock_s: float = 0.0
    _least_s: float | None = None

    @property
    def silent(self) -> bool:
        """Whether no line has come for long."""
        return self.silent_periods >= SILENT_PERIODS

    def comes_rarely(self, period_s: float) -> bool:
        """Tell whether its log has fewer lines than periods."""
        return self.gap_s is not None and self.gap_s > _RARE * period_s

    def read(self, elapsed_s: float) -> None:
        """Read the log.

        ``elapsed_s``: since the last read; 0 at the first, which reads the earlier lines.
        """
        fresh = self.log.read()
        self._reads += 1
        self._clock_s += elapsed_s
        self.unseen = self.unseen or fresh > 0
        self.silent_periods = 0 if fresh else self.silent_periods + 1
        step = self.log.steps[-1] if self.log.steps else None
        if step is None or (self._lines and step < self._lines[-1].step):
            self._lines.clear()  # another attempt of the job
        if step is not None and not (self._lines and step == self._lines[-1].step):
            # The file was written last when the line came, or later, but since the last look.
            age_s = self.log.age_s if len(self._lines) == 0 else min(self.log.age_s, elapsed_s)
            self._count(_Line(self._reads, self._clock_s - age_s, step))

    def _count(self, line: _Line) -> None:
        """Take a line into account: V_train (13), the shortest step is that of a free link."""
        self._lines.append(line)
        if len(self._lines) == 1:
            return
        self.gap_s = line.at_s - self._lines[-2].at_s
        whole = [one for one in self._lines if line.read - one.read >= SPAN_READS]
        first = whole[-1] if whole else self._lines[0]
        if line.at_s > first.at_s:
            self.step_s = (line.at_s - first.at_s) / (line.step - first.step)
        if whole and self.step_s is not None:
            self._least_s = min(self.step_s, self._least_s or self.step_s)
        self.step_s = self._least_s or self.step_s
        self._lines = self._lines[self._lines.index(first) :]

    def predict(self, period_s: float, seed: int) -> None:
        """Predict the gain of the next period from the points read."""
        if len(self.log.steps) < LEAST_POINTS or self.step_s is None:
            self.gain = None
        elif self.unseen or self.gain is None:
            steps = steps_ahead(period_s, 1.0 / self.step_s)
            curve = curve_of(self.log.steps, self.log.values)
            self.gain = expected_gain(curve, steps, seed, self.kind)
            self.unseen = False


def classes_by_gain(
    gains: Mapping[str, float | None], silent: Collection[str] = ()
) -> dict[str, int]:
    """Return the class of each job: its order by gain, at most 7.

    A job whose gain is not known has class 0; if it is ``silent`` too, it goes last.
    """
    known = [name for name, gain in gains.items() if gain is not None]
    orders = orders_by_gain([gains[name] or 0.0 for name in known])
    found = {name: min(order, CLASSES - 1) for name, order in zip(known, orders, strict=True)}
    return {name: found.get(name, CLASSES - 1 if name in silent else 0) for name in gains}
