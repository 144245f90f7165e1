"""A live run's own times of tasks, for a simulation of it that is made afterwards.

A machine may be faster or slower in a run than when its jobs were measured a minute before. What is
left of the error once the simulator has the run's own times is the model's.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import yaml

from warren.core.journal_reader import read_history


def with_live_comp(costs: Path, live: Path, simulated: Path, out: Path) -> Path:
    """Write the profiles of ``costs`` to ``out``, T^c of each job as long as it was in a live run.

    A row is scaled by the seconds that the job's tasks computed in the live run over those in the
    simulation from ``costs``, so that what tasks on other devices add to both is not counted twice.
    """
    rows = yaml.safe_load(costs.read_text())
    taken_s, predicted_s = _computed_s(live), _computed_s(simulated)
    for job, seconds in taken_s.items():
        row = rows[f"measured:{job}"]
        ratio = seconds / predicted_s[job]
        row["comp"] = {kind: comp * ratio for kind, comp in row["comp"].items()}
    out.write_text(yaml.safe_dump(rows))
    return out


def _computed_s(run: Path) -> dict[str, float]:
    """Seconds that the tasks of each job computed, by its name."""
    with (run / "jobs.csv").open() as file:
        names = [row["job"] for row in csv.DictReader(file)]
    line = read_history((run / "journal").read_bytes()).timeline
    busy_ns_J = np.bincount(line.job_R, weights=line.busy_ns_R, minlength=len(names))
    return dict(zip(names, (busy_ns_J / 1e9).tolist(), strict=True))
