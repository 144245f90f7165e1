"""Serve coflows in an order, each flow as fast as those before it leave its two ports.

*Source.* Sincronia (SIGCOMM'18), section 4 and Algorithm 2: any order-preserving allocation that
leaves no port idle for nothing ends a coflow within twice the time of the order alone on its
bottleneck; with ``warren.solve.coflows.bssi`` that makes 4 times the least.

*Differs.* All coflows are there at time 0. Within a coflow flows are served in the order given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray


def completion_times(
    order: Sequence[int],
    coflow_F: IntArray,
    from_F: IntArray,
    to_F: IntArray,
    bytes_F: FloatArray,
    rate_P: FloatArray,
) -> FloatArray:
    """Return when each coflow ends, (C,); one without bytes ends at 0.

    Axis F: flows, each of one coflow from a port that sends to a port that receives, ports counted
    together. ``rate_P``: bytes a second of each, above 0. ``order``: all coflows, the first first.
    """
    place_C = np.empty(len(order), dtype=np.int64)
    place_C[list(order)] = np.arange(len(order))
    rank_F = np.argsort(place_C[coflow_F], kind="stable")
    left_F = bytes_F.astype(float)
    end_C, now = np.zeros(len(order)), 0.0
    going = [flow for flow in rank_F.tolist() if left_F[flow] > 0]
    while going:
        speed_F = np.zeros(len(left_F))
        free_P = rate_P.astype(float)
        for flow in going:
            speed = min(free_P[from_F[flow]], free_P[to_F[flow]])
            speed_F[flow] = speed
            free_P[from_F[flow]] -= speed
            free_P[to_F[flow]] -= speed
        moving = [flow for flow in going if speed_F[flow] > 0]
        ends = {flow: left_F[flow] / speed_F[flow] for flow in moving}
        step = min(ends.values())
        now += step
        for flow in moving:
            # A flow that ends at this instant ends whole, whatever rounding leaves of it.
            done = ends[flow] <= step * (1 + 1e-12)
            left_F[flow] = 0.0 if done else left_F[flow] - step * speed_F[flow]
            if done:
                end_C[coflow_F[flow]] = now
        going = [flow for flow in going if left_F[flow] > 0]
    return end_C
