"""How a run of ``fidelity.py`` is told and judged."""

from __future__ import annotations

from typing import Any, Final

OVERRUNS_MAX: Final = 0.01

Row = dict[str, Any]


def is_void(row: Row) -> bool:
    """Whether the machine was too slow for the pads."""
    return bool(row["overruns"] > OVERRUNS_MAX * row["tasks"])


def show(what: str, row: Row) -> Row:
    """Print one line; the row."""
    told = f"JCT error mean {row['mean_error_pct']:.2f} %, largest {row['max_error_pct']:.2f} %"
    if "rows_differ" in row:
        equal = "yes" if row["decisions_equal"] else "no"
        decided = f"decisions equal: {equal}, tasks whose row differs: {row['rows_differ']}"
        told = decided if what == "a" else f"{told}; {decided}"
    print(
        f"({what}) {row['place']}: {told}; bias {row['bias_pct']:.2f} %; COMP "
        f"{row['comp_over_predicted']:.3f}; {row['overruns']:.0f} of {row['tasks']} overran; "
        f"{row['wall_s']:.0f} s",
        flush=True,
    )
    return {**row, "what": what}


def faults(name: str, part: dict[str, Any]) -> list[str]:
    """What a part misses, one line each; earlier results of (a) do not tell decisions."""
    limit = part["limit_pct"]
    found = []
    for row in part["rows"]:
        where = f"({name}) {row['place']} run {row['run']}"
        if name in ("a", "b") and is_void(row):
            found.append(f"{where} is void: {row['overruns']:.0f} of {row['tasks']} tasks overran")
        if row["left_out"]:
            found.append(f"{where}: {row['left_out']} jobs did not finish")
        if name == "a":
            if not row.get("decisions_equal", True):
                found.append(f"{where}: {row['rows_differ']} tasks have other rows")
        elif row["mean_error_pct"] > limit:
            found.append(f"{where}: {row['mean_error_pct']:.2f} % is above {limit:g} %")
    for row in part.get("controls", ()):
        if row["mean_error_pct"] <= limit:
            found.append(f"the control {row['what']!r} passes under {row['place']}")
    return found
