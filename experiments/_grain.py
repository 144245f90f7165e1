"""What a grain changes: a hundredth of the Philly jobs on a hundredth of the GPUs, at grain 1 too.

The sample is every hundredth job by submission, beginning where the sample's work is closest to a
hundredth of the trace's. Rounds are those of the whole trace, ``round_s`` long, so grain 1 is one
task of that length. The error is what the grain moves a job's JCT by, over its JCT at grain 1.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import yaml

import warren
from warren.runs.api import Result

PART: Final = 100
"""One job in so many."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A run file of the Philly trace, the GPUs of its sample, and the policies."""

    file: Path
    devices: int
    places: Sequence[str]


def grain_rows(samples: Sequence[Sampled], scratch: Path) -> Iterator[dict[str, Any]]:
    """One row a sample and policy."""
    for sample in samples:
        run = yaml.safe_load(sample.file.read_text())
        grain = run["grain"]
        trace = run["workload"]["trace"]
        trace["path"] = str(sampled(sample.file.parent / trace["path"], scratch))
        run["cluster"]["hosts"] = [{"name": "node", "devices": {"GPU": sample.devices}}]
        for place in sample.places:
            yield _row(run, grain, place, sample)


def sampled(path: Path, scratch: Path) -> Path:
    """The sample as a trace of its own."""
    with gzip.open(path, "rt", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["timestamp"])
    work = np.array([float(row["duration"]) * int(row["num_gpus"]) for row in rows])
    begins = [abs(float(work[at::PART].sum()) - float(work.sum()) / PART) for at in range(PART)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows[int(np.argmin(begins)) :: PART])
    found = scratch / "sample.csv"
    found.write_text(text.getvalue())
    return found


def _row(run: Mapping[str, Any], grain: str, place: str, sample: Sampled) -> dict[str, Any]:
    fine, coarse = (warren.simulate({**run, "grain": one}, place=place) for one in (1, grain))
    fine_s, coarse_s = jct_s(fine), jct_s(coarse)
    error_pct = 100 * np.abs(coarse_s / fine_s - 1)
    row = {
        "trace": f"1 % of {sample.file.stem}, {sample.devices} GPUs",
        "place": place,
        "grain": grain,
        "jobs": fine.summary["jobs"],
        "finished": min(fine.summary["finished"], coarse.summary["finished"]),
        "tasks": fine.summary["tasks"],
        "utilization": fine.summary["utilization"],
        "mean_jct_s": float(fine_s.mean()),
        "mean_jct_moves_pct": 100 * float(coarse_s.mean() / fine_s.mean() - 1),
        "error_mean_pct": float(error_pct.mean()),
        "error_median_pct": float(np.median(error_pct)),
        "error_max_pct": float(error_pct.max()),
        "moved_max_s": float(np.abs(coarse_s - fine_s).max()),
    }
    print(
        f"{row['trace']}, {place}: {grain} moves a JCT by {row['error_mean_pct']:.2f} % (mean), "
        f"{row['error_max_pct']:.1f} % (most), the mean JCT by {row['mean_jct_moves_pct']:+.2f} %",
        flush=True,
    )
    return row


def jct_s(result: Result) -> npt.NDArray[np.float64]:
    """JCT of every job, in the order of the trace."""
    return np.array([float(job.row["jct_s"]) for job in result.jobs.values()])
