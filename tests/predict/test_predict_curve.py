"""Curves: what is refused, how points are ordered and thinned, and what is told from them."""

from __future__ import annotations

import numpy as np
import pytest

from warren.predict.curve import (
    binned,
    curve_of,
    direction_of,
    limit_of,
    noise_of,
    part_of,
    shift_of,
    until,
)


def test_points_come_in_any_order_and_a_step_with_several_values_gets_their_mean() -> None:
    curve = curve_of([3, 1, 3, 2], [0.5, 0.1, 0.7, 0.2])
    assert curve.steps.tolist() == [1, 2, 3]
    assert curve.values == pytest.approx([0.1, 0.2, 0.6])


@pytest.mark.parametrize(
    ("steps", "values", "told"),
    [
        ([1, 2, 3], [0.1, float("nan"), 0.3], "point 2: value nan is not finite"),
        ([1, float("inf"), 3], [0.1, 0.2, 0.3], "point 2: step inf is not finite"),
        ([4, 4], [0.1, 0.2], "1 different steps; a prediction needs 2"),
        ([], [], "0 different steps"),
        ([1, 2], [0.1], "steps but"),
    ],
)
def test_what_is_no_curve_is_told(steps: list[float], values: list[float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        curve_of(steps, values)


def test_a_part_keeps_the_points_up_to_a_step() -> None:
    curve = curve_of([1, 2, 3, 4], [1, 2, 3, 4])
    assert until(curve, 3).steps.tolist() == [1, 2, 3]
    assert len(until(curve, 3.5)) == 3
    with pytest.raises(ValueError, match="leaves 1 of 4 points; from step 2 on it is 2"):
        until(curve, 1.9)


def test_a_share_of_points_hides_no_fewer_than_the_rest() -> None:
    assert [part_of(20, share) for share in (0.1, 0.3, 0.5)] == [2, 6, 10]
    assert [part_of(100, share / 100) for share in range(101)] == list(range(101))
    assert part_of(29, 0.1) == 2


@pytest.mark.parametrize(
    ("values", "way", "limit"),
    [([0.1, 0.9], 1, 1), ([0.1, 1.5], 1, 100), ([10, 90], 1, 100), ([10, 190], 1, None),
     ([-0.1, 0.5], 1, None), ([9, 2], -1, 0), ([9, -2], -1, None), ([2, 2], 0, None)],
)  # fmt: skip
def test_accuracies_end_at_1_or_100_and_losses_at_0(
    values: list[float], way: int, limit: float | None
) -> None:
    assert limit_of(curve_of([1, 2], values), way) == limit


@pytest.mark.parametrize(
    ("steps", "shift"),
    [([0, 1, 2], 1), ([1, 2, 3], 0), ([390, 781, 1172], 1), ([5000, 5010, 5020], 0), ([-4, 0], 8)],
)
def test_steps_begin_one_distance_above_0(steps: list[float], shift: float) -> None:
    assert shift_of(curve_of(steps, range(len(steps)))) == shift


def test_direction_is_that_of_the_whole_and_not_of_the_ends() -> None:
    assert direction_of(curve_of(range(6), [0.1, 0.5, 0.7, 0.8, 0.82, 0.05])) == 1
    assert direction_of(curve_of(range(5), [3, 2, 1.5, 1.4, 1.6])) == -1
    assert direction_of(curve_of(range(5), [2] * 5)) == 0


def test_noise_is_found_in_spite_of_trend_and_jumps() -> None:
    random = np.random.default_rng(1)
    steps = np.arange(1, 2001)
    values = np.log(steps) + np.where(steps > 1500, 2.0, 0.0) + 0.1 * random.standard_normal(2000)
    assert noise_of(curve_of(steps, values)) == pytest.approx(0.1, rel=0.1)
    assert noise_of(curve_of([1, 2, 3], [1, 5, 2])) == 0
    assert noise_of(curve_of(range(9), range(9))) == pytest.approx(0, abs=1e-12)


def test_bins_keep_all_points_and_their_mean() -> None:
    z = np.arange(1, 3001) / 3000
    y = np.sin(7 * z)
    bins = binned(z, y)
    assert len(bins.z) <= 48
    assert bins.count.sum() == 3000
    assert bins.y @ bins.count == pytest.approx(y.sum())
    assert np.all(np.diff(bins.z) > 0)
    assert bins.z[0] == pytest.approx(z[0])
    few = binned(z[:40], y[:40])
    assert few.z.tolist() == z[:40].tolist()
    assert few.count.tolist() == [1.0] * 40
