"""Random flows over links, and a second, plain form of max-min fair rates in exact fractions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.flows.classes import FlowClasses, strict_classes, weighted_classes
from warren.solve.flows.max_min import max_min


class Flow(NamedTuple):
    """One flow, or ``multiplicity`` equal ones."""

    links: tuple[int, ...]
    flow_class: int
    multiplicity: float = 1.0
    cap: float = np.inf


class Links(NamedTuple):
    """Links and the classes that share them."""

    capacity_L: Sequence[float]
    classes: FlowClasses


def rates(links: Links, flows: Sequence[Flow]) -> FloatArray:
    """Rates from scratch."""
    return max_min(
        links.capacity_L,
        np.cumsum([0, *(len(flow.links) for flow in flows)]),
        [link for flow in flows for link in flow.links],
        [flow.flow_class for flow in flows],
        links.classes,
        multiplicity_F=[flow.multiplicity for flow in flows],
        cap_F=[flow.cap for flow in flows],
    )


def exact_rates(links: Links, flows: Sequence[Flow]) -> list[Fraction]:
    """Progressive filling, rank by rank: all rise together until a link is full or a cap is met.

    Every flow has a link or a cap.
    """
    left = [Fraction(one) for one in links.capacity_L]
    level = [Fraction(0)] * len(flows)
    weight = [Fraction(float(links.classes.weight_K[flow.flow_class])) for flow in flows]
    for rank in range(links.classes.ranks):
        rising = [f for f, one in enumerate(flows) if links.classes.rank_K[one.flow_class] == rank]
        while rising:
            # How much further all can rise: what is left of a link over the shares that rise there.
            steps = [
                Fraction(flows[f].cap) / weight[f] - level[f]
                for f in rising
                if flows[f].cap < np.inf
            ]
            share = [Fraction(0)] * len(left)
            for f in rising:
                for link in flows[f].links:
                    share[link] += Fraction(flows[f].multiplicity) * weight[f]
            steps += [left[link] / one for link, one in enumerate(share) if one]
            step = min(steps)
            left = [one - step * taken for one, taken in zip(left, share, strict=True)]
            for f in rising:
                level[f] += step
            full = {link for link, one in enumerate(left) if not one}
            rising = [
                f
                for f in rising
                if not full & set(flows[f].links)
                and (flows[f].cap == np.inf or level[f] < Fraction(flows[f].cap) / weight[f])
            ]
    return [one * by for one, by in zip(level, weight, strict=True)]


def drawn_links(draw: random.Random) -> Links:
    """Few links, some alike, some without any capacity, and strict or weighted classes."""
    kinds = draw.choice([[1, 2, 3, 6], [0, 5, 10], [7.25], [1, 1e3, 1e9], [0.3, 1.7, 2.9]])
    capacity_L = [draw.choice(kinds) for _ in range(draw.randint(1, 8))]
    count = draw.randint(1, 4)
    if draw.random() < 0.6:
        return Links(capacity_L, strict_classes(count))
    return Links(capacity_L, weighted_classes([draw.choice([0.5, 1, 2, 3]) for _ in range(count)]))


def drawn_flow(draw: random.Random, links: Links) -> Flow:
    """A flow over at least one link."""
    crossed = draw.sample(range(len(links.capacity_L)), draw.randint(1, min(4, len(links[0]))))
    return Flow(
        links=tuple(crossed),
        flow_class=draw.randrange(len(links.classes.rank_K)),
        multiplicity=draw.choice([1, 1, 1, 2, 5]),
        cap=draw.choice([np.inf, np.inf, np.inf, 1, 2.5]),
    )


def drawn_job(draw: random.Random, hosts: int, classes: int) -> list[Flow]:
    """The flows of a ring, or of a job with parameter servers, over up- and downlinks of hosts."""
    flow_class = draw.randrange(classes)
    if draw.random() < 0.3:
        ring = draw.sample(range(hosts), draw.randint(2, 4))
        return [Flow((*ring, *(hosts + host for host in ring)), flow_class)]
    workers = draw.sample(range(hosts), draw.randint(2, 5))
    servers = draw.sample(range(hosts), draw.randint(1, 3))
    cap = draw.choice([np.inf, np.inf, 1, 2.5])
    flows = []
    for one, other in ((a, b) for a in workers for b in servers if a != b):
        sender, receiver = draw.choice([(one, other), (other, one)])
        flows.append(Flow((sender, hosts + receiver), flow_class, cap=cap))
    return flows


def drawn_world(seed: int, most: int = 9) -> tuple[Links, list[Flow]]:
    """Links and up to ``most`` flows."""
    draw = random.Random(seed)
    links = drawn_links(draw)
    return links, [drawn_flow(draw, links) for _ in range(draw.randint(1, most))]


def loads(links: Links, flows: Sequence[Flow], rate_F: FloatArray, rank: int) -> FloatArray:
    """What flows of all ranks up to this one take of each link."""
    load_L = np.zeros(len(links.capacity_L))
    for flow, rate in zip(flows, rate_F, strict=True):
        if links.classes.rank_K[flow.flow_class] <= rank:
            load_L[list(flow.links)] += flow.multiplicity * rate
    return load_L


def without_bottleneck(links: Links, flows: Sequence[Flow], rate_F: FloatArray) -> list[int]:
    """Flows that could have more, without taking from one with no more: none if all is right.

    A flow is limited by its cap, or by a *bottleneck link*: one that its own and earlier ranks fill
    on which no flow of its rank has a higher rate, weights of classes apart.
    """
    classes = links.classes
    capacity_L = np.array(links.capacity_L, dtype=np.float64)
    weight_F = classes.weight_K[[flow.flow_class for flow in flows]]
    level_F = (rate_F / weight_F).tolist()
    highest = np.zeros((classes.ranks, len(capacity_L)))
    for flow, level in zip(flows, level_F, strict=True):
        for link in flow.links:
            rank = classes.rank_K[flow.flow_class]
            highest[rank, link] = max(highest[rank, link], level)
    full = [
        loads(links, flows, rate_F, rank) >= capacity_L * (1 - 1e-9)
        for rank in range(classes.ranks)
    ]
    found = []
    for f, (flow, rate, level) in enumerate(zip(flows, rate_F, level_F, strict=True)):
        rank = classes.rank_K[flow.flow_class]
        at_cap = rate >= flow.cap * (1 - 1e-9)
        limited = any(
            full[rank][link] and level >= highest[rank, link] * (1 - 1e-9) for link in flow.links
        )
        if not (at_cap or limited):
            found.append(f)
    return found
