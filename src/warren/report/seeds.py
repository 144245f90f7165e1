"""Runs that differ in their seed alone: means, how sure they are, and differences seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

Row = Mapping[str, Any]
"""A row of ``report.compare``, of a run or of means: values by the column's key."""
GroupKey = tuple[str, str, str, int]
"""What runs share that differ in their seed alone: name without the seed, policy, world, jobs."""
SURE: Final = 0.95
"""An interval holds the mean of all seeds with this chance, if rows are normal."""
SPREAD: Final = ("weighted_jct_s", "mean_jct_s", "p95_jct_s", "mean_slowdown", "makespan_s", "gap")
"""The columns whose means have an interval."""


PAIRED: Final = "weighted_jct_s"
"""The column that is set against another policy's."""


def group_of(row: Row) -> GroupKey | None:
    """Return the properties that a run shares with those that differ in their seed alone.

    None for a run that is not called ``NAME seed N`` with its own seed.
    """
    name, seed = str(row["run"]), f" seed {row['seed']}"
    if not name.endswith(seed):
        return None
    return name.removesuffix(seed), row["place"], row["world"], row["jobs"]


def groups(rows: Iterable[Row]) -> dict[GroupKey, list[Row]]:
    """Collect two or more rows that differ in their seed alone, by ``group_of``."""
    found: dict[GroupKey, list[Row]] = {}
    for row in rows:
        if (key := group_of(row)) is not None:
            found.setdefault(key, []).append(row)
    return {key: rows for key, rows in found.items() if len(rows) > 1}


def mean_rows(
    rows: Iterable[Row], columns: Sequence[str], against: str | None = None
) -> list[dict[str, Any]]:
    """Return a row a policy with the means over its seeds, None where one value is not known.

    ``finished`` is the least. ``half`` has by column half the 95 % interval of the mean, by
    Student's t; it is empty where seeds change nothing (``fixed``). With ``against``,
    ``difference`` is the mean and half interval of weighted JCT over that policy's of the same
    seed, minus one; the half interval is None where seeds change neither.
    """
    every = groups(rows)
    found = []
    for (name, place, world, jobs), own in every.items():
        row = _mean(name, own, columns)
        if against is not None and place != against:
            others = every.get((name, against, world, jobs), [])
            difference: tuple[float, float | None] | None = paired(own, others)
            if difference is not None and row["fixed"] and is_fixed(others):
                difference = difference[0], None
            row["difference"] = difference
        found.append(row)
    return found


def is_fixed(rows: Sequence[Row]) -> bool:
    """Tell whether seeds change nothing: all runs have the same results."""
    return len({tuple(row.get(key) for key in (*SPREAD, "finished")) for row in rows}) == 1


def seeds_note(means: Iterable[Row]) -> str:
    """Tell of which policies seeds change nothing, and what would; empty where they change all."""
    fixed = list(dict.fromkeys(str(row["place"]) for row in means if row["fixed"]))
    if not fixed:
        return ""
    return (
        f"Seeds change nothing under {', '.join(fixed)}: each gave the same results, so no "
        "interval is given. A resampled trace (--set workload.trace.resample=jobs), a generated "
        "workload without a seed of its own or noise (--set truth.job_cv=0.2) varies them."
    )


def over_seeds(rows: Sequence[Row], means: Iterable[Row]) -> list[Row | None]:
    """Return for each run's row the row of means that it is part of; None: of none."""
    of = dict(zip(groups(rows), means, strict=True))
    return [of.get(key) if (key := group_of(row)) is not None else None for row in rows]


def _mean(name: str, rows: Sequence[Row], columns: Sequence[str]) -> dict[str, Any]:
    """Return the row of means of one policy's runs."""
    found: dict[str, Any] = {
        "run": f"{name}, mean of {len(rows)}",
        "place": rows[0]["place"],
        "world": rows[0]["world"],
        "seeds": len(rows),
        "finished": min(row["finished"] for row in rows),
        "fixed": is_fixed(rows),
    }
    half = {}
    for key in columns:
        values = [row.get(key) for row in rows]
        if key in found:
            continue
        # A mean over the seeds that happen to have a value would be one of other seeds than the
        # mean of the policy beside it.
        found[key] = None if None in values else float(np.mean(values))  # type: ignore[arg-type]
        if key in SPREAD and None not in values and not found["fixed"]:
            half[key] = half_interval(values)  # type: ignore[arg-type]
    return found | {"half": half}


def half_interval(values: Sequence[float]) -> float:
    """Return half the interval in which the mean of all seeds lies, from two values or more."""
    # Imported here: a live run, whose report this is part of, need not load it.
    from scipy.special import stdtrit

    # t(n - 1, 0.975) s / sqrt(n), with s over n - 1: the seeds are a sample.
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(stdtrit(len(values) - 1, (1 + SURE) / 2)) * spread


def paired(rows: Sequence[Row], others: Sequence[Row]) -> tuple[float, float] | None:
    """Return mean and half interval of ``PAIRED`` over the other's, minus one.

    None where fewer than two seeds are left. Seeds that only one of the policies has, or in which
    one did not finish all jobs, are left out.
    """
    # Seed by seed: the draws of a seed are the same for both policies, so they cancel in the ratio,
    # which would not happen between two means.
    base = {row["seed"]: row[PAIRED] for row in others if row["finished"] == row["jobs"]}
    ratios = [
        row[PAIRED] / base[row["seed"]] - 1.0
        for row in rows
        if row["finished"] == row["jobs"] and base.get(row["seed"])
    ]
    if len(ratios) < 2:
        return None
    return float(np.mean(ratios)), half_interval(ratios)
