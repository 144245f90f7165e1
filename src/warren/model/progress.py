"""How far jobs have come, as far as anybody can tell: what their ``stop`` rule's metric has been.

A view carries the core's own values behind read-only flags; see ``warren.core.metric_history``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from warren.model.costs import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """The curve of one job's metric: ``values_P[i]`` after ``rounds_P[i]`` rounds; P points.

    Rounds rise strictly. Points that a roll-back took back are not in it.
    """

    rounds_P: IntArray
    values_P: FloatArray

    def __len__(self) -> int:
        return len(self.rounds_P)


class Observed(Protocol):
    """The progress of all jobs that a policy may know of."""

    def of(self, job: int) -> Progress:
        """Return one job's progress, of no points if it has no ``stop`` or none was observed yet.

        Raises
        ------
        IndexError
            If the policy does not know of the job: it is blind, and the job has not arrived.
        """
        ...


NO_PROGRESS: Final = Progress(np.empty(0, dtype=np.int64), np.empty(0))
"""The progress of a job of which nothing was observed."""
# One value for all such jobs, so no policy may change it.
NO_PROGRESS.rounds_P.setflags(write=False)
NO_PROGRESS.values_P.setflags(write=False)
