"""Harmony where tasks take other times than was said: does it gain by grouping anew at once?

Eight jobs on four hosts in virtual time, twice eight draws of COMP and model bytes; each task's
time is that of its profile times a hidden factor a job, with a coefficient of variation of 0.25,
0.5 or 1.
``harmony`` with ``surprise: 0.2``, its default, beside ``surprise: 1e9``: then groups change only
when a job comes or ends, by what was measured until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from statistics import fmean
from typing import Any, Final

import _common
import numpy as np

import warren

SEED: Final = 1
JOBS: Final = 8
HOSTS: Final = 4
CVS: Final = (0.25, 0.5, 1.0)
DRAWS: Final = {"looked at": range(8), "others": range(8, 16)}
"""The rule was made on the first; the others were not looked at."""


def main() -> None:
    """Run, print and save."""
    rows = []
    for (name, draws), cv in product(DRAWS.items(), CVS):
        times = []
        for draw in draws:
            follows, waits = (simulated(draw, cv, surprise) for surprise in (0.2, 1e9))
            times.append(
                {
                    "jct": waits["mean_jct_s"] / follows["mean_jct_s"],
                    "makespan": waits["makespan_s"] / follows["makespan_s"],
                }
            )
        mean = {key: fmean(one[key] for one in times) for key in ("jct", "makespan")}
        rows.append({"set": name, "cv": cv, "mean": mean, "draws": times})
        print(
            f"{name}, cv {cv}: {mean['jct']:.3f} times the JCT, {mean['makespan']:.3f} the makespan"
        )
    _common.save("harmony_surprise", SEED, {"rows": rows})


def simulated(draw: int, cv: float, surprise: float) -> Mapping[str, Any]:
    """The summary of a run."""
    random = np.random.default_rng(draw)
    comp_s = np.exp(random.normal(-1, 0.6, JOBS))
    model_bytes = 2e6 * np.exp(random.normal(0, 0.6, JOBS))
    rows = {
        f"j{at}": {
            "model": f"{model_bytes[at]:.0f} B",
            "comp": {"A": f"{1000 * comp_s[at]:.3f} ms"},
            "sync": {"A": "1 ms"},
        }
        for at in range(JOBS)
    }
    hosts = [{"name": f"h{at}", "devices": {"A": 1}, "nic": "40 Mbps"} for at in range(HOSTS)]
    return warren.simulate(
        {
            "format": 1, "name": "surprise", "seed": SEED, "profiles": rows,
            "workload": {
                "jobs": [{"name": name, "model": name, "scale": 8, "rounds": 30} for name in rows]
            },
            "cluster": {
                "format": 1, "network": {"model": "fluid"}, "local": {"look_ahead": 32},
                "hosts": hosts,
            },
            "truth": {"job_cv": cv, "seed": draw},
            "scheduler": {"joint": "harmony", "flow": "turns"},
            "policy": {"joint": {"surprise": surprise}},
        }
    ).summary  # fmt: skip


if __name__ == "__main__":
    main()
