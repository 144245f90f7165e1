"""Rounds that are called sure on real curves: few are too many, and there are some."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np

from warren.model.view import Progress
from warren.predict.remaining_rounds import CAUTION, Cautiousness, sure_rounds

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _curves
import _remaining


def test_sure_rounds_of_real_curves_are_seldom_too_many(data_dir: Path) -> None:
    every = _remaining.cases(list(islice(_curves.real_curves(), 0, None, 6)))
    ratio = np.array([sure_rounds(one.progress, one.target) / one.left for one in every])
    assert len(every) > 150
    assert np.mean(ratio > 1) <= _remaining.LIMIT
    assert np.mean(ratio > 0) > 0.7
    assert np.mean(ratio[ratio > 0]) > 0.15


def test_the_constants_that_ship_are_those_that_were_chosen_on_half_of_the_files() -> None:
    found = _common.earlier("remaining_rounds")["chosen"]["half"]["caution"]
    assert Cautiousness(**found) == CAUTION


def test_on_files_that_were_not_chosen_on_at_most_five_percent_are_too_many() -> None:
    parts = _common.earlier("remaining_rounds")
    other = ~np.array(parts["cases"]["tuned"])
    sure, left = np.array(parts["shipped"]["rounds"]), np.array(parts["cases"]["left"])
    assert np.mean((sure > left)[other]) <= _remaining.LIMIT


def case(left: int) -> _remaining.Case:
    """After 100 rounds at 1, 0.1 less in each: the trend is 10.5 rounds to a target of -0.05."""
    k = np.arange(1, 101)
    return _remaining.Case(0, 0.5, 1.0, Progress(k, 11 - 0.1 * k), -0.05, left)


def test_the_rule_takes_the_most_of_the_true_rounds_that_is_seldom_too_many() -> None:
    choose = _remaining.chooser([case(left) for left in [10] * 24 + [6]])
    found, worth = choose(np.ones(25, dtype=bool))
    assert (found.trend, found.ahead, worth) == (1.0, 0.1, 1.0)
    found, _ = choose(np.arange(25) >= 5)  # one of 20 is more than seldom
    assert int(min(found.trend * 10.5, found.ahead * 100)) == 6


def test_cases_are_targets_that_are_first_reached_after_what_is_seen() -> None:
    values = np.array([5.0, 4, 3, 3, 2, 2.5, 1, 1, 1, 1])
    real = _curves.Real("d", "n", "loss", None, _curves.Curve(np.arange(10.0), values))
    found = [(one.seen, one.target, one.left) for one in _remaining.cases([real])]
    assert found == [
        (0.1, 2.0, 4), (0.1, 1.0, 6), (0.2, 2.0, 3), (0.2, 1.0, 5), (0.3, 2.0, 2), (0.3, 1.0, 4),
        (0.5, 1.0, 2),
    ]  # fmt: skip
