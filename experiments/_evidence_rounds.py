"""The section of the evidence page on remaining rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from _evidence_live import table
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rounds(result: Mapping[str, Any]) -> str:
    """How often rounds called sure are too many, how often any are, how many of the true ones."""
    parts = result["parts"]
    known = parts["cases"]
    left, tuned = np.array(known["left"], dtype=float), np.array(known["tuned"])
    sure, by_task, optimus = (_rounds(parts[name]) for name in ("shipped", "by_task", "optimus"))
    rows = [
        _row("sure, files not chosen on", sure[~tuned], left[~tuned]),
        _row("sure, files chosen on", sure[tuned], left[tuned]),
        _row("sure, all", sure, left),
        _row("sure, chosen without the curve's task", by_task, left),
        _row("loss fit of Optimus", optimus, left),
    ]
    head = ["prediction", "cases", "too many, of all", "too many, of those above 0", "above 0",
            "mean of sure / true, above 0", "median"]  # fmt: skip
    return (
        f"## Remaining rounds\n\n{known['curves']} real curves of {known['files']} files with 20 "
        f"or more points, a point being a round, seen to {_percents(result['seen'])}; targets are "
        f"the best values of their first {_percents(result['reached'])} that are not reached "
        "yet. *Too many*: more rounds than there were until a value was first at the target. The "
        "constants of `sure_rounds` were chosen on a random half of the files: of the candidates "
        f"that are too high in at most {100 * result['chosen_limit']:.0f} % of the cases in which "
        "they dare, the one with the most of the true rounds. The loss fit means to be right on "
        "average, not sure; where it says never, that counts as too many, and ratios are of the "
        "others.\n\n"
        + table(head, rows)
        + "\n\nOf a task that no curve was chosen on, the rows without the curve's task tell: "
        "there the limit holds of all cases, but not of those above 0.\n\n"
        + _by_seen(result, sure, left, ~tuned)
        + "\n\n"
        + _seconds(parts["seconds"])
    )


def _percents(shares: list[float]) -> str:
    return ", ".join(f"{100 * share:.0f}" for share in shares) + " %"


def _rounds(part: Mapping[str, Any]) -> Array:
    return np.array([np.inf if one is None else one for one in part["rounds"]])


def _row(name: str, told: Array, left: Array) -> list[object]:
    dared = told > 0
    wrong = np.count_nonzero(told > left)
    ratio = (told / left)[dared & np.isfinite(told)]
    mean, median = (f"{of(ratio):.2f}" if len(ratio) else "" for of in (np.mean, np.median))
    return [
        name, len(left), f"{100 * wrong / len(left):.1f} %",
        f"{100 * wrong / max(1, np.count_nonzero(dared)):.1f} %", f"{100 * dared.mean():.0f} %",
        mean, median,
    ]  # fmt: skip


def _by_seen(result: Mapping[str, Any], sure: Array, left: Array, among: NDArray[np.bool_]) -> str:
    seen = np.array(result["parts"]["cases"]["seen"])
    rows = []
    for share in result["seen"]:
        these = among & (seen == share)
        if these.any():
            rows.append(_row(f"{100 * share:.0f} %", sure[these], left[these]))
    head = ["seen", "cases", "too many, of all", "of those above 0", "above 0", "mean", "median"]
    return (
        "By how much of a curve is seen, files not chosen on. Many CIFAR-10 runs jump right after "
        "half of their epochs: what seemed far is reached at once.\n\n" + table(head, rows)
    )


def _seconds(part: Mapping[str, Any]) -> str:
    of = ", ".join(f"{points:,}" for points in part["points"])
    said = [
        f"{name} " + ", ".join(f"{mean:.2f} (at most {most:.2f})" for mean, most in part[name])
        for name in ("sure", "optimus")
    ]
    return f"Milliseconds of a core for curves of {of} points: " + "; ".join(said) + "."
