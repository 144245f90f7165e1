"""The rounds that a job will run at least: a fit of its loss, corrected by jobs like it.

What
    HLAS-P predicts a few more rounds, conservatively, in three steps: from the loss curve; then
    from the rounds that jobs of its kind ran beyond its present round; then from its place in its
    search. The first is ``warren.predict.remaining_rounds.sure_rounds``, the others are here.
Source
    HLAS (TCC'24), section V-A and Fig. 13.
Differs
    The paper averages alpha, which counts additional rounds, with "practical rounds in history",
    which count all. Here both count additional rounds: of similar jobs that ran more than this one
    has, the number that nine of ten ran more (nearest rank). If none did, history says nothing and
    alpha stands alone; without a curve to fit, or if the fit predicts nothing, history stands
    alone. "It falls far behind others" refers to the speed at which the loss descends, and to no
    number: here a job is far behind if half of the others came to its best value in less than half
    the rounds it has run. The prediction shrinks by the ratio: a job four times as slow is left
    half of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from warren.model.costs import BoolArray, FloatArray
from warren.model.job import Stop
from warren.model.view import Progress

_LOW: Final = 10
"""One job in this number may run less than history predicts."""
_FAR: Final = 2.0
"""Factor in rounds over the others beyond which a job is far behind."""


def beyond(past_rounds: Sequence[int], rounds: int) -> int | None:
    """Return the rounds that nine of ten jobs beyond ``rounds`` ran beyond it; None if none did."""
    # The tenth percentile by nearest rank: the ceil(n / 10)-th least.
    further = sorted(one - rounds for one in past_rounds if one > rounds)
    return further[-(-len(further) // _LOW) - 1] if further else None


def averaged(fit: int | None, past: int | None) -> int:
    """Return the mean of both predictions, in whole rounds; 0 if there is none.

    None: not known. A fit of 0 rounds predicts nothing, which is no reason to halve history's
    rounds.
    """
    known = [one for one in (fit, past) if one]
    return sum(known) // len(known) if known else 0


def standing(stop: Stop, own: Progress, others: Sequence[Progress]) -> float:
    """Return the factor of a prediction, in (0, 1]: 1 unless half of the others are much faster.

    ``own`` and ``others`` are values of ``stop.metric``. A job that has not come as far as this one
    is not ahead of it; a job without a value yet does not count. Of an even number the faster half
    is enough.
    """
    seen = [one for one in others if len(one)]
    if not len(own) or not seen:
        return 1.0
    # After how many rounds each of the others came to this job's best value; their median (the
    # lower one of two) against the rounds that this job has run.
    best = _rising(stop, own).max()
    came = sorted(_first(_rising(stop, one) >= best, one) for one in seen)
    return min(1.0, _FAR * came[(len(came) - 1) // 2] / int(own.rounds_P[-1]))


def target_of(stop: Stop) -> float | None:
    """Return the value at which a job stops; None: its rule states none."""
    return stop.falls_to if stop.reaches is None else stop.reaches


def _first(at_P: BoolArray, progress: Progress) -> float:
    """Return after how many rounds something was so for the first time; infinite: never."""
    return float(progress.rounds_P[at_P.argmax()]) if at_P.any() else math.inf


def _rising(stop: Stop, progress: Progress) -> FloatArray:
    """Return the values, turned so that more is better."""
    return progress.values_P if stop.reaches is not None else -progress.values_P
