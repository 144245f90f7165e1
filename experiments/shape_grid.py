"""Cruise's cost model and Optimus's speed on real parameter-server runs, by their worker grids.

*Data.* Steps of five models in synchronous runs by numbers of servers and workers (DL2's
measurements, ``profiles/dl2/config_speed.txt`` of ``WARREN_DATA``), the batch of a step fixed.
Each form is fitted to half of a grid, relative errors weighed alike and no coefficient below 0, and
predicts the other half; 20 halves by seeds 0 to 19. *Error*: mean of the other half, *regret*: how
much longer the shape that a form would choose takes than the best one that was measured. *Regret,
W + S = N*: the same among the cells that use all of N machines, as Cruise does, in the mean over N
with ``LEAST_CELLS`` cells or more. *Tied*: cells of one predicted time among which the first is
chosen, in the mean.

*Forms*, W workers, S servers, n items a step::

    cruise      a n / W + k max(W / S, 1)                           (3.4), `nic`, equal machines
    served      the same + s W / S + b + d W            servers at updates; a step; a worker
    optimus     a n / W + b + c W / S + d W + e S
"""

from __future__ import annotations

import ast
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, Final, TypeAlias

import _common
import numpy as np
from scipy.optimize import nnls

GRID: Final = _common.DATA / "profiles" / "dl2" / "config_speed.txt"
SEEDS: Final = range(20)
LEAST_CELLS: Final = 3
SAME: Final = 1e-9
"""A part of a predicted time within which two count as one."""
Times: TypeAlias = Mapping[tuple[int, int], float]
"""Seconds of a step, by servers and workers."""
Form: TypeAlias = Callable[[int, int, int], list[float]]
FORMS: Final[Mapping[str, Form]] = {
    "cruise": lambda n, s, w: [n / w, max(w / s, 1.0)],
    "served": lambda n, s, w: [n / w, max(w / s, 1.0), w / s, 1.0, w],
    "optimus": lambda n, s, w: [n / w, 1.0, w / s, w, s],
}


def main() -> None:
    """Make a row a model and form; without the data there is nothing to do."""
    if not GRID.exists():
        print(f"skipped: {GRID.name} is not here; WARREN_DATA=FOLDER names its folder")
        return
    rows = [
        row(model, items, times, name)
        for (model, items), times in grids(GRID.read_text()).items()
        for name in FORMS
    ]
    for one in rows:
        print(one)
    _common.save("shape_grid", SEEDS[0], {"rows": rows})
    if missed := [one for one in rows if one["form"] == "served" and one["error_pct"] > 10]:
        sys.exit(f"above 10 %: {missed}")


def grids(text: str) -> dict[tuple[str, int], Times]:
    """Read the grids of synchronous runs; a record in which a worker stood still is left out."""
    found: dict[tuple[str, int], dict[tuple[int, int], list[float]]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        model, sync, items, servers, workers, speeds, *_ = ast.literal_eval(line)
        if sync == "dist_sync" and all(speed > 0 for speed in speeds):
            grid = found.setdefault((model, items), defaultdict(list))
            grid[servers, workers].append(items / sum(speeds))
    return {key: {at: fmean(times) for at, times in grid.items()} for key, grid in found.items()}


def row(model: str, items: int, times: Times, name: str) -> dict[str, Any]:
    """The mean error and regret of a form over all halves."""
    errors, regrets, all_used, tied = [], [], [], []
    cells = sorted(times)
    of_all = [
        some for total in sorted({sum(cell) for cell in cells})
        if len(some := [cell for cell in cells if sum(cell) == total]) >= LEAST_CELLS
    ]  # fmt: skip
    for seed in SEEDS:
        seen = random.Random(seed).sample(cells, len(cells) // 2)
        told = fitted(FORMS[name], items, {cell: times[cell] for cell in seen})
        others = [cell for cell in cells if cell not in set(seen)]
        errors.append(fmean(abs(told(cell) / times[cell] - 1) for cell in others))
        regrets.append(times[min(cells, key=told)] / min(times.values()) - 1)
        all_used += [
            times[min(some, key=told)] / min(times[cell] for cell in some) - 1 for some in of_all
        ]
        least = min(map(told, cells))
        tied.append(sum(told(cell) <= least * (1 + SAME) for cell in cells))
    return {
        "model": model, "cells": len(cells), "form": name,
        "error_pct": 100 * fmean(errors), "regret_pct": 100 * fmean(regrets),
        "all_used_pct": 100 * fmean(all_used), "tied": fmean(tied),
    }  # fmt: skip


def fitted(form: Form, items: int, times: Times) -> Callable[[tuple[int, int]], float]:
    """Fit a form, and return what it predicts of a cell."""
    rows = np.array([form(items, *cell) for cell in times])
    seconds = np.array(list(times.values()))
    found, _ = nnls(rows / seconds[:, None], np.ones(len(seconds)))
    return lambda cell: float(np.dot(form(items, *cell), found))


if __name__ == "__main__":
    main()
