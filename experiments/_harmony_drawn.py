"""Eight drawn jobs on four hosts in virtual time, under ``harmony`` with one option or another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import warren

SEED: Final = 1
JOBS: Final = 8
HOSTS: Final = 4
ROUNDS: Final = 30


def times_of(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float]:
    """How many times the JCT and the makespan of ``other`` those of ``one`` are."""
    return {
        "jct": one["mean_jct_s"] / other["mean_jct_s"],
        "makespan": one["makespan_s"] / other["makespan_s"],
    }


def simulated(
    draw: int, options: Mapping[str, Any], *, cv: float = 0.0, spread: float = 0.0
) -> Mapping[str, Any]:
    """The summary of a run.

    ``cv``: coefficient of variation of a hidden factor of a job's task times. ``spread``: of the
    logarithms of how many rounds jobs have, around ``ROUNDS``.
    """
    random = np.random.default_rng(draw)
    comp_s = np.exp(random.normal(-1, 0.6, JOBS))
    model_bytes = 2e6 * np.exp(random.normal(0, 0.6, JOBS))
    rounds = np.maximum(1, np.round(ROUNDS * np.exp(random.normal(0, spread, JOBS)))).astype(int)
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
            "format": 1, "name": "drawn", "seed": SEED, "profiles": rows,
            "workload": {
                "jobs": [
                    {"name": name, "model": name, "scale": 8, "rounds": int(count)}
                    for name, count in zip(rows, rounds, strict=True)
                ]
            },
            "cluster": {
                "format": 1, "network": {"model": "fluid"}, "local": {"look_ahead": 32},
                "hosts": hosts,
            },
            **({"truth": {"job_cv": cv, "seed": draw}} if cv else {}),
            "scheduler": {"joint": "harmony", "flow": "turns"},
            "policy": {"joint": dict(options)},
        }
    ).summary  # fmt: skip
