"""Measured all-reduces of 1 to 16 jobs on one network: how well one slope of contention fits them.

Part ``averaged`` is the table of the means over the time in which all jobs overlap, part ``noisy``
another aggregation by the same people. Each fits `warren.cost.ring_fit` to all points, and to all
but those of one number of jobs, which it then predicts. ``least_absolute`` is the fit with the
least sum of absolute instead of squared relative errors, for comparison. ``fluid`` is the model of
`warren.cost.max_min`, which has no slope: jobs that send at once share a link equally. Its
bandwidth and overhead are fitted likewise, and in ``fluid_alone`` to a job alone, from which all
others are then predicted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import _common
import numpy as np
from _parts import ask, make_parts
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

from warren.cost.max_min import FluidNetwork, fluid_round_s_J
from warren.cost.ring_fit import RingFit, RingPoints, fit_ring

FOLDER: Final = _common.DATA / "profiles" / "hkbu_contention"
FILES: Final = {"averaged": "results_avg.csv", "noisy": "results.csv"}
HOSTS: Final = 4
"""One process on each, so workers and servers of every ring."""

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FluidFit:
    """Links of one rate, which jobs that all send at once share."""

    outer_bytes_per_s: float
    xi2_s: float
    error_N: Floats
    slope: float = 1.0

    def errors(self, points: RingPoints) -> Floats:
        """Of any points, predicted / measured - 1."""
        rates = np.full(HOSTS, self.outer_bytes_per_s)
        network = FluidNetwork(nic_bytes_per_s_S=rates, inner_bytes_per_s_S=rates, xi2_s=self.xi2_s)
        round_s_N = np.empty(len(points.time_s_N))
        for point, jobs in enumerate(points.contenders_N.tolist()):
            same = np.full(jobs, point)
            placed_JS = np.ones((jobs, HOSTS), dtype=np.int64)
            round_s_N[point] = fluid_round_s_J(network, points.where(same).jobs, placed_JS)[0]
        return round_s_N / points.time_s_N - 1


Fit: TypeAlias = Callable[[RingPoints], RingFit | FluidFit]


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(FILES))
    make = {part: partial(_fitted, FOLDER / name) for part, name in FILES.items()}
    made = make_parts("ring_tables", asked, make, seed=0, stated={"hosts": HOSTS}, cannot=_cannot)
    rows = [["part", "fit", "points", "xi1 (1 + alpha)", "mean", "median", "largest error"]]
    for part, found in made.items():
        for fit in ("least_squares", "least_absolute", "fluid", "fluid_alone"):
            for points in ("all", "left_out") if fit != "fluid_alone" else ("all",):
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
    fits = {"least_squares": fit_ring, "least_absolute": least_absolute, "fluid": fluid}
    alone = fluid_alone(points)
    return {
        "points": len(points.time_s_N),
        "messages_bytes": np.unique(points.message_bytes_N).astype(int).tolist(),
        "jobs": np.unique(points.contenders_N).tolist(),
        **{name: _judged(fit, points) for name, fit in fits.items()},
        "fluid_alone": {**_found(alone), "all": _errors(alone.error_N, points.contenders_N)},
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
        **_found(found),
        "all": _errors(found.error_N, jobs_N),
        "left_out": {**_errors(left_out_N, jobs_N), "slope_without": slopes},
    }


def _found(fit: RingFit | FluidFit) -> dict[str, Any]:
    return {
        "slope": round(fit.slope, 4),
        "outer_bytes_per_s": round(fit.outer_bytes_per_s),
        "xi2_s": round(fit.xi2_s, 6),
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


def fluid(points: RingPoints) -> FluidFit:
    """The two unknowns of `FluidFit` by the least squares of relative errors."""
    sent_N = points.jobs.sent_bytes_J * points.contenders_N
    columns = np.stack((points.servers_N, sent_N), axis=1)
    scale = columns.max(axis=0)
    found, _ = nnls(columns / scale / points.time_s_N[:, None], np.ones(len(sent_N)))
    xi2_s, s_per_byte = (found / scale).tolist()
    fit = FluidFit(1 / s_per_byte, xi2_s, np.empty(0))
    return replace(fit, error_N=fit.errors(points))


def fluid_alone(points: RingPoints) -> FluidFit:
    """`fluid` of the points of a job alone; the errors are those of all points."""
    fit = fluid(points.where(points.contenders_N == 1))
    return replace(fit, error_N=fit.errors(points))


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
