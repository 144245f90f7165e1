"""The picture of a prediction: points seen, points to come, mean and band."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from warren.cli.views.pictures import new_picture, save_picture
from warren.report.figures.drawing import DARK, GREY, ORANGE
from warren.runs.studies.learning_curve import CurvePrediction

_DRAWN: Final = 121
"""Steps at which the mean and the band are drawn."""


def draw_curve(path: Path, prediction: CurvePrediction) -> None:
    """Draw the observed points, the later points of the file, and the prediction.

    Raises SpecError if the file cannot be written.
    """
    whole = prediction.whole
    seen = prediction.observed
    target = prediction.target
    found = prediction.band(_DRAWN)
    figure, axes = new_picture()
    # The file's points between the last observed one and the predicted step show how good the
    # prediction is. Points beyond that step would only shrink the part that matters.
    later = whole.steps > seen.steps[-1]
    within = later & (whole.steps <= found.at[-1])
    axes.fill_between(
        found.at, found.low, found.high, color=DARK, alpha=0.18, linewidth=0, label="80 % of values"
    )
    axes.plot(found.at, found.mean, color=DARK, label="mean predicted")
    axes.plot(seen.steps, seen.values, ".", color="#000000", markersize=4, label="observed")
    if within.any():
        axes.plot(
            whole.steps[within],
            whole.values[within],
            ".",
            color=ORANGE,
            markersize=3,
            label="not looked at",
        )
    if target is not None:
        axes.axhline(target, color=GREY, linestyle=":", label=f"target {target:g}")
    axes.axvline(seen.steps[-1], color=GREY, linewidth=0.8)
    axes.set_xlabel("step")
    axes.set_ylabel("value")
    save_picture(figure, axes, path)
