"""Max-min fair rates from scratch: cases by hand, exact fractions, linear programs, conditions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from flow_cases import (
    Flow,
    Links,
    drawn_flow,
    drawn_world,
    exact_rates,
    loads,
    rates,
    without_bottleneck,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from warren.solve.common.arrays import FloatArray
from warren.solve.flows.classes import strict_classes, weighted_classes
from warren.solve.flows.levels import rounded

WORLDS = 5 * settings().max_examples


@dataclass(frozen=True)
class Case:
    """Flows and the rates that they must have."""

    capacity_L: Sequence[float]
    flows: Sequence[Flow]
    wanted: Sequence[float]
    classes: int = 3


HAND = {
    "two on one link halve it": Case([10], [Flow((0,), 1), Flow((0,), 1)], [5, 5]),
    "one bound elsewhere leaves the rest": Case(
        [10, 2], [Flow((0, 1), 1), Flow((0,), 1)], [2, 8]
    ),
    "one over both links, one on each": Case(
        [6, 10], [Flow((0, 1), 1), Flow((0,), 1), Flow((1,), 1)], [3, 3, 7]
    ),
    "a cap leaves the rest": Case([10], [Flow((0,), 1, cap=1), Flow((0,), 1)], [1, 9]),
    "three equal flows in one": Case([8], [Flow((0,), 1, multiplicity=3), Flow((0,), 1)], [2, 2]),
    "a cap is that of one of them": Case(
        [8], [Flow((0,), 1, multiplicity=3, cap=1), Flow((0,), 1)], [1, 5]
    ),
    "a ring has one rate on all its links": Case(
        [4, 9, 4, 9], [Flow((0, 1, 2, 3), 1), Flow((1,), 1), Flow((3,), 1)], [4, 5, 5]
    ),
    "the first class takes all that it can": Case([10], [Flow((0,), 2), Flow((0,), 1)], [0, 10]),
    "the second gets what the first cannot use": Case(
        [10, 3], [Flow((0, 1), 1), Flow((0,), 2), Flow((0,), 2)], [3, 3.5, 3.5]
    ),
    "control comes before all": Case(
        [10], [Flow((0,), 0, cap=1), Flow((0,), 1, cap=4), Flow((0,), 2)], [1, 4, 5]
    ),
    "a blocked flow holds nothing on its other links": Case(
        [5, 5], [Flow((0,), 1), Flow((0, 1), 2), Flow((1,), 3)], [5, 0, 5], 4
    ),
    "four classes on two links": Case(
        [10, 8],
        [Flow((0,), 0, cap=2), Flow((0, 1), 1, cap=3), Flow((0,), 2), Flow((1,), 2, cap=1),
         Flow((0, 1), 3), Flow((1,), 3)],
        [2, 3, 5, 1, 0, 4],
        4,
    ),
    "a link without capacity": Case([0, 5], [Flow((0, 1), 1), Flow((1,), 1)], [0, 5]),
    "a flow without link or cap": Case([1], [Flow((), 1), Flow((), 1, cap=7)], [np.inf, 7]),
}  # fmt: skip


@pytest.mark.parametrize("name", HAND)
def test_rates_by_hand(name: str) -> None:
    case = HAND[name]
    found = rates(Links(case.capacity_L, strict_classes(case.classes)), case.flows)
    assert found.tolist() == pytest.approx(case.wanted, rel=1e-13)


def test_classes_share_by_weight_after_control() -> None:
    """Of 13, control takes 1; class 1 and 2 share 12 as 1 to 3; one bound elsewhere leaves more."""
    links = Links([13, 2], weighted_classes([9, 1, 3]))
    control, light, heavy = Flow((0,), 0, cap=1), Flow((0,), 1), Flow((0,), 2)
    assert rates(links, [control, light, heavy]).tolist() == [1, 3, 9]
    assert rates(links, [control, light, Flow((0, 1), 2)]).tolist() == [1, 10, 2]
    assert rates(links, [control, light, light, heavy]).tolist() == pytest.approx(
        [1, 2.4, 2.4, 7.2]
    )


def test_no_flows_have_no_rates() -> None:
    assert rates(Links([1.0], strict_classes(2)), []).tolist() == []


@pytest.mark.parametrize("link", [-1, 1])
def test_a_flow_crosses_links_that_exist(link: int) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        rates(Links([1.0], strict_classes(2)), [Flow((link,), 1)])


@pytest.mark.parametrize("weights", [[], [1, 0], [1, np.inf], [-1]])
def test_a_weight_is_finite_and_above_nothing(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="no finite weight above 0"):
        weighted_classes(weights)


def test_rates_are_those_of_progressive_filling_in_fractions() -> None:
    for seed in range(WORLDS):
        links, flows = drawn_world(seed)
        wanted = [float(one) for one in exact_rates(links, flows)]
        nothing = 1e-12 * max(links.capacity_L)
        assert rates(links, flows).tolist() == pytest.approx(wanted, rel=1e-9, abs=nothing), seed


def test_rates_that_are_equal_are_one_number() -> None:
    """Whatever sums they come from: thirds and sevenths of links, and what they leave over."""
    met = 0
    for seed in range(WORLDS):
        draw = random.Random(seed)
        links = Links([draw.randint(1, 30) for _ in range(6)], strict_classes(3))
        flows = [drawn_flow(draw, links) for _ in range(12)]
        found, exact = rates(links, flows), exact_rates(links, flows)
        for rate in {one for one in exact if one > 0}:
            same = {found[f] for f in range(len(flows)) if exact[f] == rate}
            met += len(same) == 1 and exact.count(rate) > 1 and rate.denominator > 2
            assert len(same) == 1, seed
    assert met > WORLDS // 2


@pytest.mark.parametrize("seed", range(40))
def test_rates_are_the_lexicographic_optimum_of_linear_programs(seed: int) -> None:
    links, flows = drawn_world(seed, most=5)
    nothing = 1e-6 * max(links.capacity_L)
    if max(links.capacity_L) > 1e6:
        links = Links([min(one, 50) for one in links.capacity_L], links.classes)
    found = rates(links, flows)
    assert found.tolist() == pytest.approx(lexicographic(links, flows), rel=1e-6, abs=nothing)


def lexicographic(links: Links, flows: Sequence[Flow]) -> list[float]:
    """The least level of a rank as high as can be, then the second least, ...; rank by rank."""
    weight_F = np.array([links.classes.weight_K[flow.flow_class] for flow in flows])
    takes_LF = np.zeros((len(links.capacity_L), len(flows)))
    for f, flow in enumerate(flows):
        takes_LF[list(flow.links), f] = flow.multiplicity * weight_F[f]
    low_F = np.zeros(len(flows))
    high_F = np.zeros(len(flows))  # flows of later ranks have nothing yet
    for rank in range(links.classes.ranks):
        free = [f for f, one in enumerate(flows) if links.classes.rank_K[one.flow_class] == rank]
        for f in free:
            high_F[f] = flows[f].cap / weight_F[f]
        while free:
            # The variables are the levels and the least of those that are free.
            least = np.zeros((len(free), len(flows) + 1))
            least[np.arange(len(free)), free] = -1
            least[:, -1] = 1
            level = best(links, takes_LF, low_F, high_F, (-1, least))
            low_F[free] = level
            # A flow stays if nobody's loss below the level lets it rise.
            stays = [f for f in free if best(links, takes_LF, low_F, high_F, f) < level + 1e-7]
            assert stays
            low_F[stays] = high_F[stays] = level
            free = [f for f in free if f not in stays]
    levels: FloatArray = low_F * weight_F
    return levels.tolist()


def best(
    links: Links,
    takes_LF: FloatArray,
    low_F: FloatArray,
    high_F: FloatArray,
    goal: int | tuple[int, FloatArray],
) -> float:
    """The highest level of one flow, or of the least of those in the further rows."""
    rows = np.hstack((takes_LF, np.zeros((len(takes_LF), 1))))
    limits = np.array(links.capacity_L, dtype=np.float64)
    wanted = goal
    if isinstance(goal, tuple):
        wanted, further = goal
        rows, limits = np.vstack((rows, further)), np.append(limits, np.zeros(len(further)))
    cost = np.zeros(len(low_F) + 1)
    cost[wanted] = -1
    # What was fixed before may be above what is left by the rounding of the solver.
    floor_F = np.maximum(0, low_F - 1e-9)
    bounds = [*zip(floor_F, high_F, strict=True), (0, None if isinstance(goal, tuple) else 0)]
    done = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds)
    assert done.status == 0
    return float(-done.fun)


@given(st.integers(0, 10**9))
def test_each_flow_has_a_bottleneck_and_no_link_is_overfull(seed: int) -> None:
    links, flows = drawn_world(seed, most=40)
    found = rates(links, flows)
    last = links.classes.ranks - 1
    assert np.all(loads(links, flows, found, last) <= np.array(links.capacity_L) * (1 + 1e-12))
    assert not without_bottleneck(links, flows, found)


@given(st.integers(0, 10**9))
def test_a_later_class_takes_nothing_from_an_earlier_one(seed: int) -> None:
    links, flows = drawn_world(seed, most=20)
    links = Links(links.capacity_L, strict_classes(len(links.classes.rank_K)))
    found = rates(links, flows)
    for rank in range(links.classes.ranks):
        first = [f for f, flow in enumerate(flows) if flow.flow_class <= rank]
        alone = rates(links, [flows[f] for f in first])
        assert alone.tolist() == found[first].tolist()


@given(st.integers(0, 10**9))
def test_the_order_of_flows_changes_nothing_but_rounding(seed: int) -> None:
    links, flows = drawn_world(seed, most=20)
    order = random.Random(seed).sample(range(len(flows)), len(flows))
    found = rates(links, flows)
    assert rates(links, flows).tolist() == found.tolist()
    turned = rates(links, [flows[f] for f in order])
    nothing = 1e-12 * max(links.capacity_L)
    assert turned.tolist() == pytest.approx(found[order].tolist(), rel=1e-12, abs=nothing)


def test_rates_are_rounded_to_less_than_a_promised_share() -> None:
    draw = random.Random(1)
    for _ in range(1000):
        rate = draw.random() * 10 ** draw.randint(-9, 15)
        assert abs(rounded(rate) - rate) <= 2.0**-40 * rate
        assert rounded(rounded(rate)) == rounded(rate)
        whole = float(draw.randint(0, 10**12))
        assert rounded(whole) == whole
    assert rounded(np.inf) == np.inf
    assert rounded(0.0) == 0.0
