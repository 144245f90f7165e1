"""Fig. 19 of JPAS: how much of their loss all jobs have lost over time, against plain TCP.

The runs are those of part *16* of ``jpas_figures.py``. A simulated job shows one curve, an
accuracy, and policies go by that, as in the paper. Its loss is taken as -ln of the accuracy, the
cross entropy of a classifier that gives the right class that probability. A job's reduction is the
part of the way from its first loss to its last; the total is that of all jobs, its mean over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from statistics import mean
from typing import Any, Final

import _common
import _jpas_runs
import numpy as np
from jpas_figures import SEEDS, _no_file

from warren.profile.published import TABLE
from warren.report.learning import LearnedCurve, learned_curves
from warren.runs.compose import simulate
from warren.workload.run_file import run_from_dict

FLOWS: Final = ("fair", "maif", "baraat", "sincronia")
AT_ONCE: Final = 4
UNTIL_S: Final = 2 * _jpas_runs.JOBS * _jpas_runs.INTERVAL_S
AT_S: Final = np.linspace(0.0, UNTIL_S, 61)[1:]


def main() -> None:
    """Simulate each flow policy by each seed, and save."""
    with ProcessPoolExecutor(AT_ONCE) as pool:
        pairs = list(product(FLOWS, SEEDS))
        found = dict(zip(pairs, pool.map(total_of, *zip(*pairs, strict=True)), strict=True))
    rows: list[dict[str, Any]] = []
    for flow in FLOWS:
        totals = [found[flow, seed] for seed in SEEDS]
        rows.append({
            "flow": flow,
            "total": np.mean(totals, axis=0).round(4).tolist(),
            "by_seed": [float(one.mean()) for one in totals],
            "mean": mean(float(one.mean()) for one in totals),
        })  # fmt: skip
        print(flow, rows[-1]["mean"], flush=True)
    _common.save("jpas_loss", SEEDS[0], {"seeds": list(SEEDS), "at_s": AT_S.tolist(), "rows": rows})


def total_of(flow: str, seed: int) -> np.ndarray:
    """The total of a run by each of ``AT_S``."""
    said = _jpas_runs.drawn(seed, flow)
    record = simulate(run_from_dict(said, ".", _no_file, rows=TABLE))
    print(flow, seed, flush=True)
    return total(learned_curves(record), AT_S)


def total(curves: Sequence[LearnedCurve], at_s: np.ndarray) -> np.ndarray:
    """Of all jobs together, which part of its way each job's loss has gone by these times."""
    found = np.zeros(len(at_s))
    for one in curves:
        loss_P = -np.log(np.clip(one.value_P, 1e-3, 1.0))
        lowest_P = np.minimum.accumulate(loss_P)
        way = lowest_P[0] - lowest_P[-1]
        if way > 0:
            part_P = (lowest_P[0] - lowest_P) / way
            found += np.interp(at_s - one.arrival_s, one.time_s_P, part_P, left=0.0)
    return found


if __name__ == "__main__":
    main()
