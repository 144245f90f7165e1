"""Sincronia on its own ground: mean completion times of coflows, over a bound of every schedule.

A trace has the text form of the public coflow benchmark (Facebook's): a line with racks and
coflows; then a line a coflow: id, arrival in ms, mappers, their racks, reducers, ``rack:MB`` each.
None is shipped; these are drawn by seeds, with a few wide coflows among many small ones. All
coflows of a set are there at time 0, as the factor of 4 needs; a reducer gets its MB from all
mappers alike. The bound is the best of all orders where ports need not serve a flow at once.
"""

from __future__ import annotations

import random
from itertools import permutations
from statistics import mean
from typing import Final

import _common
import numpy as np

from warren.solve.coflows.bssi import bssi_order
from warren.solve.coflows.greedy_rates import completion_times

RACKS: Final = 10
COFLOWS: Final = 7
SETS: Final = 100
MB_PER_S: Final = 125.0

Flow = tuple[int, int, int, float]


def drawn(seed: int) -> str:
    """The text of a trace."""
    draw = random.Random(f"coflows-{seed}")
    lines = [f"{RACKS} {COFLOWS}"]
    for coflow in range(1, COFLOWS + 1):
        wide = draw.random() < 0.3
        most = RACKS if wide else 3
        senders = draw.sample(range(RACKS), draw.randint(1, most))
        takers = draw.sample(range(RACKS), draw.randint(1, most))
        sizes = [f"{one}:{draw.lognormvariate(5 if wide else 2, 1):.1f}" for one in takers]
        words = [coflow, 0, len(senders), *senders, len(takers), *sizes]
        lines.append(" ".join(map(str, words)))
    return "\n".join(lines) + "\n"


def parsed(text: str) -> tuple[int, list[Flow]]:
    """Racks, and flows: (coflow by its place, from, to, MB). Raises ValueError naming the line."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    racks, coflows = map(int, lines[0])
    flows: list[Flow] = []
    for place, words in enumerate(lines[1:]):
        mappers = int(words[2])
        senders = [int(word) for word in words[3 : 3 + mappers]]
        takers = words[4 + mappers :]
        if len(senders) != mappers or len(takers) != int(words[3 + mappers]):
            raise ValueError(f"coflow in line {place + 2}: its counts are not those of its racks")
        for taker in takers:
            rack, size = taker.split(":")
            flows += [(place, one, int(rack), float(size) / mappers) for one in senders]
    if len(lines) != 1 + coflows:
        raise ValueError(f"line 1 says {coflows} coflows, there are {len(lines) - 1}")
    return racks, flows


def row(seed: int) -> dict[str, float]:
    """Mean completion times of a set: by BSSI, in order of the trace, and at least."""
    racks, flows = parsed(drawn(seed))
    coflow, source, target, size = (np.array(column) for column in zip(*flows, strict=True))
    load = np.zeros((COFLOWS, 2 * racks))
    np.add.at(load, (coflow, source), size / MB_PER_S)
    np.add.at(load, (coflow, racks + target), size / MB_PER_S)
    rates = np.full(2 * racks, MB_PER_S)

    def ends(order: tuple[int, ...]) -> float:
        found = completion_times(order, coflow, source, racks + target, size, rates)
        return float(found.mean())

    order = bssi_order(load, np.ones(COFLOWS))
    return {
        "seed": seed,
        "bssi_s": ends(order),
        "fifo_s": ends(tuple(range(COFLOWS))),
        "bound_s": _bound(load),
    }


def _bound(load: np.ndarray) -> float:
    orders = np.array(list(permutations(range(len(load)))))
    ends = np.where(load[orders] > 0, load[orders].cumsum(axis=1), 0.0).max(axis=2)
    return float(ends.mean(axis=1).min())


def main() -> None:
    """Make all sets and save."""
    rows = [row(seed) for seed in range(1, SETS + 1)]
    over = [one["bssi_s"] / one["bound_s"] for one in rows]
    fifo = [one["fifo_s"] / one["bound_s"] for one in rows]
    found = {
        "mean_over_bound": mean(over),
        "most_over_bound": max(over),
        "fifo_mean_over_bound": mean(fifo),
        "within_4": sum(one <= 4 for one in over),
    }
    print(found)
    _common.save("coflows", 1, {"sets": SETS, "coflows": COFLOWS, **found, "rows": rows})


if __name__ == "__main__":
    main()
