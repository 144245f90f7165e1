"""The fit of a ring's network: on times made from a known one, and on the paper's two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cost.ring import RingJobs, RingNetwork, contenders_J, round_s_J
from warren.cost.ring_fit import RingPoints, fit_ring
from warren.model.costs import FloatArray

SIZES = (1e6, 5e6, 2e7, 8e7)
FIELDS = ("time_s_N", "message_bytes_N", "contenders_N", "workers_N", "servers_N", "comp_s_N")


def spread(jobs: int, workers: int = 4) -> np.ndarray:
    """So many jobs, each with one worker on each of so many servers."""
    return np.ones((jobs, workers), dtype=np.int64)


def times_s(network: RingNetwork, size: float, jobs: int, comp_s: float, workers: int) -> float:
    """By the placement, not by p: what the forward model says of the first of equal jobs."""
    every = RingJobs(
        model_bytes_J=np.full(jobs, size),
        workers_J=np.full(jobs, workers),
        comp_s_J=np.full(jobs, comp_s),
    )
    return float(round_s_J(network, every, spread(jobs, workers))[0])


def points(
    network: RingNetwork, comp_s: float = 0.0, most: int = 8, workers: tuple[int, ...] = (4,)
) -> RingPoints:
    rows = [
        (times_s(network, size, jobs, comp_s, count), size, jobs, count, count, comp_s)
        for count in workers
        for size in SIZES
        for jobs in range(1, most + 1)
    ]
    return of_rows(rows)


def of_rows(rows: list[tuple[float, float, int, int, int, float]]) -> RingPoints:
    return RingPoints(
        **{name: np.array(one) for name, one in zip(FIELDS, zip(*rows, strict=True), strict=True)}
    )


def network(slope: float = 0.8, xi2_s: float = 0.004, reduce: float = np.inf) -> RingNetwork:
    return RingNetwork(
        inner_bytes_per_s=1e11,
        outer_bytes_per_s=1.2e9,
        xi1=min(1.0, slope),
        xi2_s=xi2_s,
        alpha=max(0.0, slope - 1),
        reduce_bytes_per_s=reduce,
    )


def noisy(known: RingPoints, share: float, seed: int = 1) -> RingPoints:
    noise_N: FloatArray = np.random.default_rng(seed).normal(0, share, len(known.time_s_N))
    return replace(known, time_s_N=known.time_s_N * np.exp(noise_N))


@given(st.floats(0, 3), st.floats(0, 0.1), st.floats(1e8, 1e12), st.floats(0, 2))
def test_the_fit_recovers_what_the_times_were_made_from(
    slope: float, xi2_s: float, reduce: float, comp_s: float
) -> None:
    truth = network(slope, xi2_s, reduce)
    found = fit_ring(points(truth, comp_s), reduce)
    assert found.slope == pytest.approx(slope, rel=1e-4, abs=1e-6)
    assert found.xi2_s == pytest.approx(xi2_s, rel=1e-4, abs=1e-6)
    assert found.outer_bytes_per_s == pytest.approx(truth.outer_bytes_per_s, rel=1e-4)
    assert np.abs(found.error_N).max() < 1e-6


def test_three_percent_of_noise_move_the_fit_by_few_percent_and_to_no_side() -> None:
    """As much noise as real tables have. The time of each further contender is the surest."""
    once = points(network())
    fits = [fit_ring(noisy(once, 0.03, seed)) for seed in range(100)]
    slope = np.array([fit.slope for fit in fits]) / 0.8
    rate = np.array([fit.outer_bytes_per_s for fit in fits]) / 1.2e9
    xi2_s = np.array([fit.xi2_s for fit in fits]) / 0.004
    for found, most in ((slope, 0.05), (rate, 0.03), (slope / rate, 0.02), (xi2_s, 0.1)):
        assert found.mean() == pytest.approx(1, abs=0.01)
        assert found.std() < most
    assert np.mean([np.abs(fit.error_N).mean() for fit in fits]) < 0.03


def test_of_xi1_and_alpha_only_the_slope_can_be_reported() -> None:
    """xi1 (1 + alpha) = 0.9 three times over: the same times, hence the same fit."""
    pairs = [(0.9, 0.0), (0.6, 0.5), (0.3, 2.0)]
    made = [points(replace(network(), xi1=xi1, alpha=alpha)) for xi1, alpha in pairs]
    for one in made[1:]:
        assert one.time_s_N == pytest.approx(made[0].time_s_N, rel=1e-12)
    assert fit_ring(made[2]).slope == pytest.approx(0.9)
    assert fit_ring(made[2]).network(1e11).xi1 == pytest.approx(0.9)


def test_a_slope_above_1_is_more_than_equal_sharing() -> None:
    fitted = fit_ring(points(network(slope=1.7))).network(1e11)
    assert (fitted.xi1, fitted.reading) == (1.0, "ours")
    assert fitted.alpha == pytest.approx(0.7)


def test_rings_of_several_lengths_tell_overhead_by_server_from_compute_time() -> None:
    """Without being told of 0.5 s of compute, xi2 takes it all, if all use four servers."""
    truth = network()
    told = fit_ring(points(truth, comp_s=0.5))
    assert told.xi2_s == pytest.approx(0.004)
    hidden = points(truth, comp_s=0.5)
    hidden = replace(hidden, comp_s_N=np.zeros_like(hidden.comp_s_N))
    assert fit_ring(hidden).xi2_s == pytest.approx(0.004 + 0.5 / 4)
    lengths = points(truth, workers=(2, 4, 8))
    assert fit_ring(lengths).xi2_s == pytest.approx(0.004)


def test_the_fit_counts_a_repeated_point_by_its_median() -> None:
    once = points(network())
    rows = [[float(value) for value in getattr(once, name)] * 3 for name in FIELDS]
    thrice = RingPoints(
        time_s_N=np.array(rows[0]),
        message_bytes_N=np.array(rows[1]),
        contenders_N=np.array(rows[2], dtype=np.int64),
        workers_N=np.array(rows[3], dtype=np.int64),
        servers_N=np.array(rows[4], dtype=np.int64),
        comp_s_N=np.array(rows[5]),
    )
    thrice.time_s_N[:: len(once.time_s_N)] *= np.array([1, 50, 0.9])
    found = fit_ring(thrice)
    assert found.slope == pytest.approx(0.8)
    assert len(found.error_N) == 96


def test_a_time_twenty_times_too_long_moves_the_slope_by_little() -> None:
    once = noisy(points(network()), 0.01)
    calm = fit_ring(once)
    once.time_s_N[[10, 21]] *= 20
    disturbed = fit_ring(once)
    assert disturbed.slope == pytest.approx(calm.slope, rel=0.03)
    assert disturbed.outer_bytes_per_s == pytest.approx(calm.outer_bytes_per_s, rel=0.03)


def paper(comp_s: float) -> RingPoints:
    """Section 1: 295 s alone, 675 s each of four jobs of four workers, across four servers."""
    assert contenders_J(spread(4)).tolist() == [4] * 4
    return of_rows([(295.0, 1e9, 1, 4, 4, comp_s), (675.0, 1e9, 4, 4, 4, comp_s)])


@pytest.mark.parametrize("share", [1.0, 0.7, 0.43])
def test_one_slope_gives_295_s_alone_and_675_s_with_three_others(share: float) -> None:
    comp_s = 295 * (1 - share)
    found = fit_ring(paper(comp_s))
    assert found.slope == pytest.approx((675 / 295 - 1) / 3 / share)
    fitted = found.network(1e11)
    assert times_s(fitted, 1e9, 1, comp_s, 4) == pytest.approx(295)
    assert times_s(fitted, 1e9, 4, comp_s, 4) == pytest.approx(675)


def test_what_295_s_and_675_s_mean_hangs_on_the_share_of_transfer() -> None:
    """The readings in the head of `ring_fit`."""
    assert fit_ring(paper(0.0)).slope == pytest.approx(0.4294, abs=5e-5)
    assert fit_ring(paper(295 * (1 - 0.4294))).slope == pytest.approx(1, abs=5e-4)
    assert fit_ring(paper(295 * (1 - 0.6553))).slope == pytest.approx(0.6553, abs=5e-4)


def test_points_that_cannot_tell_contention_are_refused() -> None:
    known = points(network())
    alone = known.where(known.contenders_N == 1)
    with pytest.raises(ValueError, match="more than one contender"):
        fit_ring(alone)
    with pytest.raises(ValueError, match="differ in their contenders"):
        fit_ring(known.where(known.contenders_N == 4))
    with pytest.raises(ValueError, match="leave it out"):
        replace(alone, servers_N=np.ones_like(alone.servers_N))
    with pytest.raises(ValueError, match="above 0"):
        replace(alone, time_s_N=alone.time_s_N * 0)
    with pytest.raises(ValueError, match="one length"):
        replace(alone, comp_s_N=np.zeros(3))
