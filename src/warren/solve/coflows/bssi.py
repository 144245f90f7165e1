"""Order coflows bottleneck first: the least weighted sum of completion times, within a factor of 4.

*Source.* Sincronia (SIGCOMM'18), Algorithm 1 (BSSI, "bottleneck, select, scale, iterate"). With
strict priorities in this order, rates that leave no link idle and no later arrivals, the sum of
weights times completion times is at most 4 times the least (its Theorem 1).

*Differs.* Equal bottlenecks and equal candidates are open in the paper: the first port and the last
coflow are taken. A coflow that sends nothing on the bottleneck never goes last for its sake.
"""

from __future__ import annotations

import numpy as np

from warren.solve.common.arrays import FloatArray


def bssi_order(load_CP: FloatArray, weight_C: FloatArray) -> tuple[int, ...]:
    """Order coflows by BSSI, the first to be served first.

    ``load_CP``: how long coflow C keeps port P busy alone, in seconds (or bytes, where all links
    are alike), 0 or more. ``weight_C``: 0 or more. Raises ValueError for other numbers.
    """
    if load_CP.ndim != 2 or weight_C.shape != load_CP.shape[:1]:
        raise ValueError("coflows have one weight each, and a load on each port")
    if not np.all(np.isfinite(load_CP)) or np.any(load_CP < 0) or np.any(weight_C < 0):
        raise ValueError("loads and weights are finite and not negative")
    left = list(range(len(load_CP)))
    weight_C = weight_C.astype(float)
    last_first: list[int] = []
    while left:
        total_P = load_CP[left].sum(axis=0)
        port = int(total_P.argmax()) if total_P.size else -1
        if port < 0 or total_P[port] <= 0:
            # The remaining jobs send nothing, so their order does not matter.
            last_first += reversed(left)
            break
        sending = [one for one in left if load_CP[one, port] > 0]
        last = min(sending, key=lambda one: (weight_C[one] / load_CP[one, port], -one))
        left.remove(last)
        last_first.append(last)
        share_C = load_CP[left, port] / load_CP[last, port]
        # Rounding alone makes a weight negative: the last one had the least ratio.
        weight_C[left] = np.maximum(0.0, weight_C[left] - weight_C[last] * share_C)
    return tuple(reversed(last_first))
