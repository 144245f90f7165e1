"""JPAS's claims beyond the times of Fig. 16, each with the verdict that its rows give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import _jpas_runs

Row = Mapping[str, Any]
Rows = Mapping[str, Row]

ALONE: Final = _jpas_runs.ALONE
SINCRONIA: Final = 0.13
BARAAT: Final = 0.24
"""By how much the paper has them later than TCP at most."""
MIDDLE_MB: Final = (95.0, 152.0)
"""Models of the middle of Fig. 17; what is said of Baraat and Sincronia begins and ends there."""
CLEAR: Final = 0.01
"""A part of a total gain from which on one policy has more than another."""
FLAT: Final = 0.03
"""A part of fair's time within which two changes count as one."""
KEPT: Final = {"0.3": 28 / 38, "0.5": 15 / 38}
"""What is left of the gain by the paper with gains off by 30 %, and by above 40 %."""
NOT_MADE: Final = "not made"


def change(row: Row, base: Row, key: str) -> float:
    """By which part a figure differs from that of another row."""
    return float(row[key] / base[key] - 1)


def said(value: bool) -> str:
    """The verdict."""
    return "holds" if value else "does not hold"


def ceiling(rows: Rows, place: str, key: str) -> str:
    """What taking away all contention would give, and the share of it that a policy has."""
    if ALONE not in rows or key == "mean_jct_s":
        return ""
    most = change(rows[ALONE], rows["fair"], key)
    if most >= 0:
        return f", jobs alone have {100 * most:+.1f} %"
    share = change(rows[place], rows["fair"], key) / most
    return f", {100 * share:.0f} % of the {100 * most:+.1f} % of jobs alone"


def reachable(rows: Rows, key: str, asked: float) -> bool:
    """Whether any policy could have what is asked, by what jobs alone have."""
    return ALONE not in rows or change(rows[ALONE], rows["fair"], key) <= asked


def later(rows: Rows, place: str, most: float) -> str:
    """Whether a policy is later than fair at both marks, and by no more than the paper has."""
    found = [change(rows[place], rows["fair"], key) for key in ("trained_90_s", "trained_95_s")]
    told = " and ".join(f"{100 * one:+.1f} %" for one in found)
    if min(found) <= 0:
        return f"{told}: does not hold"
    if max(found) > most:
        return f"{told}: later, but by more than the paper has"
    return f"{told}: holds"


def by_model(rows: Rows, place: str) -> list[list[str]]:
    """Fig. 17: who is sooner to 95 %, by the size of the model."""
    fair = rows["fair"]["by_model"]
    moved = {
        name: {model: rows[name]["by_model"][model] / time_s - 1 for model, time_s in fair.items()}
        for name in (place, "baraat", "sincronia")
    }
    first = [
        model for model in fair
        if moved[place][model] < min(0.0, moved["baraat"][model], moved["sincronia"][model])
    ]  # fmt: skip
    best = min(moved[place], key=lambda model: moved[place][model])
    low, high = MIDDLE_MB
    size = {model: _jpas_runs.MODELS[model][0] for model in fair}
    return [
        [
            f"Fig. 17: {place} soonest to 95 % of all four, whatever the model",
            f"{len(first)} of {len(fair)} models: {said(len(first) == len(fair))}",
        ],
        [
            f"Fig. 17: most with models of {low:g} to {high:g} MB (-43 %), nothing for VGG19",
            f"most with {best} ({100 * moved[place][best]:+.1f} %), VGG19 "
            f"{100 * moved[place]['VGG19']:+.1f} %: "
            f"{said(low <= size[best] <= high and abs(moved[place]['VGG19']) < FLAT)}",
        ],
        [
            f"Fig. 17: Baraat sooner from {high:g} MB on, later below {low:g} MB",
            _sides(moved["baraat"], size, sooner=lambda mb: mb >= high, later=lambda mb: mb < low),
        ],
        [
            f"Fig. 17: Sincronia sooner below {low:g} MB, later above",
            _sides(moved["sincronia"], size, sooner=lambda mb: mb < low, later=lambda mb: mb > low),
        ],
    ]


def _sides(
    moved: Mapping[str, float], size: Mapping[str, float], *, sooner: Any, later: Any
) -> str:
    found = [
        [moved[model] * sign > 0 for model, mb in size.items() if of(mb)]
        for of, sign in ((sooner, -1), (later, 1))
    ]
    told = [f"{sum(one)} of {len(one)}" for one in found]
    return f"sooner {told[0]}, later {told[1]}: {said(all(map(all, found)))}"


def totals(rows: Rows, place: str) -> str:
    """Fig. 18: the mean over time of the total gain."""
    more = change(rows[place], rows["fair"], "gained")
    return f"{100 * more:+.1f} %: {said(more >= CLEAR)}"


def by_load(parts: Mapping[str, Any], place: str) -> str:
    """Fig. 21: the gain to 90 % grows up to twice the load, and is flat from there on."""
    found = _by_load(parts, place, "trained_90_s")
    steps = [found[load] for load in sorted(found)]
    *rising, last = steps
    grows = all(after < before for before, after in pairwise(rising))
    told = ", ".join(f"{100 * one:+.1f} %" for one in steps)
    return f"{told}: {said(grows and abs(last - rising[-1]) < FLAT)}"


def shares_by_load(parts: Mapping[str, Any], place: str) -> str:
    """What a policy has of the gain to 90 % of jobs alone, by load; they are the same at any."""
    found = _by_load(parts, place, "trained_90_s")
    alone = next((row for row in parts["16"]["rows"] if row["place"] == ALONE), None)
    if alone is None:
        return NOT_MADE
    fair = {
        float(row["cell"]): row
        for part in ("16", "21") for row in parts[part]["rows"] if row["place"] == "fair"
    }  # fmt: skip
    return ", ".join(
        f"{100 * found[load] / change(alone, fair[load], 'trained_90_s'):.0f} %"
        for load in sorted(found)
    )


def from_arrival(parts: Mapping[str, Any], place: str) -> str:
    """The same from arrival: with what jobs wait for devices."""
    found = _by_load(parts, place, "to_90_s")
    told = ", ".join(f"{100 * found[load]:+.1f} %" for load in sorted(found))
    return f"{told}: {said(all(one < 0 for one in found.values()))}"


def _by_load(parts: Mapping[str, Any], place: str, key: str) -> dict[float, float]:
    cells: dict[float, dict[str, Row]] = {}
    for name in ("16", "21"):
        for row in parts[name]["rows"]:
            cells.setdefault(float(row["cell"]), {})[row["place"]] = row
    return {load: change(rows[place], rows["fair"], key) for load, rows in cells.items()}


def robust(parts: Mapping[str, Any], rows: Rows, place: str, error: str) -> str:
    """Fig. 22, relative to right gains: what is left of the gain to 95 %."""
    row = _of(parts["22"]["rows"], place, error)
    wrong, right = (change(one, rows["fair"], "trained_95_s") for one in (row, rows[place]))
    kept = wrong / right
    told = f"{100 * wrong:+.1f} % for {100 * right:+.1f} %, {100 * kept:.0f} % left"
    return f"{told}: {said(right < 0 and kept >= KEPT[error])}"


def period(parts: Mapping[str, Any], rows: Rows, place: str, period_s: str) -> str:
    """Fig. 23: whether a period is as good as the shorter one of part 16, or only like TCP."""
    row = _of(parts["23"]["rows"], place, period_s)
    found, short = (change(one, rows["fair"], "trained_95_s") for one in (row, rows[place]))
    told = f"{100 * found:+.1f} % (a period of {_jpas_runs.PERIOD_S:.0f} s: {100 * short:+.1f} %)"
    if period_s == "600.0":
        return f"{told}: {said(short < 0 and found - short < FLAT)}"
    return f"{told}: {said(abs(found) < 0.05)}"


def _of(rows: Sequence[Row], place: str, cell: str) -> Row:
    return next(row for row in rows if (row["place"], row["cell"]) == (place, cell))
