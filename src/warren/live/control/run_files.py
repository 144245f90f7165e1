"""The paths of a live run's files, and the writer of each job's metrics file."""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from warren.live.training.checkpoints.files import write_all, write_whole
from warren.model.errors import Problem, SpecError
from warren.model.events import RoundsDone
from warren.model.job import ROUND_COLUMNS, Job, metric_column
from warren.model.units import ns_to_seconds
from warren.store.files import MAX_RESULT_BYTES, read

_LOGGER: Final = logging.getLogger("warren")
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
        """Remove the rows of rounds from this one on, which run again.

        A damaged file is reported and removed: it starts again.
        """
        path = self._metrics(job)
        self._close(job)
        if not os.path.lexists(path):
            return
        rows = _sound_rows(path)
        if rows is None:
            _LOGGER.warning("%s is damaged; it starts again at round %d", path, round_no)
            rows = [[*ROUND_COLUMNS]]
        self._columns[job] = rows[0][len(ROUND_COLUMNS) :]
        _write(path, rows[:1] + [row for row in rows[1:] if int(row[0]) < round_no])

    def restore_metrics(self, job: int, rounds: Iterable[RoundsDone]) -> None:
        """Write a job's metrics file again from its barriers; a damaged file is reported.

        Parameters
        ----------
        job : int
            The job's index.
        rounds : iterable of RoundsDone
            The barriers of any jobs in a journal, in order.
        """
        path = self._metrics(job)
        if os.path.lexists(path) and _sound_rows(path) is None:
            _LOGGER.warning("%s is damaged; it is written again from the journal", path)
        known = [one for one in rounds if one.job == job and one.loss is not None]
        columns = list(
            dict.fromkeys(metric_column(name) for one in known for name, _ in one.metrics)
        )
        rows = [
            _row(one.round + one.rounds - 1, one.barrier_ns, one.loss, dict(one.metrics), columns)
            for one in known
        ]
        if known or os.path.lexists(path):
            _write(path, [[*ROUND_COLUMNS, *columns], *rows])

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
            The metrics evaluated after it, by name; empty if there were none.
        """
        columns = self._columns.setdefault(job, [])
        # A metric seen for the first time is a new column: the whole file gets a longer header.
        new = [name for name in map(metric_column, metrics) if name not in columns]
        if new or job not in self._files:
            columns.extend(new)
            self._open(job, rewrite=bool(new))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(
            _row(round_no, time_ns, loss, metrics, columns)
        )
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


def _row(
    round_no: int,
    time_ns: int,
    loss: float | None,
    metrics: Mapping[str, float],
    columns: Sequence[str],
) -> list[object]:
    """Return a row of a metrics file with these columns of metrics."""
    values = {metric_column(name): value for name, value in metrics.items()}
    return [round_no, ns_to_seconds(time_ns), loss, *(values.get(name, "") for name in columns)]


def _rewrite(path: Path, header: list[str]) -> None:
    """Put a longer header on a metrics file; earlier rows get empty cells."""
    rows = (_sound_rows(path) or [])[1:]
    _write(path, [header, *(row + [""] * (len(header) - len(row)) for row in rows)])


def _sound_rows(path: Path) -> list[list[str]] | None:
    """Return the header and the whole rows of a metrics file; None if it is damaged or not there.

    The last row is torn if the disk filled up.
    """
    try:
        text = read(path, MAX_RESULT_BYTES).decode()
        header, *rows = csv.reader(text.splitlines())
        whole = [row for row in rows if len(row) == len(header)]
        sound = header[: len(ROUND_COLUMNS)] == [*ROUND_COLUMNS]
        return [header, *whole] if sound and all(int(row[0]) >= 0 for row in whole) else None
    except (OSError, ValueError, csv.Error):
        return None


def _write(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Replace a file at once: a reader, a kill or a power cut never sees half of it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(path, text.getvalue().encode())
