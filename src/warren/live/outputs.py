"""Where a live run's files lie, and the metrics file of each job."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.units import ns_to_seconds


class Outputs:
    """Paths in the run's folder. ``metrics/JOB.csv`` is written here; the rest by its owners."""

    def __init__(self, folder: Path, jobs: tuple[Job, ...]) -> None:
        self._folder = folder.resolve()
        self._jobs = jobs
        bad = [job for job in jobs if Path(job.name).name != job.name or job.name.startswith(".")]
        if bad:
            message = "a live job's name names its files: no '/', no '.' in front"
            raise SpecError(Problem(file=bad[0].name, field="name", message=message))
        for part in ("params", "logs", "metrics"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        self._columns: dict[int, list[str]] = {}

    @property
    def run_log(self) -> Path:
        """What Warren's own processes print."""
        return self._folder / "run.log"

    def log(self, job: int) -> str:
        """What the user code of a job prints."""
        return str(self._folder / "logs" / f"{self._jobs[job].name}.log")

    def params(self, job: int) -> str:
        """The trained parameters of a job."""
        return str(self._folder / "params" / f"{self._jobs[job].name}.safetensors")

    def add_metrics(
        self, job: int, round_no: int, time_ns: int, loss: float, metrics: Mapping[str, float]
    ) -> None:
        """Append one row: round, cluster seconds, loss, then what was evaluated."""
        path = self._folder / "metrics" / f"{self._jobs[job].name}.csv"
        columns = self._columns.setdefault(job, [])
        new = [name for name in metrics if name not in columns]
        if new or not path.exists():
            columns.extend(new)
            _rewrite(path, ["round", "time_s", "loss", *columns])
        row = [round_no, ns_to_seconds(time_ns), loss, *(metrics.get(name, "") for name in columns)]
        with path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def _rewrite(path: Path, header: list[str]) -> None:
    """Put a longer header on a metrics file; earlier rows get empty cells."""
    rows = list(csv.reader(path.read_text().splitlines()))[1:] if path.exists() else []
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([row + [""] * (len(header) - len(row)) for row in rows])
    os.replace(part, path)
