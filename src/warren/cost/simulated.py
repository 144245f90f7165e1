"""What a simulation charges that the profile does not state: switching, and exchanges of rings."""

from __future__ import annotations

from warren.cost.run_rings import with_rings
from warren.cost.switching import with_switching
from warren.model.costs import CostTable
from warren.model.run import Run


def simulated_costs(run: Run, costs: CostTable) -> CostTable:
    """The costs that policies see and bounds count with in virtual time."""
    return with_rings(run, with_switching(run, costs))
