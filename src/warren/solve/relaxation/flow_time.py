"""Value a rule of sharing by the flow of divisible jobs, without tasks.

Whenever a job arrives or ends, devices are shared again (``divisible_devices``); in between, every
job runs at a steady rate. Dispatch by the same rule (``type_queues``) comes close to the value,
which takes some hundred times less time.
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
    """The flow of jobs at steady rates from one arrival or end to the next. Times in float s."""

    arrival_s_J: FloatArray
    by_arrival_N: IntArray  # jobs that fit a device and have rounds, by arrival
    rounds_J: FloatArray
    left_J: FloatArray  # rounds left, parts of rounds included
    finish_s_J: FloatArray  # -1 until the job ends
    shares: Shares


_DONE: Final = 1e-9
"""A job is over when this part of its rounds, or less, is left."""


def flow(
    instance: Instance, rule: SharingRule, terms: Terms | None = None
) -> tuple[FloatArray, int]:
    """Run the flow of all jobs under a rule.

    Parameters
    ----------
    instance
        Jobs and devices.
    rule
        The rule by which devices are shared.
    terms
        Those of the instance, where the caller has them.

    Returns
    -------
    finish_s_J
        When each job ends, float s; -1 for a job that cannot run.
    visits
        Times that a job was served in a sharing, a measure of the time it took.
    """
    shares = new_shares(instance, rule, terms or terms_of(instance))
    rounds_J = instance.rounds_J
    runs_J = np.isfinite(shares.turn_s_JT).any(axis=1) & (rounds_J > 0)
    by_arrival_N = np.argsort(instance.arrival_ns_J, kind="stable")
    state = FlowTime(
        arrival_s_J=instance.arrival_ns_J / 1e9,
        by_arrival_N=by_arrival_N[runs_J[by_arrival_N]],
        rounds_J=np.asarray(rounds_J, dtype=np.float64),
        left_J=np.array(rounds_J, dtype=np.float64),
        finish_s_J=np.full(len(rounds_J), -1.0),
        shares=shares,
    )
    _flow(state)
    return state.finish_s_J, int(shares.count[VISITS])


@kernel
def _flow(state: FlowTime) -> None:
    """Run the flow from the first arrival to the last end."""
    shares = state.shares
    arrived = 0
    now = 0.0
    jobs = len(state.by_arrival_N)
    while arrived < jobs or shares.present.count[0] > 0:
        # All that have arrived by now are present; the next arrival ends the rates at the latest.
        until = np.inf
        while arrived < jobs:
            job = state.by_arrival_N[arrived]
            if state.arrival_s_J[job] > now:
                until = state.arrival_s_J[job]
                break
            insert(shares.present, shares.rank_J, job)
            shares.weight[0] += shares.weight_J[job]
            arrived += 1
        # Rates hold until the first job served at them has no rounds left.
        share(shares)
        for place in range(shares.count[SERVED]):
            job = shares.served_N[place]
            until = min(until, now + state.left_J[job] / shares.rate_J[job])
        _pass_time(state, until - now, until)
        now = until


@inlined
def _pass_time(state: FlowTime, time_s: float, now: float) -> None:
    """Run all served jobs for ``time_s``, until ``now``; those that end leave."""
    shares, ended = state.shares, False
    for place in range(shares.count[SERVED]):
        job = shares.served_N[place]
        state.left_J[job] -= shares.rate_J[job] * time_s
        if state.left_J[job] <= _DONE * state.rounds_J[job]:
            state.finish_s_J[job] = now
            ended = True
    if not ended:
        return
    # From the last on: removing a job moves only those behind it.
    for place in range(shares.present.count[0] - 1, -1, -1):
        job = shares.present.job_N[place]
        if state.finish_s_J[job] >= 0:
            remove(shares.present, place)
            shares.weight[0] -= shares.weight_J[job]
