"""The picture of a prediction: points seen, points to come, mean and band."""

from __future__ import annotations

from pathlib import Path

from warren.cli.views.pictures import DARK, GREY, ORANGE, new_picture, save_picture
from warren.predict.curve import Curve
from warren.predict.forecast import Forecast


def draw_curve(
    path: Path, whole: Curve, seen: Curve, found: Forecast, target: float | None
) -> None:
    """Draw what was observed, what the file holds beyond it, and the prediction.

    Raises
    ------
    SpecError
        If the file cannot be written.
    """
    figure, axes = new_picture()
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
