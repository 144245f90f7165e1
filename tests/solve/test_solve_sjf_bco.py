"""SJF-BCO's algorithms: the counterexamples of the paper's printing, and a naive second form."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from warren.solve.rings.packing import (
    FEW_SERVERS,
    FIRST,
    LEAST_BUSY,
    USED_SERVERS,
    PackedRings,
    pack,
)
from warren.solve.rings.sjf_bco import Schedule, SjfBcoSearch, kappas, sjf_bco
from warren.solve.rings.timing import RingGangs, RingLinks, links, ring_times

S = 10**9
RULES = (LEAST_BUSY, USED_SERVERS, FIRST, FEW_SERVERS)


def world(held: list[int], jobs: list[tuple[int, int]], sent: float = 0) -> tuple[Any, ...]:
    """Rings of (devices, seconds), one round a second, on hosts of so many equal devices."""
    sizes, lengths = (np.array(one, dtype=np.int64) for one in zip(*jobs, strict=True))
    first_J = np.append(0, np.cumsum(sizes))
    ones = np.ones((len(jobs), 1), dtype=np.int64)
    rings = PackedRings(first_J=first_J, rho_ns_J=lengths * S, fits_JT=ones.astype(np.bool_))
    gangs = RingGangs(
        first_J=first_J, ready_ns_J=np.zeros(len(jobs), np.int64), rounds_J=lengths,
        comp_ns_JT=ones * S, sync_ns_JT=ones * 0, shared_J=np.full(len(jobs), True),
        sent_bytes_J=np.full(len(jobs), float(sent)),
    )  # fmt: skip
    host_D = np.repeat(np.arange(len(held)), held)
    rates = [np.inf, *(1 / p for p in range(1, max(held) + 1))]
    return rings, gangs, links(host_D * 0, host_D, len(held), rates, 0.0)


def searched(case: tuple[Any, ...], **fields: Any) -> Schedule | None:
    sizes_J = np.diff(case[0].first_J)
    order_J = np.argsort(sizes_J, kind="stable")
    search = SjfBcoSearch(small=LEAST_BUSY, large=FEW_SERVERS, kappas=kappas(sizes_J), **fields)
    return sjf_bco(*case, order_J, search)


def test_a_limit_that_no_schedule_keeps_is_not_the_best_one() -> None:
    """READING: jobs of 5, 7 and 9 on two GPUs, T = 24. As printed the schedule is empty."""
    found = searched(world([2], [(1, 5), (1, 7), (1, 9)]), horizon=24)
    assert found is not None
    assert (found.makespan_ns, found.theta) == (14 * S, 14)
    assert (found.device_A >= 0).all()


@pytest.mark.parametrize(
    ("lengths", "optimum", "ours"), [([1, 1, 2], 2, 3), ([3, 3, 2, 2, 2], 6, 7)]
)
def test_theorem_5_does_not_hold(lengths: list[int], optimum: int, ours: int) -> None:
    """READING: n_g, phi, u and l are 1, so Algorithm 1 would be optimal."""
    found = searched(world([2], [(1, length) for length in lengths]))
    least = min(
        max(sum(length for length, at in zip(lengths, places, strict=True) if at == one)
            for one in (0, 1))
        for places in product((0, 1), repeat=len(lengths))
    )  # fmt: skip
    assert found is not None
    assert (least, found.makespan_ns) == (optimum, ours * S)


def naive(
    case: tuple[PackedRings, RingGangs, RingLinks], rule: int, limit: int, room: float
) -> list[list[int]]:
    """The rules again, with lists that are sorted as a whole; shorter where a ring has no place."""
    rings, _, shape = case
    host_D = shape.host_D.tolist()
    hosts, busy = sorted(set(host_D)), [0] * len(host_D)
    devices_of = {h: [d for d in range(len(busy)) if host_D[d] == h] for h in hosts}
    result = []
    for job in range(len(rings.rho_ns_J)):
        need, rho = int(np.diff(rings.first_J)[job]), int(rings.rho_ns_J[job])
        load = {h: sum(busy[d] for d in devices_of[h]) for h in hosts}
        if rule == LEAST_BUSY:
            ranked = sorted(range(len(busy)), key=lambda d: (busy[d], d))
        elif rule == FIRST:
            ranked = list(range(len(busy)))
        elif rule == USED_SERVERS:
            ranked = sorted(
                range(len(busy)), key=lambda d: (not load[host_D[d]], host_D[d], busy[d], d)
            )
        else:
            chosen: list[int] = []
            for h in sorted(hosts, key=lambda h: (load[h] / len(devices_of[h]), h)):
                if sum(len(devices_of[one]) for one in chosen) < room * need:
                    chosen.append(h)
            ranked = sorted(
                (d for h in chosen for d in devices_of[h]),
                key=lambda d: (busy[d], chosen.index(host_D[d]), d),
            )
        taken = [d for d in ranked if busy[d] + rho <= limit][:need]
        if len(taken) < need:
            break
        for device in taken:
            busy[device] += rho
        result.append(sorted(taken))
    return result


def drawn(draw: random.Random) -> tuple[Any, ...]:
    held = [draw.randint(1, 5) for _ in range(draw.randint(1, 5))]
    sizes = [draw.randint(1, min(6, sum(held))) for _ in range(draw.randint(1, 10))]
    return world(held, [(size, draw.randint(1, 6)) for size in sizes], draw.choice([0, 0.1]))


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_takes_what_a_naive_second_form_takes(rule: int) -> None:
    draw, none = random.Random(rule), 0
    for _ in range(300):
        case, room = drawn(draw), draw.choice([1, 1.5, 2, 4])
        limit, jobs = draw.randint(1, 30) * S, len(case[0].rho_ns_J)
        found = pack(
            case[0], case[2], np.arange(jobs), small=rule, large=rule, kappa=0, limit_ns=limit,
            room=room,
        )  # fmt: skip
        expected = naive(case, rule, limit, room)
        assert (found is None) == (len(expected) < jobs)
        none += found is None
        if found is not None:
            parts = np.split(found[0], case[0].first_J[1:-1])
            assert [sorted(part.tolist()) for part in parts] == expected
    assert 20 < none < 280


def test_rings_up_to_kappa_are_packed_and_larger_ones_spread() -> None:
    case = world([2, 2, 4], [(1, 3), (1, 3), (2, 1), (4, 1)])
    ways = {
        kappa: pack(
            case[0],
            case[2],
            np.arange(4),
            small=USED_SERVERS,
            large=FEW_SERVERS,
            kappa=kappa,
            limit_ns=9 * S,
            room=1,
        )
        for kappa in (1, 2, 4)
    }
    found = {kappa: way[0].tolist() for kappa, way in ways.items() if way is not None}
    # At 1 the pair goes to the first idle host, and the four to the idle host of four. At 2 the
    # pair shares a host, and two idle hosts are there for the four, the first of which comes first.
    assert found[1] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert found[2] == [0, 1, 0, 1, 2, 3, 4, 5]
    assert found[4][:4] == [0, 1, 0, 1]
    assert found[4][4:] == [0, 1, 2, 3]


def test_theta_is_the_most_time_of_a_device() -> None:
    """Lemma 2, which needs equal makespans to go left."""
    draw = random.Random(3)
    for _ in range(150):
        found = searched(drawn(draw), room=draw.choice([1, 2, 4]))
        assert found is not None
        assert found.busy_ns_D.max() == found.theta * S


def test_the_schedule_is_no_longer_than_any_that_the_search_meets() -> None:
    """Each theta that is bisected, each kappa, counted again from the rules."""
    draw = random.Random(4)
    for _ in range(60):
        case = drawn(draw)
        sizes_J = np.diff(case[0].first_J)
        order_J = np.argsort(sizes_J, kind="stable")
        best = least = None
        left, right = 1, int(case[0].rho_ns_J.sum()) // S
        while left <= right:
            theta = (left + right) // 2
            ends = []
            for kappa in range(1, int(sizes_J.max()) + 1):
                way = pack(
                    case[0], case[2], order_J, small=LEAST_BUSY, large=FEW_SERVERS, kappa=kappa,
                    limit_ns=theta * S, room=1,
                )  # fmt: skip
                if way is not None:
                    ends.append(int(ring_times(*case[1:], order_J, way[0]).max()))
            least = min(ends, default=None)
            if least is not None and (best is None or least <= best):
                best, right = least, theta - 1
            else:
                left = theta + 1
        found = searched(case)
        assert found is not None
        assert found.makespan_ns == best


def test_the_least_theta_that_has_a_schedule_is_found_where_more_theta_never_hurts() -> None:
    """By First-Fit single GPUs have a schedule for all theta above the least one."""
    draw = random.Random(5)
    for _ in range(60):
        case = world([draw.randint(1, 4)], [(1, draw.randint(1, 9)) for _ in range(6)])
        search = SjfBcoSearch(small=FIRST, large=FIRST, kappas=(0,), by_makespan=False)
        found = sjf_bco(*case, np.arange(6), search)
        feasible = [
            pack(
                case[0], case[2], np.arange(6), small=FIRST, large=FIRST, kappa=0,
                limit_ns=theta * S, room=1,
            ) is not None
            for theta in range(1, 60)
        ]  # fmt: skip
        assert found is not None
        if sorted(feasible) == feasible:
            assert found.theta == feasible.index(True) + 1


def test_a_horizon_that_is_too_short_gives_nothing() -> None:
    case = world([2], [(1, 5), (1, 7), (1, 9)])
    assert searched(case, horizon=13) is None
    assert searched(case, horizon=14) is None  # a makespan of T counts as too long, line 5
    assert searched(case, horizon=15) is not None
