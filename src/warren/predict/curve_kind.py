"""The kind of a curve, as far as a job states it: its metric's name, and cuts of its rate.

Accuracies of classifiers rise again late, when the learning rate is lowered; losses, perplexities
and scores of text hardly do unless a schedule says so. ``warren.predict.late_rise`` makes
probabilities of it. If no name is stated, a curve that rises to a limit counts as an accuracy, a
falling one as a loss, or, within 0 to 1, as an error rate.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from warren.model.costs import BoolArray, FloatArray
from warren.model.job import Job
from warren.predict.curve import Curve, direction_of, limit_of

Measure = Literal["accuracy", "score", "loss", "perplexity"]

# The first pattern that a name has decides, so that "training loss at top-1" is a loss.
_NAMES: Final[tuple[tuple[Measure, re.Pattern[str]], ...]] = (
    ("perplexity", re.compile(r"ppl|perplexity", re.IGNORECASE)),
    ("loss", re.compile(r"loss|cost|entropy|nll|[mr]mse|\bmse|\bmae\b", re.IGNORECASE)),
    ("accuracy", re.compile(r"acc|top[-_ ]?[15]|err", re.IGNORECASE)),
    ("score", re.compile(r"f1|map\b|bleu|rouge|auc|iou|exact|reward|score|\bwer\b", re.IGNORECASE)),
)

# Words of names whose values get better as they fall, or as they rise. The first kind counts first:
# "top-1 error" is an error, "loss at top-1" a loss.
_FALLS: Final = re.compile(
    r"loss|cost|entropy|xent|perplexity|error|deviation|regret|(?:^| )(?:err|errs|ppl|nll|wer|cer|"
    r"ter|per|eer|mer|bpc|bpb|bpw|bits?|[nr]*m[as]e|s?mape|bce|ce|fid|kid|lpips|misses|"
    r"failures?|mistakes?|misclassifi\w*|brier|ece|fpr|fnr|rmsle|msle|rank)(?: |$)"
)
_RISES: Final = re.compile(
    r"acc|precision|recall|reward|return|score|likelihood|success|correct|exact|bleu|rouge|meteor|"
    r"cider|ndcg|dice|jaccard|kappa|similarity|correlation|spearman|pearson|accuracy|"
    r"(?:^| )(?:top ?\d+|f ?\d|f ?beta|auc|roc|auroc|auprc|aucpr|m?ap|m?iou|em|mrr|mcc|r ?2|psnr|"
    r"ssim|elo|wins?|winrate|hits?|elbo|logp|sensitivity|specificity|tpr|tnr|chrf)(?: |$)"
)
_TURNED: Final = re.compile(r"(?:^| )(?:neg|negative|minus)(?: |$)|^1 ?- ")
"""A name that begins like this, or has one of these words, means the opposite of the rest."""


def named_direction(metric: str) -> int:
    """Return 1 if a metric of this name gets better as it rises, -1 as it falls, 0: not known."""
    # ``evalLoss`` and ``eval/loss`` are two words; digits stay at their word: ``f1``, ``top5``.
    spaced = re.sub(r"(?<=[a-z][a-z])(?=[A-Z])", " ", metric)
    plain = re.sub(r"[^a-z0-9-]+", " ", spaced.lower())
    words = re.sub(r"(?<=[a-z0-9])-(?=[a-z0-9])", " ", plain).strip()
    found = -1 if _FALLS.search(words) else 1 if _RISES.search(words) else 0
    return -found if _TURNED.search(words) else found


@dataclass(frozen=True, slots=True)
class CurveKind:
    """The stated facts of a curve; None: not stated.

    ``metric``: its name, such as ``top1 accuracy`` or ``loss``. ``cuts``: the steps from which on
    the learning rate is lower, of the curve's own unit; empty: it never is.
    """

    metric: str | None = None
    cuts: tuple[float, ...] | None = None

    def direction(self, curve: Curve) -> int:
        """Return 1 if better is higher, -1 if lower: by the metric's name, else by the values.

        0 where all values are equal.
        """
        found = direction_of(curve)
        named = 0 if self.metric is None else named_direction(self.metric)
        # No accuracy is below 0: values that are belong to something else than the name says.
        if found == 0 or (self.measure(curve, found) == "accuracy" and curve.values.min() < 0):
            return found
        return named or found

    def measure(self, curve: Curve, direction: int) -> Measure:
        """Return the quantity that the metric measures: by its name, otherwise by the values."""
        for measure, pattern in _NAMES:
            if self.metric is not None and pattern.search(self.metric):
                return measure
        # A metric that falls from below 1 is an error rate; losses begin higher, and accuracies
        # have limits.
        limited = limit_of(curve, direction) is not None
        high = float(curve.values.max())
        return "accuracy" if limited and (direction > 0 or high <= 1) else "loss"

    def in_logs(self, curve: Curve) -> bool:
        """Tell whether the logarithm is the curve: a perplexity's, which is a loss."""
        named = self.metric is not None and _NAMES[0][1].search(self.metric)
        return bool(named) and float(curve.values.min()) >= 1

    def next_cut(self, last: float) -> float:
        """Return the first cut after a step; infinite where none is stated."""
        return min((one for one in self.cuts or () if one > last), default=math.inf)

    def cut_between(self, last: float, at_a: FloatArray) -> BoolArray | None:
        """Tell for each step whether a cut lies after the last one and not after it."""
        if self.cuts is None:
            return None
        ahead = np.array([one for one in self.cuts if one > last])
        return np.asarray((ahead[:, None] <= at_a).any(axis=0))


UNSTATED: Final = CurveKind()


def kind_of(job: Job) -> CurveKind:
    """Return a job's statements about the curve of its stop rule's metric, in rounds."""
    metric = None if job.stop is None else job.stop.metric
    # A value after round n has seen no lower rate yet, where the rate is lowered after round n.
    cuts = None if job.schedule is None else tuple(step + 1.0 for step in job.schedule.steps)
    return CurveKind(metric, cuts)


def parse_cuts(text: str | None) -> tuple[float, ...] | None:
    """Return the steps of ``100,150``, none of ``none``; None if nothing is stated.

    Raises
    ------
    ValueError
        If it is neither; the message says what is allowed.
    """
    if text is None:
        return None
    if text.strip() == "none":
        return ()
    try:
        found = tuple(float(step) for step in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(math.isfinite(step) for step in found):
        raise ValueError(f"{text!r} is neither steps, such as 100,150, nor none")
    return found


def whole_of(curve: Curve, direction: int) -> float | None:
    """Return the largest accuracy or error, 1 or 100; None if the values show neither."""
    limit = limit_of(curve, direction)
    if limit is None or direction > 0:
        return limit
    high = float(curve.values.max())
    return 1.0 if high <= 1 else 100.0 if high <= 100 else None
