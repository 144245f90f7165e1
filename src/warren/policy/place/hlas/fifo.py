"""FIFO: jobs in order of arrival, as gangs on free devices of whatever type, to their ends.

What
    The first in line takes as many free devices as its scale, drawn blindly, and keeps them; no
    later job passes it.
Source
    HLAS (TCC'24), section VI-D, "FIFO", which the paper does not describe further.
Differs
    The paper's in name only. Hare's own description of Gavel_FIFO, which takes the fastest free
    devices, stands as ``gavel-fifo``; this one is blind to types, as a batch system's is, and takes
    its devices as ``sched-homo`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.view import View
from warren.policy.common.gangs_in_line import GangsInLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo(GangsInLine):
    """Start jobs in order of arrival, as gangs on drawn devices."""

    one_host: bool = False
    """Whether a gang waits until one host has devices enough for it."""

    name: ClassVar[str] = "fifo"
    source: ClassVar[str] = "HLAS (TCC'24) VI-D"
    first_are: ClassVar[str] = "came earlier"
    needs_rounds: ClassVar[bool] = False
    plans_rings: ClassVar[bool] = True

    def rank(self, view: View, job: int) -> float:
        """Return the same for each job: they go by index, which is arrival."""
        # Ours: the paper names FIFO and says no more; see the head of this file.
        return 0.0
