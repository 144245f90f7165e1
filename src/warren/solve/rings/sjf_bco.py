"""SJF-BCO, Algorithm 1: which limit on a device's time, and which rings count as small.

*Source.* MobiHoc'22, section 5. The limit theta is bisected over whole slots in [1, T]; for each,
every kappa is tried: rings of up to kappa devices are placed by Algorithm 2, larger ones by
Algorithm 3 (``packing``). The schedule of the least makespan is kept.

*Differs.*

- Lines 17-23: after ``break`` the makespan of the jobs so far, or -1, is compared as if it were
  that of all, and wins (jobs 5, 7, 9 on two GPUs, T = 24: an empty schedule). Infinity here.
- Line 25 goes left only if the makespan falls (``<``). A smaller theta that gives the same schedule
  then counts as a failure, and with a generous T no tight one is ever looked at (20 servers, 160
  jobs: 1.5 to 3.4 times the makespan). Here ``<=``, as Lemma 2 needs ("we will keep decreasing").
  The makespan need not fall with theta, so the result depends on T: the paper's 1200 slots begin at
  600. ``by_makespan=False`` follows the text above the algorithm, "bisection to find the minimum
  theta feasible": left wherever there is a schedule. The baselines are searched so.
- rho-hat / u: in the paper rho-hat depends on the schedule, within [l rho, u rho]. Here u = 1 and
  rho-hat is a constant of the ring, no longer than it can take: rounds times the least round.
- T_j at line 20 are the ends of rings in the whole schedule, with all of its contention, in
  continuous time; the paper takes them while later rings have no place yet.
- kappa: only values that part the rings differently, 1 and the sizes that occur.
- T: if it is not given, the sum of all rho, within which there always is a schedule, and no
  schedule is refused for its makespan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warren.solve.common.arrays import IntArray
from warren.solve.rings.packing import PackedRings, pack
from warren.solve.rings.timing import PlacedRings, RingGangs, RingLinks, ring_times


@dataclass(frozen=True, slots=True, kw_only=True)
class SjfBcoSearch:
    """Options of schedules: how they are made and which are tried.

    ``small``, ``large``, ``kappas``, ``room``: see ``packing.pack``. ``horizon``: T in slots,
    0 for none. ``by_makespan``: see the module's text.
    """

    small: int
    large: int
    kappas: Sequence[int]
    room: float = 1.0
    horizon: int = 0
    slot_ns: int = 10**9
    by_makespan: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(PlacedRings):
    """Placed rings, U of each device, and the last end; kappa 0 where one rule is for all."""

    busy_ns_D: IntArray
    makespan_ns: int


def kappas(sizes_J: npt.ArrayLike) -> list[int]:
    """Return the kappa of line 8 that part rings of these sizes differently, the smallest of each.

    Ascending; rings of up to kappa devices count as small.
    """
    return sorted({1, *np.asarray(sizes_J).tolist()})


def sjf_bco(
    rings: PackedRings, gangs: RingGangs, links: RingLinks, order_J: IntArray, search: SjfBcoSearch
) -> Schedule | None:
    """Run lines 6 to 32 of Algorithm 1 for rings in the order of line 4.

    Returns the best schedule found; None if there is none within T.
    """
    horizon = search.horizon or whole_slots(int(rings.rho_ns_J.sum()), search.slot_ns)

    def at(theta: int) -> Schedule | None:
        return _best_kappa(rings, gangs, links, order_J, search, theta)

    # Line 5: m begins at T, so that only a smaller makespan counts; without T anything does.
    limited = search.horizon and search.by_makespan
    return bisected(at, horizon, search.horizon * search.slot_ns if limited else None, search)


def whole_slots(time_ns: int, slot_ns: int) -> int:
    """Return how many slots hold this time, at least one."""
    return max(1, -(-time_ns // slot_ns))


def bisected(
    at: Callable[[int], Schedule | None], horizon: int, most_ns: int | None, search: SjfBcoSearch
) -> Schedule | None:
    """Bisect theta over 1 to ``horizon`` slots: lines 5 to 7 and 25 to 32 of Algorithm 1.

    ``at`` gives the best schedule with a theta, or None: lines 7 to 24. A makespan of ``most_ns``
    or more counts as too long; None: none does.
    """
    best: Schedule | None = None
    left, right = 1, horizon
    while left <= right:
        # Line 7; theta is a whole number of slots here.
        theta = (left + right) // 2
        found = at(theta)
        if found is not None and most_ns is not None and found.makespan_ns >= most_ns:
            found = None
        # Line 25, with "no more" in place of "less": see the module's text.
        better = found is not None and (best is None or found.makespan_ns <= best.makespan_ns)
        # Lines 26 to 30: down after a success, else up. In a search for the least theta with a
        # schedule, every schedule is a success.
        best = found if better else best
        if better or (found is not None and not search.by_makespan):
            right = theta - 1
        else:
            left = theta + 1
    return best


def _best_kappa(
    rings: PackedRings,
    gangs: RingGangs,
    links: RingLinks,
    order_J: IntArray,
    search: SjfBcoSearch,
    theta: int,
) -> Schedule | None:
    """Return the schedule of least makespan with this theta: lines 7 to 24 of Algorithm 1.

    Of equal makespans that of the smallest kappa; None if no kappa leads to a schedule.
    """
    best: Schedule | None = None
    # Lines 8 to 24. A kappa with which some ring has no place is passed over, as if its makespan
    # were infinite: see the module's text on lines 17-23.
    for kappa in search.kappas:
        packed = pack(
            rings,
            links,
            order_J,
            small=search.small,
            large=search.large,
            kappa=kappa,
            limit_ns=theta * search.slot_ns,
            room=search.room,
        )
        if packed is None:
            continue
        device_A, busy_ns_D = packed
        # Line 20: the greatest T_j, of (9), with the contention of the whole schedule.
        end_ns_J = ring_times(gangs, links, order_J, device_A)
        makespan_ns = int(end_ns_J.max(initial=0))
        if best is None or makespan_ns < best.makespan_ns:
            best = Schedule(
                order_J=order_J,
                device_A=device_A,
                end_ns_J=end_ns_J,
                busy_ns_D=busy_ns_D,
                theta=theta,
                kappa=kappa,
                makespan_ns=makespan_ns,
            )
    return best
