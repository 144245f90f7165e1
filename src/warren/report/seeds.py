"""Runs that differ in their seed alone: means, how sure they are, and differences seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

Row = Mapping[str, Any]
SURE: Final = 0.95
"""Of intervals: the mean of all seeds lies within with this chance, if rows are normal."""
SPREAD: Final = ("weighted_jct_s", "mean_jct_s", "p95_jct_s", "makespan_s", "gap")
"""What has an interval."""
PAIRED: Final = "weighted_jct_s"
"""What is set against another policy."""


def group_of(row: Row) -> tuple[Any, ...] | None:
    """What runs share that differ in their seed alone: ``NAME`` of ``NAME seed N``, policy ..."""
    name, seed = str(row["run"]), f" seed {row['seed']}"
    if not name.endswith(seed):
        return None
    return name.removesuffix(seed), row["place"], row["world"], row["jobs"]


def groups(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Two or more rows that differ in their seed alone, by ``group_of``."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if (key := group_of(row)) is not None:
            found.setdefault(key, []).append(row)
    return {key: rows for key, rows in found.items() if len(rows) > 1}


def mean_rows(
    rows: Iterable[Row], columns: Sequence[str], against: str | None = None
) -> list[dict[str, Any]]:
    """A row a policy: means over the seeds, None where one is not known.

    ``finished`` is the least. ``half``: by column half the 95 % interval of the mean, by Student's
    t. With ``against``, ``difference``: mean and half interval of weighted JCT over that policy's
    of the same seed, minus one.
    """
    every = groups(rows)
    found = []
    for (name, place, *same), own in every.items():
        row = _mean(name, own, columns)
        if against is not None and place != against:
            row["difference"] = paired(own, every.get((name, against, *same), []))
        found.append(row)
    return found


def _mean(name: str, rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Any]:
    """Of runs of one policy."""
    found: dict[str, Any] = {
        "run": f"{name}, mean of {len(rows)}",
        "place": rows[0]["place"],
        "world": rows[0]["world"],
        "seeds": len(rows),
        "finished": min(row["finished"] for row in rows),
    }
    half = {}
    for key in columns:
        values = [row.get(key) for row in rows]
        if key in found:
            continue
        found[key] = None if None in values else float(np.mean(values))  # type: ignore[arg-type]
        if key in SPREAD and None not in values:
            half[key] = half_interval(values)  # type: ignore[arg-type]
    return found | {"half": half}


def half_interval(values: Sequence[float]) -> float:
    """Half the interval in which the mean lies, of two values or more."""
    from scipy.special import stdtrit  # which a live run, whose report this is part of, spares

    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(stdtrit(len(values) - 1, (1 + SURE) / 2)) * spread


def paired(rows: Sequence[Row], others: Sequence[Row]) -> tuple[float, float] | None:
    """Mean and half interval of ``PAIRED`` over the other's, minus one; None: too few seeds.

    Seeds that only one of them has, or in which one did not finish all, are left out.
    """
    base = {row["seed"]: row[PAIRED] for row in others if row["finished"] == row["jobs"]}
    ratios = [
        row[PAIRED] / base[row["seed"]] - 1.0
        for row in rows
        if row["finished"] == row["jobs"] and base.get(row["seed"])
    ]
    if len(ratios) < 2:
        return None
    return float(np.mean(ratios)), half_interval(ratios)
