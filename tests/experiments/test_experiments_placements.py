"""Rings placed side by side: what the evidence page says of them, and the liquids it compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.ring import RingNetwork
from warren.runs.calibration.ring_rounds import plan

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import ring_placements
from _fluid_rings import fluid_round_s_J, shares

HOSTS = st.lists(st.frozensets(st.integers(0, 3), min_size=2, max_size=4), min_size=1, max_size=6)


@pytest.fixture
def fair() -> dict[str, Any]:
    found: dict[str, Any] = _common.earlier("ring_placements")["fair"]
    return found


def test_rings_that_were_not_fitted_are_predicted_to_ten_percent(fair: dict[str, Any]) -> None:
    assert len(fair["rows"]) >= 12
    (stored,) = (name for name in fair["errors"] if "contention" in name and "stored" in name)
    assert fair["errors"][stored]["mean"] <= 0.10


def test_recorded_predictions_are_those_made_now(fair: dict[str, Any]) -> None:
    told = fair["fit"]["ours"]
    network = RingNetwork(
        inner_bytes_per_s=1e9,
        outer_bytes_per_s=told["outer_mbit"] * 1e6 / 8,
        xi1=told["xi1"],
        xi2_s=told["xi2_ms"] / 1e3,
        alpha=told["alpha"],
    )
    (name,) = (one for one in fair["errors"] if one.startswith("contention, ours"))
    for row in fair["rows"]:
        rings = ring_placements.placement(ring_placements.SEED, row["placement"])
        assert [list(one.hosts) for one in rings] == [one["hosts"] for one in row["rings"]]
        between = [len(set(one.hosts)) > 1 for one in rings]
        made = ring_placements.contention(network, rings)[between]
        np.testing.assert_allclose(
            made, np.array(row["predicted_s"][name])[between], rtol=2e-3, atol=2e-4
        )


def test_rounds_between_hosts_last_long_and_are_dominated_by_the_network(
    fair: dict[str, Any],
) -> None:
    for row in fair["rows"]:
        for ring, round_s, share in zip(
            row["rings"], row["round_s"], row["exchange_share"], strict=True
        ):
            if len(set(ring["hosts"])) > 1:
                assert round_s >= 0.3
                assert share >= 0.7


def test_no_placement_is_among_those_that_are_fitted() -> None:
    fitted = plan(4, 23.9e6, quick=False)
    for number in range(ring_placements.PLACEMENTS):
        rings = ring_placements.placement(ring_placements.SEED, number)
        assert 2 <= len(rings) <= 6
        assert sum(len(set(one.hosts)) > 1 for one in rings) >= 2
        assert rings not in fitted


@given(HOSTS)
def test_shares_are_max_min_fair_each_ring_is_the_fastest_on_a_link_that_is_full(
    hosts_J: list[frozenset[int]],
) -> None:
    rates = shares(hosts_J)
    for host in range(4):
        assert sum(rate for rate, on in zip(rates, hosts_J, strict=True) if host in on) < 1 + 1e-9
    for rate, on in zip(rates, hosts_J, strict=True):
        assert any(
            sum(other for other, its in zip(rates, hosts_J, strict=True) if host in its) > 1 - 1e-9
            and all(other <= rate + 1e-9 for other, its in zip(rates, hosts_J, strict=True)
                    if host in its)
            for host in on
        )  # fmt: skip


def test_a_ring_alone_and_rings_that_never_rest_take_what_can_be_counted_by_hand() -> None:
    (alone,) = fluid_round_s_J([(0, 1)], [2e6], [0.1], [0.02], 1e7, 1e9)
    assert alone == pytest.approx(0.1 + 0.02 + 0.2)
    three = fluid_round_s_J([(0, 1)] * 3, [2e6] * 3, [0.0] * 3, [0.0] * 3, 1e7, 1e9)
    np.testing.assert_allclose(three, 0.6, rtol=1e-6)
    chain = fluid_round_s_J(
        [(0, 1), (1, 2), (2, 3), (2, 3)], [2e6] * 4, [0.0] * 4, [0.0] * 4, 1e7, 1e9
    )
    np.testing.assert_allclose(chain, [0.3, 0.6, 0.6, 0.6], rtol=1e-6)
    inside = fluid_round_s_J([(0, 0), (0, 1)], [1e8, 2e6], [0.1, 0.0], [0.0] * 2, 1e7, 1e9)
    np.testing.assert_allclose(inside, [0.2, 0.2], rtol=1e-6)
