"""JPAS's mathematical speed model, (13) to (20), on real parameter-server runs.

*Data.* As ``shape_grid.py``: steps of five models by numbers of servers and workers (DL2). The
paper's Fig. 12 is one model by bandwidth, whose numbers are not printed; here the bandwidth stays
and the shape changes. What the model is told is not in the data either: MS / B, the computation of
an item and T_syn are fitted to half of a grid, relative errors weighed alike, and the other half is
predicted; 20 halves by seeds 0 to 19. *Error* and *regret*: as there.

*Forms*: ``(19)``, the step between both ends by gamma; ``(17)``, no stage overlaps another;
``(18)``, all do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any, Final

import _common
import numpy as np
from scipy.optimize import least_squares
from shape_grid import GRID, SEEDS, Times, grids

from warren.cost.parameter_server import StepTimes, equal_transfer_s

STEPS: Final[Mapping[str, Callable[[StepTimes], float]]] = {
    "(19)": lambda one: one.step_s,
    "(17)": lambda one: one.most_s,
    "(18)": lambda one: one.least_s,
}
STARTS: Final = (0.1, 0.5, 0.9)
"""The parts of a one-to-one step that are computation where a fit begins."""


def main() -> None:
    """Make a row a model and form; without the data there is nothing to do."""
    if not GRID.exists():
        print(f"skipped: {GRID.name} is not here; WARREN_DATA=FOLDER names its folder")
        return
    rows = [
        row(model, items, times, name)
        for (model, items), times in grids(GRID.read_text()).items()
        for name in STEPS
    ]
    for one in rows:
        print(one)
    _common.save("speed_model", SEEDS[0], {"rows": rows})


def row(model: str, items: int, times: Times, name: str) -> dict[str, Any]:
    """The mean error and regret of a form over all halves."""
    errors, regrets = [], []
    cells = sorted(times)
    for seed in SEEDS:
        seen = random.Random(seed).sample(cells, len(cells) // 2)
        told = fitted(name, {cell: times[cell] for cell in seen})
        others = [cell for cell in cells if cell not in set(seen)]
        errors.append(fmean(abs(told(cell) / times[cell] - 1) for cell in others))
        regrets.append(times[min(cells, key=told)] / min(times.values()) - 1)
    return {
        "model": model, "cells": len(cells), "form": name,
        "error_pct": 100 * fmean(errors), "regret_pct": 100 * fmean(regrets),
    }  # fmt: skip


def fitted(name: str, times: Times) -> Callable[[tuple[int, int]], float]:
    """Fit MS / B, the computation of a whole step and T_syn; return what is predicted of a cell."""

    def told(cell: tuple[int, int], numbers: Any) -> float:
        servers, workers = cell
        pull_s, step_s, sync_s = np.exp(numbers).tolist()
        transfer_s = equal_transfer_s(
            pull_s, workers=workers, servers=servers, worker_rate=1.0, server_rate=1.0
        )
        return STEPS[name](
            StepTimes(transfer_s=transfer_s, compute_s=step_s / workers, sync_s=sync_s)
        )

    seconds = np.array(list(times.values()))
    most_s = float(seconds.max())

    def wrong(numbers: Any) -> Any:
        return np.array([told(cell, numbers) for cell in times]) / seconds - 1

    starts = [np.log([most_s * (1 - part), most_s * part, most_s / 100]) for part in STARTS]
    best = min((least_squares(wrong, start) for start in starts), key=lambda found: found.cost)
    return lambda cell: told(cell, best.x)


if __name__ == "__main__":
    main()
