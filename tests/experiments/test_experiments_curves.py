"""Predictions of real curves: better than the last value, and intervals that hold."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from warren.predict.curve import direction_of
from warren.predict.forecast import DEFAULT, Settings, forecast
from warren.predict.late_rise import LateRise

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _curves
import _family_curves
import _late_rises


def test_real_curves_are_predicted_better_than_by_their_last_value(data_dir: Path) -> None:
    ours, last, held = [], [], []
    for real in islice(_curves.real_curves(), 0, None, 6):
        for share in _curves.OBSERVED:
            seen = real.seen(share)
            found = forecast(seen, [real.curve.steps[-1]], 1, real.kind)
            span = np.ptp(real.curve.values)
            ours.append(abs(found.mean[0] - real.end) / span)
            last.append(abs(seen.values[-1] - real.end) / span)
            held.append(found.low[0] <= real.end <= found.high[0])
    assert len(ours) == 36
    assert np.mean(ours) < 0.5 * np.mean(last)
    assert 0.6 < np.mean(held) < 0.98


def test_every_curve_is_read_as_what_it_is(data_dir: Path) -> None:
    for real in _curves.real_curves():
        assert len(real.curve) >= 20
        falling = real.what in ("error", "perplexity", "training loss", "training RMSE")
        assert direction_of(real.curve) == (-1 if falling else 1), real.name


def test_the_settings_that_ship_are_those_that_were_chosen() -> None:
    found = _common.earlier("predict_curves")["calibrated"]["settings"]
    assert Settings(found["rise"], LateRise(**found["late"])) == DEFAULT


def test_the_score_is_the_difference_of_its_two_expectations() -> None:
    values = np.random.default_rng(1).standard_normal((40, 3))
    truth = np.array([0.0, 1.0, 5.0])
    apart = np.abs(values[:, None] - values[None]).mean(axis=(0, 1))
    by_hand = np.abs(values - truth).mean(axis=0) - apart / 2
    assert _late_rises.crps(values, truth) == pytest.approx(by_hand)


def test_the_rule_takes_the_least_error_of_those_that_families_allow() -> None:
    error = np.ones((len(_late_rises.RISES), 10))
    error[7], error[9], error[11, :5] = 0.3, 0.5, 0.0
    allowed = np.ones(len(error), dtype=bool)
    everything = np.ones(10, dtype=bool)
    found = _late_rises.chosen(_late_rises.Scores(error, allowed), everything)
    assert found == _late_rises.RISES[7]
    allowed[7] = False
    scores = _late_rises.Scores(error, allowed)
    assert _late_rises.chosen(scores, everything) in (_late_rises.RISES[9], _late_rises.RISES[11])
    assert _late_rises.chosen(scores, np.arange(10) < 5) == _late_rises.RISES[11]


def test_a_log_states_its_schedule() -> None:
    assert _curves.cuts_of("Namespace(lr_decay_epoch='100,150', lr=0.1)") == (100.0, 150.0)
    assert _curves.cuts_of("lr_mode='cosine', lr_decay_epoch='40,60'") is None
    assert _curves.cuts_of("[Epoch 0] train=0.1") is None


def test_curves_of_the_families_are_accuracies_and_losses() -> None:
    for drawn in _family_curves.family_curves(1, each=2):
        assert 0 <= drawn.end <= 1
        assert direction_of(drawn.curve) == 1
        turned = drawn.falling()
        assert direction_of(turned.curve) == -1
        assert turned.end == pytest.approx(3 * (1.2 - drawn.end))
