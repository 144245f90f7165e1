"""braid: rings in a searched order, each on the free devices where links cost least.

What
    Plans all rings before time starts. Whenever devices come free, rings that wait are looked at in
    an order, and each that has room starts: on one host if one has room, else where it and those
    that it slows lose least. Seven orders are dispatched, with and without devices kept for the
    first that has no room, patient and impatient; then the best of them are searched by moving
    rings. Every plan is judged by its last round, with all that rings slow each other down.
Source
    Ours. The model of contention is SJF-BCO's (MobiHoc'22), (6)-(8).
Differs
    SJF-BCO fills devices up to a limit and then waits for all devices of a ring, each at the end of
    a line of its own; here a ring takes devices that are free. SJF-BCO's schedules are not among
    those tried. Jobs with parameter servers are planned as gangs. Switching between jobs is left
    out of the plan's times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from warren.model.view import View
from warren.policy.place.rings.planned_gangs import RingPlanner, RingProblem

if TYPE_CHECKING:
    from warren.solve.rings.timing import PlacedRings

OBJECTIVES: Final = ("makespan", "weighted-jct")


@dataclass(frozen=True, slots=True, kw_only=True)
class RingOrderSearch(RingPlanner):
    """Plan rings in a searched order, each on the free devices where links cost least.

    ``budget``: rings placed while searching, once for each order. ``objective``: ``makespan`` or
    ``weighted-jct``.
    """

    budget: int = 320_000
    objective: str = OBJECTIVES[0]

    name: ClassVar[str] = "braid"
    source: ClassVar[str] = "ours; contention as in SJF-BCO (MobiHoc'22) (6)-(8)"

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError("budget is a whole number, 0 or more")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective is one of {', '.join(OBJECTIVES)}")

    def schedule(self, view: View, problem: RingProblem) -> PlacedRings:
        """Dispatch the seven orders and search the best; ties of one objective go by the other."""
        # Ours; SJF-BCO's order by size and its limits theta and kappa are not used.
        from warren.solve.rings.order_search import Goal, braid

        # Every plan is judged by (6)-(8) with all contention, whichever order gave it.
        goal = Goal(
            weight_J=view.weight_J,
            by_makespan=self.objective == OBJECTIVES[0],
            budget=self.budget,
            seed=view.seed,
        )
        return braid(problem.gangs, problem.links, problem.rings.fits_JT, goal)
