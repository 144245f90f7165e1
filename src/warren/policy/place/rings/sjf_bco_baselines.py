"""What SJF-BCO's paper compares it with: First-Fit, List-Scheduling and Random.

All three plan every ring before time starts. The paper states no order: that of arrival, or with
``order: size`` SJF-BCO's own, the smallest ring first. See ``sjf_bco`` for the bisection,
estimates, arrivals and jobs with parameter servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from warren.model.costs import IntArray
from warren.model.view import View
from warren.policy.place.rings.planned_gangs import SLOT_NS, RingPlanner, RingProblem, by_one_rule

if TYPE_CHECKING:
    from warren.solve.rings.sjf_bco import Schedule

ORDERS: Final = ("arrival", "size")
_DRAWS: Final = 0x5244
"""Which stream of the run's seed devices are drawn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(RingPlanner):
    """The options that all three share.

    ``horizon``: the paper's T, in seconds; 0: as long as it takes. ``order``: ``arrival`` or
    ``size``, the order in which rings take their devices.
    """

    horizon: int = 0
    order: str = ORDERS[0]

    source: ClassVar[str] = "SJF-BCO (MobiHoc'22) 7"

    def __post_init__(self) -> None:
        if self.horizon < 0:
            raise ValueError("horizon is a whole number of seconds, 0 or more")
        if self.order not in ORDERS:
            raise ValueError(f"order is one of {', '.join(ORDERS)}")

    def order_J(self, problem: RingProblem) -> IntArray:
        """Return the rings in the order in which they take devices; of one size by arrival."""
        if self.order == "size":
            return np.argsort(problem.size_J, kind="stable")
        return np.arange(len(problem.size_J))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFit(Baseline):
    """First-Fit: each ring takes the first devices, host by host, that have time left.

    What
        A ring takes the first devices, host by host, whose estimated time stays within theta. The
        least theta that has a plan is bisected for, and the best plan met on the way is taken.
    Source
        SJF-BCO (MobiHoc'22), section 7, the baseline "First-Fit (FF)"; after Stavrinides and
        Karatza, 2011.
    Differs
        The paper states no order of the jobs: that of arrival here, or by size. See ``sjf-bco`` for
        the bisection, estimates, arrivals and jobs with parameter servers.
    """

    name: ClassVar[str] = "first-fit"

    def schedule(self, view: View, problem: RingProblem) -> Schedule | None:
        """Place all rings by the same rule."""
        from warren.solve.rings.packing import FIRST

        return by_one_rule(problem, FIRST, self.horizon, self.order_J(problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScheduling(Baseline):
    """List-Scheduling: each ring takes the devices that have been given the least time.

    What
        A ring takes the devices of least estimated time, on whatever hosts, as long as that stays
        within theta. The least theta that has a plan is bisected for, and the best plan met on the
        way is taken.
    Source
        SJF-BCO (MobiHoc'22), section 7, the baseline "List-Scheduling (LS)"; after Stavrinides and
        Karatza, 2011.
    Differs
        The paper states no order of the jobs: that of arrival here, or by size. See ``sjf-bco`` for
        the bisection, estimates, arrivals and jobs with parameter servers.
    """

    name: ClassVar[str] = "list-scheduling"

    def schedule(self, view: View, problem: RingProblem) -> Schedule | None:
        """Place all rings by the same rule."""
        from warren.solve.rings.packing import LEAST_BUSY

        return by_one_rule(problem, LEAST_BUSY, self.horizon, self.order_J(problem))


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGpus(Baseline):
    """Random: each ring takes devices drawn from all that have time left.

    What
        A ring takes devices that are drawn, by the run's seed, from those whose estimated time
        stays within T. Nothing is searched.
    Source
        SJF-BCO (MobiHoc'22), section 7, the baseline "Random (RAND)", whose theta is T.
    Differs
        "Randomly chooses servers and GPUs": devices are drawn evenly, so larger hosts more often.
        Order of arrival or by size, as the paper states none.
    """

    name: ClassVar[str] = "random"

    def schedule(self, view: View, problem: RingProblem) -> Schedule | None:
        """Draw devices for one ring after the other."""
        from warren.solve.rings.sjf_bco import Schedule, whole_slots
        from warren.solve.rings.timing import ring_times

        # Without a horizon: the sum of all estimates, within which each ring has room.
        rings, order_J = problem.rings, self.order_J(problem)
        horizon = self.horizon or whole_slots(int(rings.rho_ns_J.sum()), SLOT_NS)
        draws = np.random.default_rng([view.seed, _DRAWS])
        busy_ns_D = np.zeros(len(view.type_D), dtype=np.int64)
        device_A = np.full(rings.first_J[-1], -1, dtype=np.int64)
        for job in order_J.tolist():
            # U + rho / u <= theta with theta = T, as in line 5 of Algorithm 3.
            within_D = busy_ns_D + rings.rho_ns_J[job] <= horizon * SLOT_NS
            open_D = np.flatnonzero(within_D & rings.fits_JT[job, view.type_D])
            # Infeasible within T, as line 16 of Algorithm 3 returns; waiting lowers no U.
            if len(open_D) < problem.size_J[job]:
                return None
            taken = draws.choice(open_D, size=problem.size_J[job], replace=False)
            device_A[rings.first_J[job] : rings.first_J[job + 1]] = taken
            busy_ns_D[taken] += rings.rho_ns_J[job]
        end_ns_J = ring_times(problem.gangs, problem.links, order_J, device_A)
        return Schedule(
            order_J=order_J,
            device_A=device_A,
            end_ns_J=end_ns_J,
            busy_ns_D=busy_ns_D,
            theta=horizon,
            kappa=0,
            makespan_ns=int(end_ns_J.max(initial=0)),
        )
