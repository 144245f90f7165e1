"""The quickstart predicted and trained under three policies: JCT error per job, and overruns.

Beside the error stands how far the predicted JCTs move when task times are drawn 0.2 % around the
profile. It shows how sensitive a policy is to small differences; what those of the live run were
is not measured here. One run of each policy.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import _common
import numpy as np

import warren

NOISE, NOISES = 0.002, 8
PLACES = ("gavel-fifo", "srtf", "hare")
RUN = _common.ROOT / "examples" / "quickstart" / "run.yaml"


def main() -> None:
    """Run each policy in both worlds and compare."""
    scratch = Path(tempfile.mkdtemp(prefix="warren-predicted-"))
    rows = []
    try:
        for place in PLACES:
            live, predicted = scratch / f"live-{place}", scratch / f"predicted-{place}"
            trained = _common.warren_json("run", str(RUN), "--place", place, "--out", str(live))
            _common.warren_json("simulate", str(RUN), "--place", place, "--out", str(predicted))
            compared = _common.warren_json("compare", str(live), str(predicted))
            row = row_of(place, trained, _common.jct_error(compared))
            rows.append(row | {"moved_pct": moved_pct(scratch / "noisy", place)})
            print(f"{place}: mean JCT error {rows[-1]['mean_error_pct']:.2f} %", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _common.table(
        [list(rows[0]), *([_common.short(cell) for cell in one.values()] for one in rows)]
    )
    _common.save("predicted", 1, {"rows": rows})


def moved_pct(scratch: Path, place: str) -> float:
    """Mean absolute change of a job's simulated JCT under noise of task times, in percent."""
    jct_s = [
        simulated_jct_s(scratch / f"{place}-{seed}", place, seed) for seed in range(NOISES + 1)
    ]
    exact, *noisy = (np.array(one) for one in jct_s)
    return float(np.mean([100 * np.abs(one - exact) / exact for one in noisy]))


def simulated_jct_s(out: Path, place: str, seed: int) -> list[float]:
    """JCT of every job; seed 0: without noise."""
    noise = ["--set", f"truth.task_cv={NOISE if seed else 0}", "--set", f"truth.seed={seed}"]
    _common.warren_json("simulate", str(RUN), "--place", place, "--out", str(out), *noise)
    return [float(job.row["jct_s"]) for job in warren.load(out).jobs.values()]


def row_of(place: str, trained: dict[str, object], error: dict[str, float]) -> dict[str, object]:
    """One line of the table."""
    gap = trained["gap"]
    assert isinstance(gap, dict)
    return {
        "place": place,
        "jobs": trained["jobs"],
        "tasks": trained["tasks"],
        "overruns": trained["overruns"],
        "weighted_jct_s": trained["weighted_jct_s"],
        "gap": gap["weighted_jct"],
        "mean_error_pct": error["mean_error_pct"],
        "p95_error_pct": error["p95_error_pct"],
        "max_error_pct": error["max_error_pct"],
    }


if __name__ == "__main__":
    main()
