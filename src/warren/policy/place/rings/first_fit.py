"""First-Fit: each ring takes the first devices, host by host, that have time left.

What
    Plans all rings before time starts, in order of arrival. A ring takes the first devices, host by
    host, whose estimated time stays within theta. The least theta that has a plan is bisected
    for, and the best plan met on the way is taken.
Source
    SJF-BCO (MobiHoc'22), section 7, the baseline "First-Fit (FF)"; after Stavrinides and Karatza,
    2011.
Differs
    The paper states no order of the jobs: that of arrival here. See ``sjf-bco`` for the bisection,
    estimates, arrivals and jobs with parameter servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from warren.model.view import View
from warren.policy.place.rings.planned_gangs import RingPlanner, RingProblem, by_one_rule

if TYPE_CHECKING:
    from warren.solve.rings.sjf_bco import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFit(RingPlanner):
    """See the module's text. ``horizon``: the paper's T, in seconds; 0: long enough."""

    horizon: int = 0

    name: ClassVar[str] = "first-fit"
    source: ClassVar[str] = "SJF-BCO (MobiHoc'22) 7"

    def __post_init__(self) -> None:
        if self.horizon < 0:
            raise ValueError("horizon is a whole number of seconds, 0 or more")

    def schedule(self, view: View, problem: RingProblem) -> Schedule | None:
        """The same rule for all rings."""
        from warren.solve.rings.packing import FIRST

        return by_one_rule(problem, FIRST, self.horizon)
