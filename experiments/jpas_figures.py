"""JPAS's evaluation in simulation: flow policies by how soon jobs learn, on a small testbed.

*Cells.* Jobs of Table 2 on 13 hosts with links of 1 Gbit/s, five seeds each: another seed draws
other jobs, servers, arrivals and learning curves. *16*: times to 90, 95 and 99 % of the converged
accuracy, and the JCT, with the total gain (Fig. 18), bytes by rank of what jobs gain (Fig. 20) and
times to 95 % by model (Fig. 17). *looked at*: the same by seeds 1 to 5, with which load, servers
and curves were chosen. *21*: how fast jobs come. *22*: gains that are wrong by a part. *23*: the
period. *curves*: which bend as Warren draws them. *computation*: rounds that compute for half and a
quarter of what is assumed. *network*: load 3 with eight devices a CPU host and four a GPU host, so
that jobs wait for links and not for devices. *alone*: the jobs of a cell one at a time, which is
what taking away all contention would give; how fast jobs come makes no difference to it.
*baraat-sized* takes the size above which a job is heavy from the sizes of all jobs, as Baraat's
history would have it. *maif* has the paper's gain, (22), *maif-expected* ours; *maif-smoothed*
differs from (22) in y_t alone, which the curve's own value stands for.

``--part 16`` (or another) makes one part and keeps the results of the others; ``--place maif``
makes the rows of one policy again and keeps those of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Final

import _jpas_runs
import numpy as np
from _jpas_runs import ALONE, SIZES_KNOWN
from _parts import Asked, Make, ask, make_parts

from warren.profile.published import TABLE
from warren.report.learning import (
    bytes_by_rank,
    bytes_in_windows,
    learned_curves,
    mean_gained,
    mean_times_s,
)
from warren.report.metrics import schedule_values
from warren.runs.compose import simulate
from warren.workload.run_file import run_from_dict

OURS: Final = "maif-expected"
SMOOTHED: Final = "maif-smoothed"
FLOWS: Final = (
    "fair", "maif", SMOOTHED, OURS, "baraat", SIZES_KNOWN, "sincronia", "intensity", "shift", ALONE,
)  # fmt: skip
SEEDS: Final = range(6, 11)
"""Of all parts but *looked at*."""
LOOKED_AT: Final = range(1, 6)
NETWORK_SEEDS: Final = range(6, 9)
"""Of part *network*, fewer: a run there takes long."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What varies: an argument of ``_jpas_runs.drawn``, its values, and under which policies.

    ``stated``: other arguments of it.
    """

    varies: str
    key: str
    values: Sequence[Any]
    flows: Sequence[str]
    seeds: range = SEEDS
    stated: Mapping[str, Any] = field(default_factory=dict)


FIGURES: Final[Mapping[str, Figure]] = {
    "16": Figure("load", "load", (1.0,), FLOWS),
    "21": Figure("load", "load", (0.5, 2.0, 3.0), ("fair", "maif", OURS)),
    "22": Figure("error", "error", (0.1, 0.2, 0.3, 0.4, 0.5), ("maif", OURS)),
    "23": Figure("period_s", "period_s", (30.0, 600.0, 1200.0, 3000.0), ("maif", OURS)),
    "computation": Figure("computes", "computes", (0.5, 0.25), ("fair", "maif", OURS, ALONE)),
    "network": Figure(
        "load",
        "load",
        (3.0,),
        ("fair", "maif", OURS, ALONE),
        NETWORK_SEEDS,
        {"devices": (8, 4)},
    ),
    "curves": Figure("curves", "share_to_95", (None,), FLOWS),
    "looked at": Figure("load", "load", (1.0,), FLOWS, LOOKED_AT),
}


def main() -> None:
    """Make the parts asked for and save."""
    asked = ask(__doc__, list(FIGURES), FLOWS)
    make_parts(
        "jpas_figures", asked, {name: _part(one, asked) for name, one in FIGURES.items()}, seed=1,
        stated={}, cannot=lambda part: cannot(part, asked),
    )  # fmt: skip


def cannot(part: str, asked: Asked) -> str:
    """Why a part cannot be made; empty if it can."""
    flows = FIGURES[part].flows
    return "" if set(flows) & set(asked.places) else f"it has {', '.join(flows)} alone"


def _part(figure: Figure, asked: Asked) -> Make:
    flows = [flow for flow in figure.flows if flow in asked.places]

    def make(scratch: Path) -> Mapping[str, Any]:
        rows = [cell(figure, value, flow) for value in figure.values for flow in flows]
        return {"varies": figure.varies, "seeds": list(figure.seeds), "rows": rows}

    return make


def cell(figure: Figure, value: Any, flow: str) -> dict[str, Any]:
    """One row: means over the seeds, and the figures of each."""
    runs = [_values(seed, flow, {figure.key: value, **figure.stated}) for seed in figure.seeds]
    keys = [key for key in runs[0] if key not in ("by_rank", "by_model")]
    row = {
        "cell": str(value),
        "place": flow,
        **{key: mean(one[key] for one in runs) for key in keys},
        "by_rank": [mean(parts) for parts in zip(*(one["by_rank"] for one in runs), strict=True)],
        "by_model": _by_model([one["by_model"] for one in runs]),
        "by_seed": [{key: one[key] for key in keys} for one in runs],
    }
    print(f"{figure.varies} {value}: {flow}: 90 % after {row['trained_90_s']:.0f} s", flush=True)
    return row


def _values(seed: int, flow: str, options: Mapping[str, Any]) -> dict[str, Any]:
    said = _jpas_runs.drawn(seed, flow, **options)
    record = simulate(run_from_dict(said, ".", _no_file, rows=TABLE))
    curves = learned_curves(record)
    values = schedule_values(record)
    makespan_s = float(record.history.finish_ns_J.max()) / 1e9
    edges_s = np.arange(0.0, makespan_s + _jpas_runs.PERIOD_S, _jpas_runs.PERIOD_S)
    jobs = record.run.workload.jobs
    to_95_s = [(jobs[one.job].cost or "", one.reached_s(0.95) - one.waited_s) for one in curves]
    return {
        **mean_times_s(curves),
        "mean_jct_s": values["mean_jct_s"],
        # Until when all runs of a seed are over differs: the total gain is taken up to one time.
        "gained": mean_gained(curves, 2 * _jpas_runs.JOBS * _jpas_runs.INTERVAL_S),
        "by_rank": bytes_by_rank(curves, bytes_in_windows(record, edges_s), edges_s).tolist(),
        "by_model": to_95_s,
    }


def _by_model(runs: Sequence[Sequence[tuple[str, float]]]) -> dict[str, float]:
    """The mean training time to 95 % of all jobs of each model, smallest model first."""
    every = [one for run in runs for one in run]
    return {
        model: mean(found)
        for model in _jpas_runs.MODELS
        if (found := [time_s for name, time_s in every if name == model])
    }


def _no_file(path: str) -> bytes:
    raise FileNotFoundError(path)


if __name__ == "__main__":
    main()
