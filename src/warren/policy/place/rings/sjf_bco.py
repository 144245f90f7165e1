"""SJF-BCO: rings by size, small ones onto the least busy devices, large ones onto few idle hosts.

What
    Plans all rings before time starts, those of fewer devices first. No device may be given more
    than theta of estimated time. A ring of at most kappa devices takes the least busy devices. A
    larger ring goes to the hosts of least mean time, and chooses among ``room`` (the paper's
    lambda) times the devices that it needs. Theta is bisected, all kappas are tried, and the plan
    is taken whose rings end first, with all their slowing of each other.
Source
    SJF-BCO (MobiHoc'22), section 5, Algorithms 1 to 3.
Differs
    ``warren.solve.rings.sjf_bco`` says how Algorithm 1 is read and repaired. ``packing:
    least-busy``, the default, is line 4 of Algorithm 2 as printed: the least busy devices of the
    cluster, which is the baseline List-Scheduling. It reproduces the claims of the paper's Figs. 4
    and 5. The text and the algorithm's name (fragment-aware first-fit packing) have small jobs
    share hosts in use: ``used-servers``. The paper's jobs are all there from the start; here a ring
    that comes later keeps its place in the order, and its devices wait for it. Devices may differ:
    estimates are those of the fastest type, and a ring is as fast as its slowest device. Jobs with
    parameter servers are planned as gangs. Switching between jobs is left out of the plan's times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from warren.model.view import View
from warren.policy.place.rings.planned_gangs import SLOT_NS, RingPlanner, RingProblem

if TYPE_CHECKING:
    from warren.solve.rings.sjf_bco import Schedule

PACKINGS: Final = ("least-busy", "used-servers")


@dataclass(frozen=True, slots=True, kw_only=True)
class SjfBco(RingPlanner):
    """Plan rings by size: small ones on the least busy devices, large ones on few idle hosts.

    ``packing``: the reading of Algorithm 2, ``least-busy`` or ``used-servers``. ``room``: the
    paper's lambda. ``horizon``: the paper's T, in seconds; 0: long enough. ``kappa``: this one
    only; 0: all.
    """

    packing: str = PACKINGS[0]
    horizon: int = 0
    room: float = 1.0
    kappa: int = 0

    name: ClassVar[str] = "sjf-bco"
    source: ClassVar[str] = "SJF-BCO (MobiHoc'22) 5, Algorithms 1-3"

    def __post_init__(self) -> None:
        if self.packing not in PACKINGS:
            raise ValueError(f"packing is one of {', '.join(PACKINGS)}")
        if self.horizon < 0 or self.kappa < 0:
            raise ValueError("horizon and kappa are whole numbers, 0 or more")
        # Written this way, nan is refused, too.
        if not self.room >= 1:
            raise ValueError("room is a number, 1 or more")

    def schedule(self, view: View, problem: RingProblem) -> Schedule | None:
        """Place rings by Algorithm 1, smallest first; of one size in order of arrival."""
        from warren.solve.rings.packing import FEW_SERVERS, LEAST_BUSY, USED_SERVERS
        from warren.solve.rings.sjf_bco import SjfBcoSearch, kappas, sjf_bco

        # Lines 11-15: Algorithm 2 up to kappa devices, Algorithm 3 above; line 8: kappas to try.
        search = SjfBcoSearch(
            small=LEAST_BUSY if self.packing == PACKINGS[0] else USED_SERVERS,
            large=FEW_SERVERS,
            kappas=(self.kappa,) if self.kappa else kappas(problem.size_J),
            room=self.room,
            horizon=self.horizon,
            slot_ns=SLOT_NS,
        )
        # Line 4: jobs by G_j; then lines 6-30, in ``solve``.
        order_J = np.argsort(problem.size_J, kind="stable")
        return sjf_bco(problem.rings, problem.gangs, problem.links, order_J, search)
