"""Curves: what is refused, how points are ordered and thinned, and what is told from them."""

from __future__ import annotations

import numpy as np
import pytest

from warren.model.costs import FloatArray
from warren.predict.curve import (
    binned,
    curve_of,
    direction_of,
    limit_of,
    noise_of,
    part_of,
    shift_of,
    spikes_of,
    until,
)
from warren.predict.curve_kind import CurveKind, named_direction
from warren.predict.forecast import forecast


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
def test_what_is_no_curve_is_reported(steps: list[float], values: list[float], told: str) -> None:
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


STEPS = list(range(1, 201))
DECAY = 2 + 5 * np.exp(-np.arange(1, 201) / 30)
RISE = 0.9 - 0.7 * np.arange(1, 201) ** -0.5


@pytest.mark.parametrize("size", [20.0, 7000.0, 1e12, -50.0])
@pytest.mark.parametrize("at", [[1], [5], [100], [50, 51, 52], [20, 80, 140], [198]])
@pytest.mark.parametrize("values", [DECAY, RISE], ids=["falls", "rises"])
def test_spikes_turn_neither_the_direction_nor_what_is_predicted(
    values: FloatArray, at: list[int], size: float
) -> None:
    spoiled = values.copy()
    spoiled[at] = size
    curve, clean = (curve_of(STEPS, one.tolist()) for one in (spoiled, values))
    assert np.flatnonzero(spikes_of(curve)).tolist() == at
    assert direction_of(curve) == direction_of(clean)
    found, known = forecast(curve, [400.0], 1), forecast(clean, [400.0], 1)
    assert abs(found.mean[0] - known.mean[0]) < 0.05 * np.ptp(values)


@pytest.mark.parametrize("length", [1, 3])
def test_a_spike_at_the_end_on_the_worse_side_is_one(length: int) -> None:
    spoiled = DECAY.copy()
    spoiled[-length:] = 1000.0
    assert spikes_of(curve_of(STEPS, spoiled.tolist())).sum() == length


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a smooth curve", DECAY),
        ("noise", RISE + np.random.default_rng(3).normal(0, 0.05, 200)),
        ("heavy noise", np.random.default_rng(3).standard_t(3, 200)),
        ("a loss that begins high", np.concatenate([[90.0], DECAY[:-1]])),
        ("a level that is new", np.concatenate([np.full(190, 1.0) - RISE[:190] / 100, [0.1] * 10])),
        ("a cut of the rate", np.concatenate([RISE[:50], RISE[:3] * 0 + 2])),
        ("many values far off", np.where(np.arange(200) % 7 == 0, 100.0, DECAY)),
        ("four points", np.array([1.0, 1.0, 9.0, 1.0])),
    ],
)
def test_what_belongs_to_a_curve_is_no_spike(name: str, values: FloatArray) -> None:
    assert not spikes_of(curve_of(STEPS[: len(values)], values.tolist())).any(), name


NAMES = {
    -1: [
            "loss", "val_loss", "eval/loss", "trainLoss", "Training Loss at top-1", "err-top1",
            "word error rate", "WER", "cer", "perplexity", "ppl", "rmse", "mean_absolute_error",
            "MAE", "nll", "bits/byte", "bpc", "FID", "cross_entropy", "negative log likelihood",
            "smape", "1 - accuracy",
    ],
    1: [
            "accuracy", "acc", "val_acc", "top1 accuracy", "top-5", "F1", "f1_score", "AUC",
            "auroc", "BLEU", "rougeL", "mAP", "mIoU", "reward", "episode_return", "exact_match",
            "NDCG@10", "mrr", "psnr", "R2", "neg_mean_squared_error", "neg_log_loss",
            "log_likelihood", "win_rate", "hits@10", "recall", "dice", "elbo",
    ],
    0: ["value", "foo", "person", "lr", "grad_norm", "epoch", ""],
}  # fmt: skip


@pytest.mark.parametrize(("way", "metric"), [(way, name) for way in NAMES for name in NAMES[way]])
def test_a_metrics_name_tells_which_way_is_better(metric: str, way: int) -> None:
    assert named_direction(metric) == way


def test_the_name_of_a_metric_decides_against_its_values() -> None:
    rising = curve_of(STEPS[:40], [3 + 0.01 * step for step in range(40)])
    assert CurveKind("val_loss").direction(rising) == -1
    assert CurveKind("reward").direction(rising) == CurveKind("foo").direction(rising) == 1
    assert CurveKind("loss").direction(curve_of([1, 2], [3, 3])) == 0
    assert forecast(rising, [80.0], 1, CurveKind("loss")).reaches(3.0) > 0
