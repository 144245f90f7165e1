"""``hare``, told that switching between jobs is free.

What
    Plans as ``hare`` does where nothing is charged; the simulation charges it all the same.
Source
    Hare (HPDC'22), 5.1: "we ignore the task switching cost in the problem formulation".
Differs
    From ``hare``, which counts it. For ``hare_switching.py``: what counting it is worth.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from warren.model.decision import Decision
from warren.model.view import View
from warren.policy.place.hare.policy import Hare, HareMemory


class HareBlind(Hare):
    """Plans without times of switches; the simulation charges them all the same."""

    name = "hare-blind"

    def decide(self, view: View, memory: HareMemory) -> tuple[Decision, HareMemory]:
        """The plan of ``hare`` where nothing is charged."""
        costs = replace(view.costs, switch_ns_JT=None)
        return super().decide(structs.replace(view, costs=costs), memory)
