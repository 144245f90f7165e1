"""One slope of contention fits measured all-reduces of 1 to 16 jobs, as the evidence page says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warren.cost.ring_fit import RingPoints, fit_ring

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import ring_tables


@pytest.fixture
def averaged(data_dir: Path) -> RingPoints:
    return ring_tables.read(data_dir / "profiles" / "hkbu_contention" / "results_avg.csv")


def test_one_slope_fits_measured_all_reduces_to_three_percent(averaged: RingPoints) -> None:
    found = fit_ring(averaged)
    assert 0.9 < found.slope < 1.05
    assert np.abs(found.error_N).mean() < 0.03
    assert np.abs(found.error_N).max() < 0.12


def test_the_recorded_fit_is_the_one_made_now(averaged: RingPoints) -> None:
    recorded = _common.earlier("ring_tables")["averaged"]["least_squares"]
    made = ring_tables._judged(fit_ring, averaged)
    assert made["slope"] == pytest.approx(recorded["slope"], abs=2e-4)
    assert made["left_out"]["largest"] == pytest.approx(recorded["left_out"]["largest"], abs=2e-4)


def test_equal_parts_fit_measured_all_reduces_as_well_as_a_fitted_slope(
    averaged: RingPoints,
) -> None:
    """The fluid model has two unknowns, contention three."""
    found = ring_tables.fluid(averaged)
    assert np.abs(found.error_N).mean() < 0.03
    assert np.abs(found.error_N).max() < 0.12


def test_a_job_alone_predicts_several_to_a_fifth_and_mostly_too_short(
    averaged: RingPoints,
) -> None:
    error_N = ring_tables.fluid_alone(averaged).error_N[averaged.contenders_N > 1]
    assert np.abs(error_N).max() < 0.2
    assert (error_N < 0).mean() > 0.9


def test_the_recorded_fluid_fits_are_those_made_now(averaged: RingPoints) -> None:
    recorded = _common.earlier("ring_tables")["averaged"]
    for name, fit in (("fluid", ring_tables.fluid), ("fluid_alone", ring_tables.fluid_alone)):
        made = np.abs(fit(averaged).error_N)
        assert made.mean() == pytest.approx(recorded[name]["all"]["mean"], abs=2e-4)
        assert made.max() == pytest.approx(recorded[name]["all"]["largest"], abs=2e-4)


def test_least_squares_of_equal_parts_are_smaller_than_any_neighbors(
    averaged: RingPoints,
) -> None:
    found = ring_tables.fluid(averaged)
    least = (found.error_N**2).sum()
    for name in ("outer_bytes_per_s", "xi2_s"):
        for factor in (0.99, 1.01):
            other = replace(found, **{name: factor * getattr(found, name)})
            assert (other.errors(averaged) ** 2).sum() > least


def test_least_absolute_errors_have_a_smaller_sum_than_any_neighbor(averaged: RingPoints) -> None:
    found = ring_tables.least_absolute(averaged)
    least = np.abs(found.error_N).sum()
    assert least < np.abs(fit_ring(averaged).error_N).sum()
    for name in ("outer_bytes_per_s", "xi2_s", "slope"):
        for factor in (0.99, 1.01):
            other = replace(found, **{name: factor * getattr(found, name)})
            assert np.abs(other.errors(averaged)).sum() > least


def test_a_job_alone_is_slower_by_about_its_share_for_each_contender(averaged: RingPoints) -> None:
    """The figures in the head of `ring_fit`: 0.91 to 1.12 of the time alone, at 40 MiB."""
    large = averaged.where(averaged.message_bytes_N == 40 * 2**20)
    alone_s = float(large.time_s_N[large.contenders_N == 1][0])
    several = large.where(large.contenders_N > 1)
    by = (several.time_s_N / alone_s - 1) / (several.contenders_N - 1)
    assert (round(by.min(), 2), round(by.max(), 2)) == (0.91, 1.12)
