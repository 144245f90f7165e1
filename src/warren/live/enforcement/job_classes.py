"""The classes of jobs by how much better each will be after the next period: JPAS from outside.

*Source.* JPAS (JNCA'20): 3.1 (period, prediction at the agent), 3.2 (a class is the order among
the jobs of the host, the last class takes the rest), 3.3 (class 0 for jobs that are not known yet),
4.2 (the engineering method: the greatest speed seen is that of a job with the link to itself).
*Differs.* ``classes_by_gain`` orders the jobs of one host alone; over several, ``coordination``
draws one worker a job. Speed is taken over whole periods, since logs come in bursts. A job whose
log has been silent for ``SILENT_PERIODS`` has no class: it has ended, or hangs and sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warren.live.enforcement.training_log import TrainingLog
from warren.model.decision import CLASSES
from warren.predict.accuracy_gain import expected_gain, orders_by_gain, steps_ahead
from warren.predict.curve import curve_of
from warren.predict.curve_kind import UNSTATED, CurveKind

LEAST_POINTS: Final = 4
"""A curve of fewer says nothing of what comes: the job is not known yet."""
SILENT_PERIODS: Final = 5


@dataclass(slots=True)
class WatchedJob:
    """A job as it is seen from its log: ``gain`` None while it is not known.

    ``kind``: what is stated of its curve, in steps of its log. ``unseen``: points have come since
    the gain was predicted.
    """

    name: str
    log: TrainingLog
    step_s: float | None = None
    gain: float | None = None
    silent_periods: int = 0
    last_step: float | None = None
    kind: CurveKind = UNSTATED
    unseen: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing has come for so long that it counts no more."""
        return self.silent_periods >= SILENT_PERIODS

    def read(self, elapsed_s: float) -> None:
        """Read the log.

        ``elapsed_s``: since the last time; 0 at the first, which reads what stood there before.
        """
        fresh = self.log.read()
        self.unseen = self.unseen or fresh > 0
        last = self.log.steps[-1] if self.log.steps else None
        self.silent_periods = 0 if fresh or last is None else self.silent_periods + 1
        if last is not None and elapsed_s > 0:
            done = last - (last if self.last_step is None else self.last_step)
            if done > 0:
                # V_train (13): the shortest step seen is that of a free link.
                self.step_s = min(elapsed_s / done, self.step_s or elapsed_s / done)
        self.last_step = last

    def predict(self, period_s: float, seed: int) -> None:
        """Predict the gain of the next period from what was read."""
        if len(self.log.steps) < LEAST_POINTS or self.step_s is None:
            self.gain = None
        elif self.unseen or self.gain is None:
            steps = steps_ahead(period_s, 1.0 / self.step_s)
            curve = curve_of(self.log.steps, self.log.values)
            self.gain = expected_gain(curve, steps, seed, self.kind)
            self.unseen = False


def classes_by_gain(gains: Mapping[str, float | None]) -> dict[str, int]:
    """Return the class of each job: 0 if its gain is not known, else its order, at most 7."""
    known = [name for name, gain in gains.items() if gain is not None]
    orders = orders_by_gain([gains[name] or 0.0 for name in known])
    found = {name: min(order, CLASSES - 1) for name, order in zip(known, orders, strict=True)}
    return {name: found.get(name, 0) for name in gains}
