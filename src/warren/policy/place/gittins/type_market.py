"""The types of device that a job uses: those of most gain to it, at their value to other jobs.

Ours, see decision 0021. A type has a price, found from the bids of the jobs present
(``dual_prices``). A round of a job that has type t to itself takes q = ceil(n / D_t) T^c + T^s and
keeps n T^c / q devices busy: while it synchronizes they serve others. It is worth its speed, as a
part of that on the job's fastest type, over the root of the time that the job still needs there: a
short job is worth more, as its devices are soon free again, but long jobs that gain much still get
fast devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import Final, NamedTuple

import numpy as np
from immutables import Map

from warren.model.costs import FloatArray
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed, RoundsDone
from warren.model.view import View
from warren.policy.common.round_times import cluster_speed, counts_T
from warren.solve.assignment.dual_prices import NONE, better_prices, matched

TURNS: Final = 2
"""Passes over all prices when they are found again."""
_MOVE: Final = 8
"""Bids that a job's coming or going counts for; prices are found again after as many bids as there
are jobs."""
_LEAST: Final = 1e-9
"""Least rounds left, and least devices kept busy: neither divides by 0."""


class TypeNeeds(NamedTuple):
    """The needs of a job on each type, as far as they follow from its costs alone.

    ``turn_s_T``: of a round that has the type to itself; ``fastest_s``: the least of them;
    ``busy_T`` and ``cost_T``: see ``TypeBid``; ``task_ns``: a task on the mean device that fits it;
    ``gang``: devices that a gang of it needs. Infinite where it cannot run.
    """

    turn_s_T: tuple[float, ...]
    fastest_s: float
    busy_T: tuple[float, ...]
    cost_T: tuple[float, ...]
    task_ns: float
    gang: int


class TypeBid(NamedTuple):
    """A job's bid: value of each type to it, devices it would keep busy there, and T^c + T^s.

    0, 1 and infinite where it cannot run.
    """

    value_T: tuple[float, ...]
    busy_T: tuple[float, ...]
    cost_T: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMarket:
    """The latest bid of each job, prices, and the type of each job, as a value for a memory.

    ``types``: of each job at the latest prices, ``NONE`` where none was worth its price to it.
    Between two prices a job stays with it: if all that are alike went by their newer bids, they
    would all go to the same. ``stale``: how much has changed since. ``needs`` of jobs, which
    follow from costs alone, are found once: scratch.
    """

    devices_T: tuple[int, ...]
    price_T: tuple[float, ...]
    bids: Map[int, TypeBid] = field(default_factory=Map)
    types: Map[int, int] = field(default_factory=Map)
    stale: int = 0
    needs: dict[int, TypeNeeds] = field(default_factory=dict)

    def need(self, view: View, job: int) -> TypeNeeds:
        """Return the values that follow from a job's costs, computed once."""
        found = self.needs.get(job)
        if found is None:
            found = self.needs[job] = _needs(view, job, self.devices_T)
        return found

    def bid(self, view: View, job: int, left: float) -> TypeMarket:
        """Return the market with a new bid of a job, which is expected to need ``left`` rounds."""
        bids = self.bids.set(job, _bid(self.need(view, job), left))
        return self._with(bids, self.stale + 1)

    def priced(self, view: View) -> TypeMarket:
        """Return the market with other prices, if enough jobs have bid, come or gone."""
        stale = self.stale + _MOVE * sum(map(_comes_or_goes, view.changes))
        if not stale or stale < np.count_nonzero(view.open_J):
            return self if stale == self.stale else self._with(self.bids, stale)
        # Only bids of jobs that are present count from here on: those of ended jobs are dropped.
        present = view.open_J.nonzero()[0].tolist()
        bids = {job: bid for job in present if (bid := self.bids.get(job))}
        if not bids:
            return replace(self, stale=0)
        offers = self._offers(list(bids.values()))
        price_T = better_prices(*offers, np.array(self.price_T), TURNS)
        types = dict(zip(bids, matched(*offers, price_T), strict=True))
        prices = tuple(price_T.tolist())
        return replace(self, price_T=prices, bids=Map(bids), types=Map(types), stale=0)

    def _with(self, bids: Map[int, TypeBid], stale: int) -> TypeMarket:
        """Return the market with these bids and this staleness; the rest is unchanged."""
        return TypeMarket(
            devices_T=self.devices_T,
            price_T=self.price_T,
            bids=bids,
            types=self.types,
            stale=stale,
            needs=self.needs,
        )

    def _offers(self, bids: Sequence[TypeBid]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bids as ``dual_prices`` takes them: values, devices kept busy, devices there."""
        value_JT, busy_JT = (np.array(column) for column in list(zip(*bids, strict=True))[:2])
        return value_JT, busy_JT, np.array(self.devices_T, dtype=np.float64)

    def type_of(self, job: int) -> int | None:
        """Return the type that a job gains most by; None: none is worth its price to it."""
        # A job that came after the prices were found chooses by its own bid at these prices.
        kind = self.types.get(job)
        if kind is None:
            offers = zip(*self._bid_of(job)[:2], self.price_T, strict=True)
            # The value of the type, less the price of the devices that it would keep busy.
            gains = [value - busy * price for value, busy, price in offers]
            kind = gains.index(max(gains)) if max(gains) > 0 else NONE
        return None if kind == NONE else kind

    def usable(self, job: int, kind: int, patience: float) -> list[bool]:
        """Return for each type whether it is at most ``patience`` times as slow as this one."""
        cost_T = self._bid_of(job).cost_T
        return [cost <= patience * cost_T[kind] for cost in cost_T]

    def _bid_of(self, job: int) -> TypeBid:
        """Return the latest bid of a job that waits."""
        bid = self.bids.get(job)
        assert bid is not None, "who waits has made a bid"
        return bid


def new_market(view: View) -> TypeMarket:
    """Return the market before the first job: no type has a price."""
    devices_T = counts_T(view)
    return TypeMarket(devices_T=devices_T, price_T=(0.0,) * len(devices_T))


def _comes_or_goes(event: Event) -> bool:
    """Tell whether a job arrives or ends with an event."""
    if isinstance(event, RoundsDone):
        return event.finished
    return isinstance(event, JobArrived | JobFailed | JobCancelled)


def _needs(view: View, job: int, devices_T: tuple[int, ...]) -> TypeNeeds:
    """Compute q, the devices kept busy and T^c + T^s of a job on each type, in seconds and ns."""
    costs, scale = view.costs, view.scale_J.item(job)
    turn_s_T = list[float]()
    busy_T = list[float]()
    cost_T = list[float]()
    fitting = 0
    for kind, devices in enumerate(devices_T):
        if not devices or not costs.fits_JT.item(job, kind):
            turn_s_T.append(inf)
            busy_T.append(1.0)
            cost_T.append(inf)
            continue
        comp_ns, sync_ns = costs.comp_ns_JT.item(job, kind), costs.sync_ns_JT.item(job, kind)
        # q = ceil(n / D_t) T^c + T^s, and n T^c / q devices are busy meanwhile.
        turn_ns = max(1, -(-scale // devices) * comp_ns + sync_ns)
        turn_s_T.append(turn_ns / 1e9)
        busy_T.append(max(_LEAST, scale * comp_ns / turn_ns))
        cost_T.append(float(comp_ns + sync_ns))
        fitting += devices
    return TypeNeeds(
        turn_s_T=tuple(turn_s_T),
        fastest_s=min(turn_s_T),
        busy_T=tuple(busy_T),
        cost_T=tuple(cost_T),
        task_ns=fitting / cluster_speed(costs, job, devices_T) if fitting else inf,
        gang=min(scale, fitting),
    )


def _bid(needs: TypeNeeds, left: float) -> TypeBid:
    """Bid for each type: its part of the fastest speed over the root of the time still needed."""
    fastest_s = needs.fastest_s
    # Over the root of the time still needed: between no regard to length and all regard to it.
    worth = 1 / sqrt(max(left, _LEAST) * fastest_s) if fastest_s < inf else 0.0
    value_T = [worth * fastest_s / turn_s if turn_s < inf else 0.0 for turn_s in needs.turn_s_T]
    return TypeBid(tuple(value_T), needs.busy_T, needs.cost_T)
