"""GPUs of one type that differ: PAL's two workloads under PAL's rules and ours.

A cluster file states times by device type, so GPUs that differ one by one would be 64 types, and
no network model of Warren slows a gang on two nodes down by a fixed factor. So this is a simulator
of its own, ``_pal``, for all rules alike, and no policy of the package runs.

PAL's factors of class A (resnet50, which is most of the work) are at hand. For B to D, which PAL
measured with BERT and PageRank, those of a matrix product stand in, which differ less. As in PAL's
simulator each GPU draws its factors from all measured GPUs; here it is done for several seeds.
"""

from __future__ import annotations

from typing import Any, Final

import _common
import numpy as np
from _pal import CLASSES, RULES, draw_devices, read_factors, read_jobs, simulate

WORKLOADS: Final = ("workload-1", "workload-2")
SEEDS: Final = range(1, 6)
PUBLISHED_PCT: Final = {"PM-First": -40, "PAL": -43}
"""Change of the mean JCT against Packed-Sticky that PAL's authors print: over eight workloads."""
PROFILES: Final = _common.DATA / "profiles" / "pal"
TRACES: Final = _common.DATA / "traces" / "pal"
BASELINE: Final = "Packed-Sticky"


def main() -> None:
    """Simulate each rule on each workload and seed, and save."""
    if not (PROFILES.is_dir() and TRACES.is_dir()):
        print("skipped: profiles/pal and traces/pal of the shared data are not here")
        return
    resnet = read_factors(PROFILES / "resnet-longhorn.csv")
    sgemm = read_factors(PROFILES / "sgemm-longhorn.csv")
    measured = {name: resnet if name == "A" else sgemm for name in CLASSES}
    rows = [row for name in WORKLOADS for row in of_workload(name, measured)]
    content = {
        "rows": rows,
        "changes": changes(rows),
        "published_pct": PUBLISHED_PCT,
        "factors": {
            name: [float(np.quantile(found, part)) for part in (0.05, 0.5, 0.95, 1.0)]
            for name, found in (("resnet", resnet), ("sgemm", sgemm))
        },
    }
    for row in content["changes"]:
        print({key: _common.short(cell) for key, cell in row.items()})
    _common.save("pal_devices", SEEDS[0], content)


def of_workload(name: str, measured: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """One row a rule and seed."""
    jobs = read_jobs(TRACES / f"{name}.csv")
    rows = []
    for seed in SEEDS:
        devices = draw_devices(measured, np.random.default_rng(seed))
        for rule, place in RULES.items():
            jct = simulate(jobs, devices, place)
            rows.append({
                "workload": name, "seed": seed, "rule": rule, "jobs": len(jct),
                "mean_jct_s": float(jct.mean()), "p99_jct_s": float(np.quantile(jct, 0.99)),
            })  # fmt: skip
            print({key: _common.short(cell) for key, cell in rows[-1].items()}, flush=True)
    return rows


def changes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The change of each rule's mean JCT against the baseline: geometric means, in percent."""
    base = {
        (row["workload"], row["seed"]): row["mean_jct_s"] for row in rows if row["rule"] == BASELINE
    }
    found = []
    for workload in [*WORKLOADS, "both"]:
        for rule in RULES:
            ratio = [
                row["mean_jct_s"] / base[row["workload"], row["seed"]]
                for row in rows
                if row["rule"] == rule and workload in (row["workload"], "both")
            ]
            found.append({
                "workload": workload, "rule": rule,
                "change_pct": 100 * (float(np.exp(np.mean(np.log(ratio)))) - 1),
                "least_pct": 100 * (min(ratio) - 1), "most_pct": 100 * (max(ratio) - 1),
            })  # fmt: skip
    return found


if __name__ == "__main__":
    main()
