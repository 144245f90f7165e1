"""Knowledge of jobs that ended before a run: their sort, and how long they took."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from warren.model.costs import CostTable
from warren.model.job import Job

# Numbers with their separators at the beginning, or at the end of a name.
_NUMBERS: Final = re.compile(r"^(?:[0-9]+[._-])+|(?:[._-][0-9]+)+$")


def _no_costs() -> CostTable:
    """Return a cost table of no jobs and no device types."""
    return CostTable(
        comp_ns_JT=np.zeros((0, 0), dtype=np.int64),
        sync_ns_JT=np.zeros((0, 0), dtype=np.int64),
        fits_JT=np.zeros((0, 0), dtype=np.bool_),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Jobs that have ended, the latest last; each states the ``rounds`` that it ran.

    Their names may be equal, their arrivals mean nothing. ``costs``: priced for the device types of
    this run's cluster; its job axis is ``jobs``.
    """

    jobs: tuple[Job, ...] = ()
    costs: CostTable = field(default_factory=_no_costs)


NO_PAST: Final = Past()
"""The past of a run that states no history."""


@lru_cache(maxsize=2**16)
def stem(name: str) -> str:
    """Return the common part of a recurring job's names: the name without numbers at its ends.

    Whole parts between ``.``, ``_`` and ``-`` count: ``017-bert-3`` and ``bert-4`` are runs of
    ``bert``, ``resnet50`` is its own. A name of numbers alone stays unchanged.
    """
    # Numbers at both ends go; a name that they were all of stays whole.
    kept = _NUMBERS.sub("", name)
    return name if not kept or kept.isdecimal() else kept
