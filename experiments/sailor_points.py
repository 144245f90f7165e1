"""Sailor's measured iterations of one job on mixed GPU types, predicted from single types.

Eight distinct points: three are data parallel, which is what Warren trains and prices; five have
pipeline stages, which are outside of it. Inputs: times of layers on each type, the bytes of the
gradients, and rates between nodes that Sailor's authors measured apart. No constant is fitted on
the points, except in ``left_out``: there one factor on all rates is fitted on the seven others.

It fails if the mean error of the data-parallel points, or of all eight, is above 10 %.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import _common
import numpy as np
from _sailor import fitted_faster, predict_s, read_points, read_profiles, ring_s

FOLDER: Final = _common.DATA / "profiles" / "sailor"
LIMIT_PCT: Final = 10.0
"""Largest mean error, in percent."""
OTHERS_S: Final[Mapping[str, Mapping[str, float]]] = {
    "Sailor": {
        "N2_D1": 120.95, "N2_D2": 81.31, "N4_D1": 81.44, "N4_D2": 67.66,
        "N4_D4": 65.99, "N6_D2": 53.15, "N6_D3": 52.12, "N6_D6": 51.44,
    },
    "Metis": {
        "N2_D1": 83.38, "N2_D2": 74.26, "N4_D1": 42.69, "N4_D2": 56.91,
        "N4_D4": 63.36, "N6_D2": 41.56, "N6_D3": 43.31, "N6_D6": 48.49,
    },
    "AMP": {
        "N2_D1": 61.56, "N2_D2": 54.80, "N4_D1": 55.00, "N4_D2": 52.37,
        "N4_D4": 50.06, "N6_D2": 40.61, "N6_D3": 40.04, "N6_D6": 38.54,
    },
}  # fmt: skip
"""Predictions of other simulators, s: those in eth-easl/sailor at cf2c8e3, run as they are.

As ``simulations/validation/validate.py`` there calls them: with the profiles of each that are there
for these GPU types, the plan of the measured file and its batch. They print no predictions.
"""


def main() -> None:
    """Predict each point and save."""
    if not FOLDER.is_dir():
        print(f"skipped: profiles/{FOLDER.name} of the shared data is not here")
        return
    rows = predicted()
    for row in rows:
        print({key: _common.short(cell) for key, cell in row.items()})
    means = mean_errors(rows)
    print({key: _common.short(cell) for key, cell in means.items()})
    others = [other_errors(name, rows) for name in OTHERS_S]
    for one in others:
        print({key: _common.short(cell) for key, cell in one.items()})
    _common.save("sailor_points", 0, {"rows": rows, **means, "others": others})
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
            "others_s": {name: times[point.name] for name, times in OTHERS_S.items()},
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
    staged = [row for row in rows if row["stages"] > 1]
    return {
        "data_parallel_pct": mean("predicted", pure),
        "staged_pct": mean("predicted", staged),
        "all_pct": mean("predicted", rows),
        "twice_pct": mean("twice", pure),
        "left_out_pct": mean("left_out", rows),
    }


def other_errors(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean errors of another simulator, in percent, as in ``mean_errors``."""
    error = {row["point"]: 100 * abs(row["others_s"][name] / row["measured_s"] - 1) for row in rows}
    pure = [error[row["point"]] for row in rows if row["stages"] == 1]
    staged = [error[row["point"]] for row in rows if row["stages"] > 1]
    return {
        "name": name,
        "data_parallel_pct": float(np.mean(pure)),
        "staged_pct": float(np.mean(staged)),
        "all_pct": float(np.mean(list(error.values()))),
    }


if __name__ == "__main__":
    main()
