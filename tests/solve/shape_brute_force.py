"""Cruise's Figure 3.2 by trying everything: who serves, the model on a grid, and whole items."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from warren.model.costs import FloatArray

GRID = 8
"""The model is split in multiples of this part."""


class Drawn(NamedTuple):
    """A small instance; ``item_s_N`` and ``rate_N`` of each machine."""

    item_s_N: FloatArray
    rate_N: FloatArray
    model_bytes: float
    items: int
    batch: int


def drawn(seed: int, kinds: int) -> Drawn:
    """Three to five machines of at most so many kinds; computing and sending are of one size."""
    draw = random.Random(f"shape-{seed}-{kinds}")
    known = [(draw.choice([1, 2, 3, 5]), draw.choice([1, 2, 4, 10])) for _ in range(kinds)]
    machines = [draw.choice(known) for _ in range(draw.randint(3, 5))]
    item_s, rate = (np.array(column, dtype=float) for column in zip(*machines, strict=True))
    model_bytes = float(draw.choice([2, 5, 10, 30, 100]))
    return Drawn(item_s, rate, model_bytes, draw.randint(4, 10), draw.randint(1, 5))


def parts_of(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of so many, 0 included."""
    for bars in combinations(range(total + count - 1), count - 1):
        edges = (-1, *bars, total + count - 1)
        yield tuple(b - a - 1 for a, b in pairwise(edges))


def exchange_s(
    reading: str, bytes_GP: FloatArray, server_rate_P: FloatArray, worker_rate_W: FloatArray
) -> FloatArray:
    """The last factor of (3.4), by each worker, for each split of the model (G, W)."""
    count = len(worker_rate_W)
    columns = []
    for rate in worker_rate_W.tolist():
        if reading == "nic":
            at_servers = (bytes_GP * count / server_rate_P).max(axis=1)
            columns.append(np.maximum(at_servers, bytes_GP.sum(axis=1) / rate))
            continue
        between_P = np.minimum(server_rate_P, rate) if reading == "published" else server_rate_P
        each_GP = bytes_GP / between_P
        columns.append(np.maximum((each_GP * count).max(axis=1), each_GP.sum(axis=1)))
    return np.stack(columns, axis=1)


def least_epoch_s(one: Drawn, reading: str, *, whole: bool, ways: int = 1) -> float:
    """The shortest epoch of all shapes."""
    best = np.inf
    machines = range(len(one.rate_N))
    for serve in range(1, len(one.rate_N)):
        bytes_GP = one.model_bytes / GRID * np.array(list(parts_of(GRID, serve)), dtype=float)
        items_AW = np.array(list(parts_of(one.items, len(one.rate_N) - serve)))
        batches_AW = -(-items_AW // one.batch) if whole else items_AW / one.batch
        for servers in combinations(machines, serve):
            works = [machine for machine in machines if machine not in servers]
            sent_GW = ways * exchange_s(
                reading, bytes_GP, one.rate_N[list(servers)], one.rate_N[works]
            )
            epoch_GAW = items_AW * one.item_s_N[works] + batches_AW * sent_GW[:, None, :]
            best = min(best, float(epoch_GAW.max(axis=2).min()))
    return best
