"""The section of the evidence page on learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from _evidence_live import table

_NAMES: Final = {
    "last": "last value",
    "single": "best single family",
    "plain": "plain emcee run",
    "shipped": "`warren predict`",
    "by_dataset": "the same, without the curve's data set",
    "by_task": "the same, without its task",
}


def curves(result: Mapping[str, Any]) -> str:
    """Errors, coverage and time by way of predicting."""
    parts = result["parts"]
    made = {**parts, **parts["held_out"]}
    rows = [_row(_NAMES[name], made[name], parts["curves"], result["observed"]) for name in _NAMES]
    shares = [f"{100 * share:.0f} %" for share in result["observed"]]
    head = ["way", *(f"error at {share}" for share in shares), "all", "accuracy, points",
            *(f"held at {share}" for share in shares), "all held"]  # fmt: skip
    known = parts["curves"]["dataset"]
    return (
        f"## Learning curves\n\nThe last value of {len(known)} real curves with 20 or more points "
        f"({len(set(known))} data sets; accuracies, errors, losses), predicted from their first "
        f"{', '.join(shares)} of points. *Error* is the mean absolute error in percent of the "
        "curve's range, *accuracy, points* that of accuracies and errors alone in percentage "
        "points, *held* how many last values lie in the 80 % interval. The constants of `warren "
        "predict` were chosen on the same curves; the last two rows are predictions with those "
        "chosen without the curve's data set, and without all data sets of its task "
        f"([decision 0019](decisions/0019-prediction-of-curves.md)).\n\n"
        + table(head, rows)
        + "\n\n"
        + _seconds(parts["seconds"])
    )


def _row(
    name: str, part: Mapping[str, Any], known: Mapping[str, Any], observed: list[float]
) -> list[object]:
    shares = len(observed)
    end, span = (np.repeat(known[key], shares) for key in ("end", "range"))
    unit = np.repeat([one or 0.0 for one in known["unit"]], shares)
    off = np.abs(np.array(part["mean"]) - end)
    error = 100 * (off / span).reshape(-1, shares)
    points = 100 * (off * unit)[unit > 0].mean()
    by_error = (f"{one:.1f}" for one in error.mean(axis=0))
    cells: list[object] = [name, *by_error, f"{error.mean():.1f}", f"{points:.1f}"]
    if "low" not in part:
        return cells + [""] * (shares + 1)
    held = (np.array(part["low"]) <= end) & (end <= np.array(part["high"]))
    by_share = 100 * held.reshape(-1, shares).mean(axis=0)
    return [*cells, *(f"{one:.0f} %" for one in by_share), f"{100 * held.mean():.0f} %"]


def _seconds(part: Mapping[str, Any]) -> str:
    took = {name: np.array(found) for name, found in part["seconds"].items()}
    said = [f"{name} {one.mean():.2f} s, at most {one.max():.2f} s" for name, one in took.items()]
    return (
        f"A prediction takes one core, on average over {part['curves']} of the curves: "
        + "; ".join(said)
        + "."
    )
