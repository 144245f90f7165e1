"""Jobs as liquids: what a rule of sharing is worth, without tasks, in a moment.

Whenever a job arrives or ends, devices are shared anew (``divisible_devices``); in between, every
job runs at a steady rate. The value is what dispatch by the same rule (``type_queues``) comes close
to, some hundred times faster.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray
from warren.solve.common.compile import inlined, kernel
from warren.solve.common.heaps import insert, remove
from warren.solve.common.instance import Instance
from warren.solve.relaxation.divisible_devices import (
    SERVED,
    VISITS,
    Shares,
    SharingRule,
    Terms,
    new_shares,
    share,
    terms_of,
)


class FlowTime(NamedTuple):
    """Jobs that fit a device and have rounds. Times in float s."""

    arrival_s_J: FloatArray
    by_arrival_N: IntArray
    rounds_J: FloatArray
    left_J: FloatArray
    finish_s_J: FloatArray
    shares: Shares


_DONE: Final = 1e-9
"""A job is over when this part of its rounds, or less, is left."""


def flow(
    instance: Instance, rule: SharingRule, terms: Terms | None = None
) -> tuple[FloatArray, int]:
    """When each job ends (float s, -1 for one that cannot run), and how many jobs were served.

    ``terms`` are those of the instance, where the caller has them.
    """
    shares = new_shares(instance, rule, terms or terms_of(instance))
    rounds_J = instance.rounds_J
    runs_J = np.isfinite(shares.turn_s_JT).any(axis=1) & (rounds_J > 0)
    by_arrival_N = np.argsort(instance.arrival_ns_J, kind="stable")
    liquid = FlowTime(
        arrival_s_J=instance.arrival_ns_J / 1e9,
        by_arrival_N=by_arrival_N[runs_J[by_arrival_N]],
        rounds_J=np.asarray(rounds_J, dtype=np.float64),
        left_J=np.array(rounds_J, dtype=np.float64),
        finish_s_J=np.full(len(rounds_J), -1.0),
        shares=shares,
    )
    _flow(liquid)
    return liquid.finish_s_J, int(shares.count[VISITS])


@kernel
def _flow(liquid: FlowTime) -> None:
    shares, come, now = liquid.shares, 0, 0.0
    jobs = len(liquid.by_arrival_N)
    while come < jobs or shares.present.count[0] > 0:
        until = np.inf
        while come < jobs:
            job = liquid.by_arrival_N[come]
            if liquid.arrival_s_J[job] > now:
                until = liquid.arrival_s_J[job]
                break
            insert(shares.present, shares.rank_J, job)
            shares.weight[0] += shares.weight_J[job]
            come += 1
        share(shares)
        for place in range(shares.count[SERVED]):
            job = shares.served_N[place]
            until = min(until, now + liquid.left_J[job] / shares.rate_J[job])
        _pass_time(liquid, until - now, until)
        now = until


@inlined
def _pass_time(liquid: FlowTime, time_s: float, now: float) -> None:
    """All served jobs run for so long; those that end leave."""
    shares, ended = liquid.shares, False
    for place in range(shares.count[SERVED]):
        job = shares.served_N[place]
        liquid.left_J[job] -= shares.rate_J[job] * time_s
        if liquid.left_J[job] <= _DONE * liquid.rounds_J[job]:
            liquid.finish_s_J[job] = now
            ended = True
    if not ended:
        return
    for place in range(shares.present.count[0] - 1, -1, -1):
        job = shares.present.job_N[place]
        if liquid.finish_s_J[job] >= 0:
            remove(shares.present, place)
            shares.weight[0] -= shares.weight_J[job]
