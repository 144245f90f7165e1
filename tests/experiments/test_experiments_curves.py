"""Predictions of real curves: better than the last value, and intervals that hold."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from warren.predict.curve import direction_of
from warren.predict.family_error import FamilyError
from warren.predict.forecast import DEFAULT, Settings, forecast

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _curves
import _departures


def test_real_curves_are_predicted_better_than_by_their_last_value(data_dir: Path) -> None:
    ours, last, held = [], [], []
    for real in islice(_curves.real_curves(), 0, None, 6):
        for share in _curves.OBSERVED:
            seen = real.seen(share)
            found = forecast(seen, [real.curve.steps[-1]], 1)
            span = np.ptp(real.curve.values)
            ours.append(abs(found.mean[0] - real.end) / span)
            last.append(abs(seen.values[-1] - real.end) / span)
            held.append(found.low[0] <= real.end <= found.high[0])
    assert len(ours) == 36
    assert np.mean(ours) < 0.7 * np.mean(last)
    assert 0.6 < np.mean(held) < 0.98


def test_every_curve_is_read_as_what_it_is(data_dir: Path) -> None:
    for real in _curves.real_curves():
        assert len(real.curve) >= 20
        falling = real.what in ("error", "perplexity", "training loss", "training RMSE")
        assert direction_of(real.curve) == (-1 if falling else 1), real.name


def test_the_settings_that_ship_are_those_that_were_chosen() -> None:
    found = _common.earlier("predict_curves")["calibrated"]["settings"]
    assert Settings(found["rise"], FamilyError(**found["departure"])) == DEFAULT


def test_the_score_is_the_difference_of_its_two_expectations() -> None:
    values = np.random.default_rng(1).standard_normal((40, 3))
    truth = np.array([0.0, 1.0, 5.0])
    apart = np.abs(values[:, None] - values[None]).mean(axis=(0, 1))
    by_hand = np.abs(values - truth).mean(axis=0) - apart / 2
    assert _departures.crps(values, truth) == pytest.approx(by_hand)


def test_the_rule_takes_the_best_score_of_those_that_hold_enough() -> None:
    def one(rise: float, score: float, held: int) -> _departures.Scores:
        return _departures.Scores(Settings(rise), np.full(10, score), np.arange(10) < held)

    everything = np.ones(10, dtype=bool)
    scores = [one(0.1, 0.5, 7), one(0.2, 0.7, 8), one(0.3, 0.6, 9)]
    assert _departures.chosen(scores, everything).rise == 0.3
    assert _departures.chosen(scores[:2], everything).rise == 0.2
    assert _departures.chosen(scores[:1], everything).rise == 0.1
    assert _departures.chosen(scores, np.arange(10) < 7).rise == 0.1
