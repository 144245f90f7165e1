"""Define the request to a trace reader, and its answer for each row: a job, or a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from warren.model.costs import ProfileRow
from warren.model.job import Job
from warren.workload.text import shown

# Reasons why a row is no job, in several formats: one text, so that rows are counted together.
NO_DURATION: Final = "duration is 0: nothing to train"
STEP: Final = "is a step of another row's job"
PART_OF_GPU: Final = "asks for a part of a GPU and gets a whole one"

JOBS: Final = "jobs"
WINDOWS: Final = "windows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample:
    """What a trace's seeds vary: its ``jobs``, or ``windows`` of ``window_s`` seconds.

    ``window_s``: None: a tenth of the trace. ``file`` and ``field`` stand in messages.
    """

    what: str
    window_s: float | None = None
    file: str
    field: str = "workload.trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A request to read a trace: its text, the cluster's device types, and the rows to take.

    ``gang``: price Gavel's jobs as gangs. ``look``: rows are only looked at, so costs may be
    missing. ``throughputs_field`` names the option in messages. ``models``: costs of the models
    assumed for jobs with only a run time; empty: no model. ``columns``, ``units`` and ``delimiter``
    are those of ``any_table``. ``resample``: the draw of jobs from rows; None: each row is a job.
    """

    file: str
    content: bytes
    types: tuple[str, ...]
    run_seed: int = 0
    round_s: float = 60.0
    limit: int | None = None
    gpus_max: int | None = None
    leave_out: tuple[str, ...] = ()
    throughputs_file: str = ""
    throughputs: bytes | None = None
    throughputs_field: str = "workload.trace.throughputs"
    gang: bool = False
    look: bool = False
    models: tuple[ProfileRow, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","
    resample: Resample | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One job of a trace.

    ``line`` is its place in the file; ``name`` is the job's own, of any characters. ``run_ns`` is
    its run time alone on its ``gpus``, None if the trace does not have it. ``steps`` are its rounds
    if the trace counts them; ``prices`` then gives T^c and T^s of a step in seconds by device type,
    without the types it does not fit. ``pool`` is the part of the cluster it was submitted to.
    ``remarks`` describe changes and assumptions.
    """

    line: int
    name: str
    submitted_ns: int
    gpus: int
    run_ns: int | None = None
    steps: int | None = None
    prices: Mapping[str, tuple[float, float]] | None = None
    model: str = ""
    batch: int = 1
    weight: float = 1.0
    user: str = ""
    group: str = ""
    pool: str = ""
    remarks: tuple[str, ...] = ()


class BadRow(Exception):
    """A row that is no job: why, and the value that shows it."""

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__(reason, value)
        self.reason = reason
        self.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class NoJob:
    """A row that is no job of this run, for the count of those."""

    line: int
    reason: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in file order, the costs they name, and remarks on rows that were not used."""

    jobs: tuple[Job, ...]
    profiles: tuple[ProfileRow, ...]
    notes: tuple[str, ...] = ()


FIRST: Final = 10
"""Number of a reason's lines that are shown."""


@dataclass(slots=True)
class UnusedRows:
    """Counts of rows that were not used. ``unit`` is the name of a row in the notes."""

    unit: str = "line"
    rows: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, row: NoJob) -> None:
        """Count one row."""
        # By reason in the order of the first row of each: so are the notes.
        self.rows.setdefault(row.reason, []).append((row.line, row.value))

    @property
    def total(self) -> int:
        """Return the number of rows of all reasons."""
        return sum(len(found) for found in self.rows.values())

    def notes(self, file: str) -> Iterator[str]:
        """Yield a remark for each reason: how many rows, why, and where the first of them stand."""
        for reason, found in self.rows.items():
            what = "row" if len(found) == 1 else "rows"
            yield f"{file}: {len(found)} {what} not used: {reason} ({self._where(found)})"

    def _where(self, found: Iterable[tuple[int, str]]) -> str:
        rows = list(found)
        first = [
            f"{self.unit} {line}" + (f" {shown(value)}" if value else "")
            for line, value in rows[:FIRST]
        ]
        return ", ".join(first) + ("" if len(rows) <= FIRST else ", ...")
