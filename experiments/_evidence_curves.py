"""The section of the evidence page on learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from _evidence_live import table

_NAMES: Final = {
    "last": "last value",
    "one_constant": "one constant (0.4)",
    "constant_by_task": "one constant, chosen without the task",
    "single": "best single family",
    "plain": "plain emcee run",
    "published": "JPAS (12), sampled in closed form",
    "shipped": "`warren predict`",
    "unstated": "the same, nothing stated",
    "by_dataset": "constants without the curve's data set",
    "by_task": "constants without its task",
}
_KINDS: Final = {
    "accuracy": "validation accuracy or error",
    "error": "validation accuracy or error",
    "training accuracy": "training accuracy",
    "mAP": "mAP, F1",
    "F1": "mAP, F1",
    "perplexity": "perplexity",
}
"""Anything else is a loss."""
_DRAWN: Final = {
    "last": "last value",
    "one_constant": "one constant",
    "single": "best single family",
    "published": "JPAS (12)",
    "ours": "`warren predict`",
}


def curves(result: Mapping[str, Any]) -> str:
    """Errors, coverage and time by way of predicting, by kind of curve, and on drawn curves."""
    parts = result["parts"]
    made = {
        **parts,
        **parts["held_out"],
        "constant_by_task": parts["one_constant"]["by_task"],
    }
    rows = [_row(_NAMES[name], made[name], parts["curves"], result["observed"]) for name in _NAMES]
    shares = [f"{100 * share:.0f} %" for share in result["observed"]]
    head = ["way", *(f"error at {share}" for share in shares), "all", "accuracy, points",
            *(f"held at {share}" for share in shares), "all held"]  # fmt: skip
    known = parts["curves"]["dataset"]
    stated = sum(one is not None for one in parts["curves"]["cuts"])
    return (
        f"## Learning curves\n\nThe last value of {len(known)} real curves with 20 or more points "
        f"({len(set(known))} data sets; accuracies, errors, losses), predicted from their first "
        f"{', '.join(shares)} of points. *Error* is the mean absolute error in percent of the "
        "curve's range, *accuracy, points* that of accuracies and errors alone in percentage "
        "points, *held* how many last values lie in the 80 % interval. `warren predict` knows the "
        f"name of the metric, and the steps at which the rate is cut where the curve's own log "
        f"states them ({stated} curves). Its constants were chosen on the same curves; the last "
        "two rows are predictions with those chosen without the curve's data set, and without all "
        "data sets of its task ([decision 0019](decisions/0019-prediction-of-curves.md)).\n\n"
        + table(head, rows)
        + "\n\nErrors by kind of curve, at all three shares:\n\n"
        + _by_kind(made, parts["curves"], len(shares))
        + "\n\n"
        + _drawn(parts["families"])
        + "\n\n"
        + _seconds(parts["seconds"])
    )


def _by_kind(made: Mapping[str, Any], known: Mapping[str, Any], shares: int) -> str:
    kind = np.repeat([_KINDS.get(one, "loss") for one in known["what"]], shares)
    kinds = list(dict.fromkeys(kind.tolist()))
    end, span = (np.repeat(known[key], shares) for key in ("end", "range"))
    error = {name: 100 * np.abs(np.array(made[name]["mean"]) - end) / span for name in _NAMES}
    head = ["way", *(f"{one} ({int((kind == one).sum()) // shares})" for one in kinds)]
    rows = [
        [_NAMES[name], *(f"{error[name][kind == one].mean():.1f}" for one in kinds)]
        for name in _NAMES
    ]
    return table(head, rows)


def _drawn(part: Mapping[str, Any]) -> str:
    """Errors on curves drawn from the families, where nothing is stated."""
    falls, share = np.array(part["falls"]), np.array(part["observed"])
    columns = [(fall, one) for fall in (False, True) for one in np.unique(share)]
    cells = [(falls == fall) & (share == one) for fall, one in columns]

    def row(name: str) -> list[object]:
        values = np.array(part[name])
        return [_DRAWN[name], *(f"{values[cell].mean():.3f}" for cell in cells)]

    head = [
        "way",
        *(f"{'loss' if fall else 'accuracy'}, {100 * one:.0f} %" for fall, one in columns),
    ]
    held = [f"{100 * np.array(part['held'])[cell].mean():.0f} %" for cell in cells]
    spans = [np.array(part["range"])[falls == fall].mean() for fall in (False, True)]
    return (
        f"Curves drawn from the six families, 12 of each, {part['points']} points with a noise of "
        f"{part['noise']:g}, as accuracies (range {spans[0]:.2f} on average) and turned into "
        f"losses that fall from about 3 (range {spans[1]:.2f}, three times the noise), of which "
        "nothing is stated. Mean absolute error of the last value, without its noise, in the "
        "curve's own unit:\n\n" + table(head, [*map(row, _DRAWN), ["held", *held]])
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
    said = [f"{name} {one.mean():.3f} s, at most {one.max():.3f} s" for name, one in took.items()]
    return (
        f"A prediction takes one core, on average over {part['curves']} of the curves: "
        + "; ".join(said)
        + "."
    )
