"""Max-min fair rates: closed forms, the bottleneck theorem, a ladder of linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from warren.cost.max_min import (
    FluidNetwork,
    crosses_JL,
    fluid_round_s_J,
    limit_J,
    max_min_rates_F,
    ring_rates_J,
)
from warren.cost.ring import RingJobs, RingNetwork, round_s_J

NO_LIMIT = np.inf


def rates(capacity: list[float], crosses: list[list[int]], limit: list[float] | None = None) -> Any:
    crosses_FL = np.zeros((len(crosses), len(capacity)), dtype=np.bool_)
    for flow, links in enumerate(crosses):
        crosses_FL[flow, links] = True
    limit_F = np.full(len(crosses), NO_LIMIT) if limit is None else np.array(limit)
    return max_min_rates_F(np.array(capacity), crosses_FL, limit_F)


def network(nic: list[float], inner: float = 1000.0, xi2_s: float = 0.0) -> FluidNetwork:
    return FluidNetwork(
        nic_bytes_per_s_S=np.array(nic),
        inner_bytes_per_s_S=np.full(len(nic), inner),
        xi2_s=xi2_s,
    )


def ring_jobs(model_bytes: list[float], workers: list[int], comp_s: float = 0.0) -> RingJobs:
    return RingJobs(
        model_bytes_J=np.array(model_bytes),
        workers_J=np.array(workers),
        comp_s_J=np.full(len(workers), comp_s),
    )


def test_flows_on_one_link_get_equal_parts_of_it() -> None:
    assert rates([12.0], [[0]] * 3).tolist() == [4.0, 4.0, 4.0]


def test_three_flows_over_two_links_get_what_the_textbook_says() -> None:
    """Over both links, over a link of 1, over a link of 2: a half, a half, and the rest."""
    assert rates([1.0, 2.0], [[0, 1], [0], [1]]).tolist() == [0.5, 0.5, 1.5]


def test_a_chain_of_links_fills_from_its_narrowest_on() -> None:
    """The link of 10 is for two flows, 5 each; that of 20 is too, but one of them has 5 already."""
    assert rates([10.0, 20.0, 24.0], [[0], [0, 1], [1, 2], [2]]).tolist() == [5.0, 5.0, 12.0, 12.0]
    assert rates([10.0, 20.0, 34.0], [[0], [0, 1], [1, 2], [2]]).tolist() == [5.0, 5.0, 15.0, 19.0]


def test_what_a_flow_may_not_take_is_left_to_the_others() -> None:
    assert rates([12.0], [[0]] * 3, [2.0, NO_LIMIT, NO_LIMIT]).tolist() == [2.0, 5.0, 5.0]


def test_a_flow_over_no_link_has_its_limit_or_none() -> None:
    assert rates([1.0], [[], []], [7.0, NO_LIMIT]).tolist() == [7.0, NO_LIMIT]
    assert rates([], [[]], [7.0]).tolist() == [7.0]
    assert rates([1.0], []).tolist() == []


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    links, flows = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    positive = st.floats(0.1, 1e3)
    capacity_L = draw(st.lists(positive, min_size=links, max_size=links))
    crosses = [draw(st.lists(st.booleans(), min_size=links, max_size=links)) for _ in range(flows)]
    limits = st.one_of(st.just(NO_LIMIT), positive)
    limit_F = draw(st.lists(limits, min_size=flows, max_size=flows))
    return np.array(capacity_L), np.array(crosses, dtype=np.bool_), np.array(limit_F)


@given(worlds())
def test_every_flow_has_a_bottleneck_which_is_what_max_min_fair_means(world: Any) -> None:
    """No link carries more than it can; each flow is at its limit, or on a full link where none
    is faster: then it cannot be raised but at the cost of one that is no faster."""
    capacity_L, crosses_FL, limit_F = world
    rate_F = max_min_rates_F(*world)
    carried_L = np.array([rate_F[crosses_FL[:, link]].sum() for link in range(len(capacity_L))])
    assert np.all(carried_L <= capacity_L * (1 + 1e-9))
    assert np.all(rate_F <= limit_F)
    for flow, rate in enumerate(rate_F):
        on = [link for link in range(len(capacity_L)) if crosses_FL[flow, link]]
        at_bottleneck = any(
            carried_L[link] >= capacity_L[link] * (1 - 1e-9)
            and rate >= rate_F[crosses_FL[:, link]].max() * (1 - 1e-9)
            for link in on
        )
        assert at_bottleneck or rate == limit_F[flow]


def most(aim: list[int], capacity_L: Any, crosses_FL: Any, low_F: Any, high_F: Any) -> float:
    """The highest least rate of the flows in ``aim``, where all have at least ``low_F``."""
    flows, links = len(low_F), len(capacity_L)
    rows = np.zeros((links + len(aim), flows + 1))  # the last column is the least rate
    rows[:links, :flows] = crosses_FL.T
    rows[links + np.arange(len(aim)), aim] = -1
    rows[links:, -1] = 1
    found = linprog(
        np.append(np.zeros(flows), -1),
        A_ub=rows,
        b_ub=np.append(capacity_L * (1 + 1e-9), np.zeros(len(aim))),
        bounds=[*zip(low_F, np.minimum(high_F, 1e6), strict=True), (0, 1e6)],
    )
    return float(-found.fun)


def by_linear_programs(capacity_L: Any, crosses_FL: Any, limit_F: Any) -> Any:
    """The least rate as high as can be; flows that cannot be above it stay; the others go on."""
    low_F, high_F = np.zeros(len(limit_F)), limit_F.copy()
    rising = list(range(len(limit_F)))
    while rising:
        level = most(rising, capacity_L, crosses_FL, low_F, high_F)
        low_F[rising] = level * (1 - 1e-9)
        for flow in list(rising):
            if most([flow], capacity_L, crosses_FL, low_F, high_F) <= level * (1 + 1e-6):
                rising.remove(flow)
                high_F[flow] = min(high_F[flow], level)
    return high_F


@settings(max_examples=40)
@given(worlds().filter(lambda world: bool((world[1].any(axis=1) | np.isfinite(world[2])).all())))
def test_filling_finds_what_a_ladder_of_linear_programs_finds(world: Any) -> None:
    assert max_min_rates_F(*world) == pytest.approx(by_linear_programs(*world), rel=1e-4)


def test_two_rings_on_one_card_have_half_of_it_each_and_a_third_all_of_its_own() -> None:
    workers_JS = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 2, 2]])
    assert ring_rates_J(network([100.0] * 5), workers_JS).tolist() == [50.0, 50.0, 100.0]


def test_a_ring_takes_the_rate_of_its_slowest_card_on_all_of_them() -> None:
    """Ring 0 has 10 of its slow card, so that ring 1 has 90 of the card that they share."""
    workers_JS = np.array([[1, 1, 0], [0, 1, 1]])
    assert ring_rates_J(network([10.0, 100.0, 100.0]), workers_JS).tolist() == [10.0, 90.0]


def test_up_and_down_are_links_of_their_own_so_a_ring_has_all_of_each() -> None:
    """In and out of each host at once: were it one link, a ring alone had half of it."""
    workers_JS = np.array([[2, 2, 0], [0, 0, 4]])
    assert crosses_JL(workers_JS).tolist() == [
        [True, True, False, True, True, False],
        [False] * 6,
    ]
    assert network([5.0, 6.0]).capacity_L.tolist() == [5.0, 6.0, 5.0, 6.0]
    assert ring_rates_J(network([100.0] * 3), workers_JS).tolist() == [100.0, 1000.0]


def test_within_a_host_a_ring_has_intra_and_shares_it_with_nobody() -> None:
    workers_JS = np.array([[2, 0], [2, 0], [1, 0], [2, 1]])
    slow = network([100.0, 100.0], inner=30.0)
    assert limit_J(slow, workers_JS).tolist() == [30.0, 30.0, NO_LIMIT, 30.0]
    assert ring_rates_J(slow, workers_JS).tolist() == [30.0, 30.0, NO_LIMIT, 30.0]


def test_a_round_is_computation_latency_of_hosts_and_bytes_over_the_rate() -> None:
    """2 m (w - 1) / w is 80 and 60 bytes, at 50 a second; 0.25 s for each of two hosts."""
    jobs = ring_jobs([80.0, 40.0, 60.0, 5.0], [2, 4, 2, 1], comp_s=1.0)
    workers_JS = np.array([[1, 1, 0], [2, 2, 0], [0, 0, 2], [1, 0, 0]])
    found = fluid_round_s_J(network([100.0] * 3, xi2_s=0.25), jobs, workers_JS)
    assert found.tolist() == pytest.approx([1 + 0.5 + 1.6, 1 + 0.5 + 1.2, 1.25 + 0.06, 1.25])


def test_a_ring_without_bytes_takes_nothing_of_a_link() -> None:
    workers_JS = np.array([[1, 1], [1, 1], [0, 0]])
    found = fluid_round_s_J(
        network([100.0] * 2), ring_jobs([100.0, 0.0, 9.0], [2, 2, 2]), workers_JS
    )
    assert found.tolist() == [1.0, 0.0, np.inf]


def test_a_ring_with_some_of_its_workers_only_is_refused() -> None:
    with pytest.raises(ValueError, match="all its workers or with none"):
        fluid_round_s_J(network([1.0, 1.0]), ring_jobs([1.0], [3]), np.array([[1, 1]]))


@given(st.integers(1, 8), st.integers(2, 5), st.floats(0, 2), st.floats(1, 1e3))
def test_rings_that_share_all_links_take_eq_8_of_contention_with_alpha_0_and_xi1_1(
    rings: int, hosts: int, xi2_s: float, nic: float
) -> None:
    workers_JS = np.ones((rings, hosts), dtype=np.int64)
    jobs = ring_jobs([50.0 + k for k in range(rings)], [hosts] * rings, comp_s=0.5)
    same = RingNetwork(
        inner_bytes_per_s=1e3, outer_bytes_per_s=nic, xi1=1.0, xi2_s=xi2_s, alpha=0.0
    )
    found = fluid_round_s_J(network([nic] * hosts, xi2_s=xi2_s), jobs, workers_JS)
    assert found == pytest.approx(round_s_J(same, jobs, workers_JS))


@given(st.integers(0, 10**6))
def test_rings_are_no_slower_than_contention_with_the_slowest_card_says(seed: int) -> None:
    """Equal parts on the busiest host are the least that max-min fairness gives."""
    draw = np.random.default_rng(seed)
    hosts, rings = int(draw.integers(1, 6)), int(draw.integers(1, 8))
    workers_JS = draw.integers(0, 3, size=(rings, hosts))
    workers_JS[workers_JS.sum(axis=1) == 0, 0] = 1
    nic = draw.integers(1, 9, size=hosts).astype(float)
    jobs = ring_jobs(draw.integers(1, 99, size=rings).tolist(), workers_JS.sum(axis=1).tolist())
    least = RingNetwork(
        inner_bytes_per_s=1e3, outer_bytes_per_s=float(nic.min()), xi1=1.0, xi2_s=0.0, alpha=0.0
    )
    most_s_J = round_s_J(least, jobs, workers_JS)
    assert np.all(fluid_round_s_J(network(nic.tolist()), jobs, workers_JS) <= most_s_J * (1 + 1e-9))


@pytest.mark.parametrize(
    ("nic", "inner", "xi2_s", "message"),
    [
        ([1.0, 1.0], [1.0], 0.0, "not of one length"),
        ([0.0], [1.0], 0.0, "network card has no finite rate"),
        ([np.inf], [1.0], 0.0, "network card has no finite rate"),
        ([1.0], [0.0], 0.0, "no rate above 0 within"),
        ([1.0], [1.0], -1.0, "xi2_s of a network may not be -1.0"),
    ],
)
def test_a_network_that_cannot_be_is_refused(
    nic: list[float], inner: list[float], xi2_s: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FluidNetwork(
            nic_bytes_per_s_S=np.array(nic), inner_bytes_per_s_S=np.array(inner), xi2_s=xi2_s
        )
