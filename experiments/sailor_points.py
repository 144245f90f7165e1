"""Sailor's measured iterations of one job on mixed GPU types, predicted from single types.

Eight distinct points: three are data parallel, which is what Warren trains and prices; five have
pipeline stages, which are outside of it. Inputs: times of layers on each type, the bytes of the
gradients, and rates between nodes that Sailor's authors measured apart. No constant is fitted on
the points, except in ``left_out``: there one factor on all rates is fitted on the seven others.

It fails if the mean error of the data-parallel points, or of all eight, is above 10 %.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import _common
import numpy as np
from _sailor import fitted_faster, predict_s, read_points, read_profiles, ring_s

FOLDER: Final = _common.DATA / "profiles" / "sailor"
LIMIT_PCT: Final = 10.0
"""Largest mean error, in percent."""


def main() -> None:
    """Predict each point and save."""
    if not FOLDER.is_dir():
        print(f"skipped: profiles/{FOLDER.name} of the shared data is not here")
        return
    rows = predicted()
    for row in rows:
        print({key: _common.short(cell) for key, cell in row.items()}, flush=True)
    means = mean_errors(rows)
    print({key: _common.short(cell) for key, cell in means.items()})
    _common.save("sailor_points", 0, {"rows": rows, **means})
    if max(means["data_parallel_pct"], means["all_pct"]) > LIMIT_PCT:
        sys.exit("the mean error is above the limit")


def predicted() -> list[dict[str, Any]]:
    """One row a point; errors in percent of the measured time."""
    points, profiles = read_points(FOLDER), read_profiles(FOLDER)
    rows = []
    for point in points:
        others = [one for one in points if one is not point]
        found = {
            "predicted": predict_s(point, profiles),
            "twice": predict_s(point, profiles, tied=False),
            "left_out": predict_s(point, profiles, faster=fitted_faster(others, profiles)),
        }
        rows.append({
            "point": point.name,
            "stages": len(point.layers_S),
            "replicas": point.replicas,
            "types": sorted({one for types in point.types_S for one in types}),
            "measured_s": point.measured_s,
            "reduce_s": point.reduce_s,
            "ring_s": max(ring_s(point, stage) for stage in range(len(point.layers_S))),
            **{f"{name}_s": found_s for name, found_s in found.items()},
            **{
                f"{name}_pct": 100 * (found_s / point.measured_s - 1)
                for name, found_s in found.items()
            },
        })  # fmt: skip
    return rows


def mean_errors(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Means of the absolute errors, in percent."""

    def mean(name: str, some: list[dict[str, Any]]) -> float:
        return float(np.mean([abs(row[f"{name}_pct"]) for row in some]))

    pure = [row for row in rows if row["stages"] == 1]
    return {
        "data_parallel_pct": mean("predicted", pure),
        "all_pct": mean("predicted", rows),
        "twice_pct": mean("twice", pure),
        "left_out_pct": mean("left_out", rows),
    }


if __name__ == "__main__":
    main()
