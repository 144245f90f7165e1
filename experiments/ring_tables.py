"""Measured all-reduces of 1 to 16 jobs on one network: how well one slope of contention fits them.

Part ``averaged`` is the table of the means over the time in which all jobs overlap, part ``noisy``
another aggregation by the same people. Each fits `warren.cost.ring_fit` to all points, and to all
but those of one number of jobs, which it then predicts. ``least_absolute`` is the fit with the
least sum of absolute instead of squared relative errors, for comparison.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import _common
import numpy as np
from _parts import ask, make_parts
from numpy.typing import NDArray
from scipy.optimize import linprog

from warren.cost.ring_fit import RingFit, RingPoints, fit_ring

FOLDER: Final = _common.DATA / "profiles" / "hkbu_contention"
FILES: Final = {"averaged": "results_avg.csv", "noisy": "results.csv"}
HOSTS: Final = 4
"""One process on each, so workers and servers of every ring."""

Floats: TypeAlias = NDArray[np.float64]
Fit: TypeAlias = Callable[[RingPoints], RingFit]


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(FILES))
    make = {part: partial(_fitted, FOLDER / name) for part, name in FILES.items()}
    made = make_parts("ring_tables", asked, make, seed=0, stated={"hosts": HOSTS}, cannot=_cannot)
    rows = [["part", "fit", "points", "xi1 (1 + alpha)", "mean", "median", "largest error"]]
    for part, found in made.items():
        for fit in ("least_squares", "least_absolute"):
            for points in ("all", "left_out"):
                errors = [f"{found[fit][points][one]:.1%}" for one in ("mean", "median", "largest")]
                rows.append([part, fit, points, f"{found[fit]['slope']:.3f}", *errors])
    _common.table(rows)


def _cannot(part: str) -> str:
    if (FOLDER / FILES[part]).is_file():
        return ""
    return "the measured all-reduces are not here; WARREN_DATA names the public data"


def read(path: Path) -> RingPoints:
    """The table ``job_num,msg_size,avg_latency``, in jobs, bytes and microseconds."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    hosts = np.full(len(rows), HOSTS)
    return RingPoints(
        time_s_N=np.array([float(row["avg_latency"]) / 1e6 for row in rows]),
        message_bytes_N=np.array([float(row["msg_size"]) for row in rows]),
        contenders_N=np.array([int(row["job_num"]) for row in rows]),
        workers_N=hosts,
        servers_N=hosts,
        comp_s_N=np.zeros(len(rows)),
    )


def _fitted(path: Path, scratch: Path) -> Mapping[str, Any]:
    points = read(path)
    fits = {"least_squares": fit_ring, "least_absolute": least_absolute}
    return {
        "points": len(points.time_s_N),
        "messages_bytes": np.unique(points.message_bytes_N).astype(int).tolist(),
        "jobs": np.unique(points.contenders_N).tolist(),
        **{name: _judged(fit, points) for name, fit in fits.items()},
    }


def _judged(fit: Fit, points: RingPoints) -> dict[str, Any]:
    found, jobs_N = fit(points), points.contenders_N
    left_out_N = np.empty_like(found.error_N)
    slopes = {}
    for jobs in np.unique(jobs_N):
        other = fit(points.where(jobs_N != jobs))
        slopes[str(jobs)] = round(other.slope, 4)
        left_out_N[jobs_N == jobs] = other.errors(points.where(jobs_N == jobs))
    return {
        "slope": round(found.slope, 4),
        "outer_bytes_per_s": round(found.outer_bytes_per_s),
        "xi2_s": round(found.xi2_s, 6),
        "all": _errors(found.error_N, jobs_N),
        "left_out": {**_errors(left_out_N, jobs_N), "slope_without": slopes},
    }


def _errors(error_N: Floats, jobs_N: NDArray[np.int64]) -> dict[str, Any]:
    """Relative errors over all points, where that is largest, and over those of more than a job."""
    off_N = np.abs(error_N)
    more_N = off_N[jobs_N > 1]
    return {
        "mean": round(float(off_N.mean()), 4),
        "median": round(float(np.median(off_N)), 4),
        "largest": round(float(off_N.max()), 4),
        "largest_at_jobs": int(jobs_N[off_N.argmax()]),
        "mean_of_several_jobs": round(float(more_N.mean()), 4),
        "largest_of_several_jobs": round(float(more_N.max()), 4),
        "mean_by_jobs": {
            str(jobs): round(float(error_N[jobs_N == jobs].mean()), 4) for jobs in np.unique(jobs_N)
        },
    }


def least_absolute(points: RingPoints) -> RingFit:
    """The three unknowns of `fit_ring` by the least sum of absolute relative errors."""
    sent_N = points.jobs.sent_bytes_J
    columns = np.stack((points.servers_N, sent_N, sent_N * (points.contenders_N - 1)), axis=1)
    scale = columns.max(axis=0)
    design, one = columns / scale / points.time_s_N[:, None], np.eye(len(sent_N))
    ones = np.ones(len(sent_N))
    found = linprog(
        np.concatenate((np.zeros(3), ones)),
        A_ub=np.block([[design, -one], [-design, -one]]),
        b_ub=np.concatenate((ones, -ones)),
    )
    xi2_s, s_per_byte, more = (found.x[:3] / scale).tolist()
    fit = RingFit(
        outer_bytes_per_s=1 / s_per_byte,
        xi2_s=xi2_s,
        slope=more / s_per_byte,
        reduce_bytes_per_s=np.inf,
        error_N=np.empty(0),
    )
    return replace(fit, error_N=fit.errors(points))


if __name__ == "__main__":
    main()
