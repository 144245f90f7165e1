"""The file of a calibrated network, which ``network:`` of a cluster names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from warren.cost.ring import Reading, round_at_s_J
from warren.cost.ring_fit import RingPoints
from warren.cost.ring_readings import ReadingFit, fit_readings, inner_bytes_per_s, unsure
from warren.model.costs import BoolArray, FloatArray
from warren.model.errors import EngineError
from warren.runs.calibration.ring_rounds import RingRow, inner_of, points_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RingCalibration:
    """A measured network of rings: the rows, the points to fit, and both fits, the better first.

    ``points`` are the rows between hosts; ``inner_bytes_per_s`` is the rate within one, 0 where no
    row tells it.
    """

    rows: tuple[RingRow, ...]
    points: RingPoints
    inner_bytes_per_s: float
    fits: Mapping[Reading, ReadingFit]

    @property
    def best(self) -> ReadingFit:
        """The fit that is stored."""
        return next(iter(self.fits.values()))

    def fitted_round_s(self, of_N: BoolArray, contenders: FloatArray) -> FloatArray:
        """Return the time of a round of rings by the stored fit, from the number of contenders.

        The rings are like the first of the points ``of_N``. Contenders need not be whole numbers:
        a picture draws a curve through them.
        """
        own = self.points.where(of_N)
        like = own.where(np.zeros(len(contenders), dtype=np.int64))
        network = self.best.network
        return round_at_s_J(network, like.jobs, contenders, like.servers_N)  # type: ignore[arg-type]


def calibrated(rows: Sequence[RingRow]) -> RingCalibration:
    """Fit the measured rows.

    Raises EngineError if they determine no bandwidth, or no contention.
    """
    points, inner = points_of(rows), inner_bytes_per_s(*inner_of(rows))
    try:
        fits = fit_readings(points, inner or np.inf)
    except ValueError as error:
        raise EngineError(f"rings: the rounds measured cannot be fitted: {error}") from None
    return RingCalibration(rows=tuple(rows), points=points, inner_bytes_per_s=inner, fits=fits)


def network_yaml(found: RingCalibration, machine: Mapping[str, str | float]) -> str:
    """Return the file's text, with its data and the quality of the fit, for people."""
    # 8e-6: from bytes a second to Mbit/s.
    best = found.best.network
    lines = [
        "# Made by `warren calibrate --rings`; `network:` of a cluster file names it.",
        "format: 1",
        "model: contention",
        f"reading: {best.reading}",
        f"xi1: {best.xi1:.4g}",
        f"xi2: {1e3 * best.xi2_s:.4g} ms",
        f"alpha: {best.alpha:.4g}",
        f"outer: {8e-6 * best.outer_bytes_per_s:.4g} Mbit",
    ]
    if found.inner_bytes_per_s:
        lines.append(f"inner: {8e-6 * found.inner_bytes_per_s:.4g} Mbit")
    lines += ["machine:", *(f"  {name}: {json.dumps(fact)}" for name, fact in machine.items())]
    lines.append("fit:")
    for reading, fit in found.fits.items():
        lines.append(f"  {reading}: {json.dumps(_told(fit))}")
    lines.append(f"  not_told_by_the_data: {json.dumps(unsure(found.points, best.reading))}")
    lines.append("measured:")
    lines += [f"  - {json.dumps(row)}" for row in _rows(found)]
    return "".join(f"{line}\n" for line in lines)


def _told(fit: ReadingFit) -> dict[str, Any]:
    """Return the file's entries about a fit: its constants and its relative errors."""
    network = fit.network
    return {
        "xi1": round(network.xi1, 4),
        "xi2_ms": round(1e3 * network.xi2_s, 4),
        "alpha": round(network.alpha, 4),
        "outer_mbit": round(8e-6 * network.outer_bytes_per_s, 2),
        "error": shares(fit.error_N),
        "left_out_error": shares(fit.left_out_N),
    }


def shares(error_N: Any) -> dict[str, float]:
    """Return mean and largest of the absolute relative errors that are known."""
    off_N = np.abs(error_N[np.isfinite(error_N)])
    if not len(off_N):
        return {}
    return {"mean": round(float(off_N.mean()), 4), "largest": round(float(off_N.max()), 4)}


def _rows(found: RingCalibration) -> list[dict[str, Any]]:
    """Return the rows as measured, with the stored fit's error (fitted / measured - 1)."""
    # Rows within a host (no contenders) were not fitted, so they have no error.
    errors = iter(found.best.error_N.tolist())
    return [
        asdict(row) | ({"error": round(next(errors), 4)} if row.contenders else {})
        for row in found.rows
    ]
