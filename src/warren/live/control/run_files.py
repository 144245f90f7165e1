"""The paths of a live run's files, and the writer of each job's metrics file."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from warren.live.training.checkpoints.files import write_all
from warren.model.errors import Problem, SpecError
from warren.model.job import ROUND_COLUMNS, Job, metric_column
from warren.model.units import ns_to_seconds

_OPEN_FILES: Final = 64
"""Metrics files that stay open: to open one for each row would take longer than to write it."""


class RunFiles:
    """Paths in the run's folder. ``metrics/JOB.csv`` is written here; the rest by its owners.

    Parameters
    ----------
    folder : Path
        The run's folder; ``params``, ``logs`` and ``metrics`` are made in it.
    jobs : tuple of Job
        The jobs of the run, whose names become file names.

    Raises
    ------
    SpecError
        If a job's name cannot name a file.
    """

    def __init__(self, folder: Path, jobs: tuple[Job, ...]) -> None:
        self._folder = folder.resolve()
        # A name with a separator would lead out of the folder; one with a dot may be hidden or up.
        self._jobs = jobs
        bad = [job for job in jobs if Path(job.name).name != job.name or job.name.startswith(".")]
        if bad:
            message = "a live job's name names its files: no '/', no '.' in front"
            raise SpecError(Problem(file=bad[0].name, field="name", message=message))
        for part in ("params", "logs", "metrics"):
            (self._folder / part).mkdir(parents=True, exist_ok=True)
        self._columns: dict[int, list[str]] = {}
        self._files: dict[int, int] = {}

    def close(self) -> None:
        """Close the metrics files; the next row opens its own again."""
        for job in list(self._files):
            self._close(job)

    @property
    def run_log(self) -> Path:
        """The file that Warren's own processes print to."""
        return self._folder / "run.log"

    def log(self, job: int) -> str:
        """Return the file that the user code of a job prints to."""
        return str(self._folder / "logs" / f"{self._jobs[job].name}.log")

    def params(self, job: int) -> str:
        """Return the file of a job's trained parameters."""
        return str(self._folder / "params" / f"{self._jobs[job].name}.safetensors")

    def checkpoints(self, job: int) -> Path:
        """Return the folder of a job's checkpoints; it stays if the job fails."""
        return self._folder / "checkpoints" / self._jobs[job].name

    def drop_checkpoints(self, job: int) -> None:
        """Remove a job's checkpoints, which are not needed any more."""
        folder = self.checkpoints(job)
        shutil.rmtree(folder, ignore_errors=True)
        # The folder of all checkpoints goes with the last job's; with others in it, it stays.
        with contextlib.suppress(OSError):
            folder.parent.rmdir()

    def drop_metrics(self, job: int, round_no: int) -> None:
        """Remove the rows of rounds from this one on, which run again."""
        path = self._metrics(job)
        if not path.exists():
            return
        self._close(job)
        rows = list(csv.reader(path.read_text().splitlines()))
        self._columns[job] = rows[0][len(ROUND_COLUMNS) :]
        # The last row is torn if the disk filled up.
        whole = [row for row in rows[1:] if len(row) == len(rows[0])]
        _write(path, rows[:1] + [row for row in whole if int(row[0]) < round_no])

    def add_metrics(
        self, job: int, round_no: int, time_ns: int, loss: float, metrics: Mapping[str, float]
    ) -> None:
        """Append one row to a job's metrics file.

        Parameters
        ----------
        job : int
            The job's index.
        round_no : int
            The round that the row is about.
        time_ns : int
            Its barrier in cluster time; the file has seconds.
        loss : float
            The mean loss of its tasks.
        metrics : mapping of str to float
            What was evaluated after it, by name; empty where nothing was.
        """
        columns = self._columns.setdefault(job, [])
        values = {metric_column(name): value for name, value in metrics.items()}
        # A metric seen for the first time is a new column: the whole file gets a longer header.
        new = [name for name in values if name not in columns]
        if new or job not in self._files:
            columns.extend(new)
            self._open(job, rewrite=bool(new))
        text = io.StringIO()
        row = [round_no, ns_to_seconds(time_ns), loss, *(values.get(name, "") for name in columns)]
        csv.writer(text, lineterminator="\n").writerow(row)
        write_all(self._files[job], text.getvalue().encode())

    def _metrics(self, job: int) -> Path:
        """Return a job's metrics file."""
        return self._folder / "metrics" / f"{self._jobs[job].name}.csv"

    def _open(self, job: int, *, rewrite: bool) -> None:
        """Open a job's file for its next row; ``rewrite``: put a header of all columns on it."""
        self._close(job)
        path = self._metrics(job)
        if rewrite or not path.exists():
            _rewrite(path, [*ROUND_COLUMNS, *self._columns[job]])
        # The files that were opened longest ago make room for this one.
        for other in list(self._files)[: max(0, len(self._files) + 1 - _OPEN_FILES)]:
            self._close(other)
        self._files[job] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def _close(self, job: int) -> None:
        if job in self._files:
            os.close(self._files.pop(job))


def _rewrite(path: Path, header: list[str]) -> None:
    """Put a longer header on a metrics file; earlier rows get empty cells."""
    rows = list(csv.reader(path.read_text().splitlines()))[1:] if path.exists() else []
    _write(path, [header, *(row + [""] * (len(header) - len(row)) for row in rows)])


def _write(path: Path, rows: list[list[str]]) -> None:
    """Replace a file at once: a reader or a kill never meets half of it."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    os.replace(part, path)
