"""Both readings fitted to rounds made from a known network, and what such rounds cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.ring import RingJobs, RingNetwork, round_at_s_J
from warren.cost.ring_fit import RingPoints
from warren.cost.ring_readings import (
    errors,
    fit_network,
    fit_readings,
    inner_bytes_per_s,
    unsure,
)

INNER = 1e9


def network(reading: str, xi1: float, alpha: float, xi2_s: float = 0.004) -> RingNetwork:
    return RingNetwork(
        inner_bytes_per_s=INNER,
        outer_bytes_per_s=24e6,
        xi1=xi1,
        xi2_s=xi2_s,
        alpha=alpha,
        reading=reading,  # type: ignore[arg-type]
    )


def points(truth: RingNetwork, most: int = 8, sizes: tuple[float, ...] = (1e6, 4e6)) -> RingPoints:
    """All numbers of rings, sizes and spans; times by the forward model."""
    rows = [
        (size, rings, hosts, comp_s)
        for size in sizes
        for rings in range(1, most + 1)
        for hosts, comp_s in ((2, 0.0), (4, 0.0), (4, 0.03))
    ]
    size_N, rings_N, hosts_N, comp_s_N = (np.array(one) for one in zip(*rows, strict=True))
    jobs = RingJobs(model_bytes_J=size_N, workers_J=hosts_N, comp_s_J=comp_s_N)
    return RingPoints(
        time_s_N=round_at_s_J(truth, jobs, rings_N, hosts_N),
        message_bytes_N=size_N,
        contenders_N=rings_N,
        workers_N=hosts_N,
        servers_N=hosts_N,
        comp_s_N=comp_s_N,
    )


def noisy(known: RingPoints, share: float, seed: int = 1) -> RingPoints:
    noise_N = np.random.default_rng(seed).normal(0, share, len(known.time_s_N))
    return replace(known, time_s_N=known.time_s_N * np.exp(noise_N))


@given(st.floats(0.2, 1), st.floats(0, 1.5), st.floats(0, 0.01))
def test_published_times_give_back_the_network_they_were_made_from(
    xi1: float, alpha: float, xi2_s: float
) -> None:
    truth = network("published", xi1, alpha, xi2_s)
    found = fit_network("published", points(truth), INNER)
    assert np.abs(errors(found, points(truth))).max() < 0.004
    assert found.outer_bytes_per_s == pytest.approx(24e6, rel=0.01)
    assert found.xi1 * (1 + found.alpha) == pytest.approx(xi1 * (1 + alpha), rel=0.02)
    assert found.xi2_s == pytest.approx(xi2_s, abs=5e-4)


@pytest.mark.parametrize(
    "truth", [network("published", 0.4, 0.5), network("ours", 0.6, 0.0), network("ours", 1.0, 0.2)]
)
def test_three_percent_of_noise_leave_the_stored_fit_within_three_percent(
    truth: RingNetwork,
) -> None:
    stored = next(iter(fit_readings(noisy(points(truth), 0.03), INNER).values()))
    assert np.abs(errors(stored.network, points(truth))).mean() < 0.03
    assert 0.01 < stored.mean_error < 0.04


def test_the_better_reading_is_stored() -> None:
    late = points(network("published", 0.3, 0.0))  # nothing is felt before a fourth ring
    early = points(network("ours", 0.5, 0.0))  # half of each is felt from the second on
    assert next(iter(fit_readings(late, INNER))) == "published"
    assert next(iter(fit_readings(early, INNER))) == "ours"


def test_no_neighbor_of_the_published_fit_has_smaller_squares() -> None:
    known = noisy(points(network("published", 0.4, 0.5)), 0.05)
    found = fit_network("published", known, INNER)

    def squares(one: RingNetwork) -> float:
        return float((errors(one, known) ** 2).sum())

    for name in ("xi1", "alpha", "outer_bytes_per_s", "xi2_s"):
        for factor in (0.98, 1.02):
            other = replace(found, **{name: min(factor * getattr(found, name), 1e12)})
            assert squares(other) > squares(found) * (1 - 1e-9)


def test_a_point_left_out_is_predicted_by_the_others_alone() -> None:
    known = points(network("ours", 0.8, 0.0))
    wrong_N = known.time_s_N.copy()
    wrong_N[5] *= 2
    fit = fit_readings(replace(known, time_s_N=wrong_N), INNER)["ours"]
    assert fit.left_out_N[5] == pytest.approx(-0.5, abs=1e-3)
    assert abs(fit.left_out_N[5]) > abs(fit.error_N[5]) - 1e-12


def test_without_two_numbers_of_rings_nothing_is_reported_of_contention() -> None:
    known = points(network("ours", 0.8, 0.0), most=1)
    with pytest.raises(ValueError, match="contender"):
        fit_readings(known, INNER)


def test_what_cannot_be_reported_is_said() -> None:
    many = points(network("ours", 0.8, 0.0))
    assert [one.split(":")[0] for one in unsure(many, "ours")] == ["xi1 and alpha"]
    assert unsure(many, "published") == []
    narrow = many.where((many.servers_N == 4) & (many.message_bytes_N == 1e6))
    crowded = narrow.where(narrow.contenders_N > 1)
    assert [one.split(":")[0] for one in unsure(crowded, "published")] == [
        "xi2",
        "b^e",
        "xi2 by hosts",
    ]


def test_the_rate_within_a_host_is_what_a_ring_there_carries_beside_its_compute_time() -> None:
    jobs = RingJobs(
        model_bytes_J=np.array([8e6, 8e6, 8e6]),
        workers_J=np.array([2, 2, 4]),
        comp_s_J=np.array([0.0, 0.1, 0.0]),
    )
    assert inner_bytes_per_s(jobs, np.array([0.008, 0.108, 0.012])) == pytest.approx(1e9)
    none = RingJobs(
        model_bytes_J=np.empty(0), workers_J=np.empty(0, dtype=np.int64), comp_s_J=np.empty(0)
    )
    assert inner_bytes_per_s(none, np.empty(0)) == 0
