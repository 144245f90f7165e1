"""The picture of a prediction: points seen, points to come, mean and band."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from warren.cli.files import write_atomic
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
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "warren"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    later = whole.steps > seen.steps[-1]
    within = later & (whole.steps <= found.at[-1])
    axes.fill_between(found.at, found.low, found.high, color="#0b5394", alpha=0.18, linewidth=0,
                      label="80 % of values")  # fmt: skip
    axes.plot(found.at, found.mean, color="#0b5394", label="mean predicted")
    axes.plot(seen.steps, seen.values, ".", color="#000000", markersize=4, label="observed")
    if within.any():
        axes.plot(whole.steps[within], whole.values[within], ".", color="#e69f00", markersize=3,
                  label="not looked at")  # fmt: skip
    if target is not None:
        axes.axhline(target, color="#b0b0b0", linestyle=":", label=f"target {target:g}")
    axes.axvline(seen.steps[-1], color="#b0b0b0", linewidth=0.8)
    axes.set_xlabel("step")
    axes.set_ylabel("value")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", fontsize=8, frameon=False,
                  ncols=len(labels))  # fmt: skip
    content = BytesIO()
    # A picture of the same numbers is the same file: no date in it.
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind = path.suffix[1:]
    figure.savefig(content, format=kind, dpi=144, metadata=dates.get(kind))
    pyplot.close(figure)
    write_atomic(path, content.getvalue())
