"""Cruise's Figure 3.2 by trying everything: who serves, whole items, and of the model a grid.

By ``published`` a linear program in the grid's place has the model in parts of any size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from warren.model.costs import FloatArray, IntArray

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


class Tried(NamedTuple):
    """Servers, workers, and what each worker has in each round: items (R, W), exchanges (R, W)."""

    servers: list[int]
    works: list[int]
    items_RW: IntArray
    batches_RW: FloatArray


def least_published_s(
    one: Drawn, *, whole: bool, ways: int = 1, rounds: tuple[tuple[int, int], ...] = ()
) -> float:
    """The shortest epoch of all shapes by ``published``, each machine with bytes of its own.

    A linear program for each choice of servers and items, but where the least that a worker can
    wait, M over its own rate or over all servers' rates by worker, is already too long.
    ``rounds``: items and how often, where an epoch is not one round.
    """
    often_R = np.array([often for _, often in rounds or ((one.items, 1),)])
    tries = []
    for tried in every_try(one, rounds or ((one.items, 1),), whole=whole, ways=ways):
        all_s = len(tried.works) / one.rate_N[tried.servers].sum()
        wait_s_W = one.model_bytes * np.maximum(1 / one.rate_N[tried.works], all_s)
        takes_s_RW = tried.items_RW * one.item_s_N[tried.works] + tried.batches_RW * wait_s_W
        tries.append((float(often_R @ takes_s_RW.max(axis=1)), tried))
    best = np.inf
    for bound, tried in sorted(tries, key=lambda pair: pair[0]):
        if bound >= best:
            break
        best = min(best, least_split_s(one, tried, often_R))
    return best


def every_try(
    one: Drawn, rounds: tuple[tuple[int, int], ...], *, whole: bool, ways: int
) -> Iterator[Tried]:
    """All choices of servers and of items in each round."""
    machines = range(len(one.rate_N))
    for serve in range(1, len(one.rate_N)):
        for items in product(*(list(parts_of(of, len(one.rate_N) - serve)) for of, _ in rounds)):
            items_RW = np.array(items)
            batches_RW = ways * (-(-items_RW // one.batch) if whole else items_RW / one.batch)
            for servers in combinations(machines, serve):
                works = [machine for machine in machines if machine not in servers]
                yield Tried(list(servers), works, items_RW, batches_RW)


def least_split_s(one: Drawn, tried: Tried, often_R: IntArray) -> float:
    """The shortest epoch of all splits of the model: a linear program of (3.4), term by term."""
    servers, rounds, rows, right = tried.servers, len(often_R), [], []
    for at in range(rounds):
        for place, machine in enumerate(tried.works):
            each_P = tried.batches_RW[at, place] / np.minimum(
                one.rate_N[servers], one.rate_N[machine]
            )
            terms_TP = np.vstack([len(tried.works) * np.diag(each_P), each_P])
            ends_TR = np.zeros((len(terms_TP), rounds))
            ends_TR[:, at] = -1
            rows.append(np.column_stack([one.model_bytes * terms_TP, ends_TR]))
            right += [-tried.items_RW[at, place] * one.item_s_N[machine]] * len(terms_TP)
    found = linprog(
        np.append(np.zeros(len(servers)), often_R),
        A_ub=np.vstack(rows),
        b_ub=right,
        A_eq=np.append(np.ones(len(servers)), np.zeros(rounds))[None],
        b_eq=[1.0],
    )
    return float(found.fun)
