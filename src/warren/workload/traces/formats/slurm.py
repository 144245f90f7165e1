"""Slurm's accounting, as ``sacct -P`` writes it: a row a job, and a row a step of it.

*Source.* The manual of ``sacct``: JobID or JobIDRaw; Submit; Elapsed or ElapsedRaw, else Start and
End; AllocTRES, ReqTRES, AllocGRES or ReqGRES; and State, Start, User, JobName, Partition, NNodes if
they are there.

*Differs.* Steps (``7.batch``) are parts of their job's row and counted. Jobs that completed, failed
or were cancelled while they ran are all jobs; a job that has not ended counts by its time so far.
Several rows of one id, user and name are runs of one requeued job: it is submitted with the first,
and takes the time of all. A component of a heterogeneous job (``7+1``) is a job. GPUs are those of
AllocTRES; if that has none, of ReqTRES, AllocGRES or ReqGRES, the last of which counts those of one
node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, cells_of
from warren.workload.traces.format import TraceFormat, TraceHead, cells_in, head_of
from warren.workload.traces.formats.any_table import CLOCK, DATE, SEPARATORS, time_cell_ns
from warren.workload.traces.rows import PART_OF_GPU, STEP, BadRow, NoJob, TraceRequest, TraceRow
from warren.workload.traces.slurm_cells import (
    NEVER_RAN,
    NOT_ENDED,
    UNDER_WAY,
    WAITING,
    gpus_of,
    job_of_step,
    state_of,
    tells_nothing,
)

_IDS: Final = ("jobid", "jobidraw")
_LENGTHS: Final = ("elapsed", "elapsedraw", "end")
_GPUS: Final = ("alloctres", "reqtres", "allocgres", "reqgres")
_NODES: Final = ("nnodes", "allocnodes", "reqnodes")
_REQUEUED: Final = "was requeued: its runs are one job, submitted with the first of them"
_HETEROGENEOUS: Final = "is a component of a heterogeneous job: each component is a job here"
_OF_A_NODE: Final = "has GPUs in ReqGRES alone, which counts those of one node: times its nodes"


@dataclass(slots=True, kw_only=True)
class _Job:
    """The sums over the runs of one job, which has several if it was requeued."""

    line: int
    name: str
    submitted_ns: int
    user: str
    pool: str
    run_ns: int = 0
    gpus: float = 0.0
    runs: int = 0
    waits: NoJob | None = None
    remarks: dict[str, None] = field(default_factory=dict)


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    """Yield a row a job, from all rows of it, and the steps of all jobs after them."""
    names, delimiter = _header(head_of(request.file, request.content))
    needs = tuple(names[one] for one in names if one in (*_IDS, "submit", *_GPUS))
    jobs: dict[tuple[str, ...], _Job] = {}
    uses: dict[str, int] = {}
    steps: list[NoJob] = []
    for cells in cells_of(replace(request, delimiter=delimiter), needs):
        if isinstance(cells, NoJob):
            yield cells
            continue
        cell = _Cells(cells, names)
        name = cell.first(_IDS)
        if job_of_step(name) is not None:
            steps.append(NoJob(line=cells.line, reason=STEP, value=name))
            continue
        key = (name, cell["user"], cell["jobname"])
        if name and key not in jobs:
            # Ids that were used again are those of another job.
            uses[name] = uses.get(name, 0) + 1
        try:
            _add(jobs, key if name else (str(cells.line),), cell, uses.get(name, 1))
        except BadRow as bad:
            yield NoJob(line=cells.line, reason=bad.reason, value=bad.value)
    for job in jobs.values():
        yield _row(job)
    yield from steps


class _Cells:
    """The cells of a row by the names of their columns in small letters; empty: none."""

    def __init__(self, cells: CsvCells, names: Mapping[str, str]) -> None:
        self.row = cells
        self._names = names

    def __getitem__(self, name: str) -> str:
        return self.row.values.get(self._names.get(name, ""), "")

    def first(self, names: tuple[str, ...]) -> str:
        """Return the first of these cells that tells something; empty if none does."""
        return next((self[name] for name in names if not tells_nothing(self[name])), "")

    def when_ns(self, name: str) -> int:
        """Return an instant: a date, or seconds since 1970.

        Raises BadRow if the cell is none.
        """
        value = self[name]
        found = time_cell_ns(value, "s" if value.isdigit() else DATE)
        if found is None:
            raise BadRow(f"{name} is not a time", value)
        return found

    def run_ns(self) -> int:
        """Return for how long the row's job ran.

        Raises BadRow if no cell tells it.
        """
        if not tells_nothing(self["elapsedraw"]):
            found, value = time_cell_ns(self["elapsedraw"], "s"), self["elapsedraw"]
        elif not tells_nothing(self["elapsed"]):
            found, value = time_cell_ns(self["elapsed"], CLOCK), self["elapsed"]
        elif tells_nothing(self["start"]):
            return 0
        elif tells_nothing(self["end"]):
            raise BadRow("has not ended, and no Elapsed tells how long it has run")
        else:
            found, value = self.when_ns("end") - self.when_ns("start"), ""
            if found < 0:
                raise BadRow("ends before it starts")
        if found is None:
            raise BadRow("elapsed is not a run time", value)
        return found

    def gpus(self) -> tuple[float, str]:
        """Return the GPUs of the row, and the assumption about them."""
        for name in _GPUS:
            value = self[name]
            if tells_nothing(value):
                continue
            found = gpus_of(value)
            if found is None:
                raise BadRow(f"{name} is no list of resources", value)
            nodes = self.first(_NODES)
            if found and name == "reqgres" and nodes.isdigit() and int(nodes) > 1:
                return found * int(nodes), _OF_A_NODE
            if found:
                return found, ""
        return 0.0, ""


def _add(jobs: dict[tuple[str, ...], _Job], key: tuple[str, ...], cell: _Cells, use: int) -> None:
    """Count a row as one run of its job.

    Raises BadRow if it is none.
    """
    row = cell.row
    submitted_ns, run_ns = cell.when_ns("submit"), cell.run_ns()
    gpus, assumed = cell.gpus()
    state = state_of(cell["state"])
    name = cell.first(_IDS) or row.row_name
    if key not in jobs:
        jobs[key] = _Job(
            line=row.line,
            name=name if use == 1 else f"{name}#{use}",
            submitted_ns=submitted_ns,
            user=cell["user"],
            pool=cell["partition"],
        )
    job = jobs[key]
    job.submitted_ns = min(job.submitted_ns, submitted_ns)
    job.gpus = max(job.gpus, gpus)
    # It waits, or was cancelled while it did: no Start, or none that Slurm would not make up.
    if run_ns == 0 and (state in WAITING or tells_nothing(cell["start"])):
        job.waits = NoJob(line=row.line, reason=f"{NEVER_RAN}: {state or 'no state'}", value=name)
    else:
        job.run_ns += run_ns
        job.runs += 1
    remarks = {
        assumed: bool(assumed),
        NOT_ENDED: state in UNDER_WAY,
        _REQUEUED: job.runs > 1,
        _HETEROGENEOUS: "+" in name,
    }
    job.remarks.update(dict.fromkeys(remark for remark, holds in remarks.items() if holds))


def _row(job: _Job) -> TraceRow | NoJob:
    # A job that asks for no GPU is reported for that, whether it ran or not.
    if not job.runs and job.gpus and job.waits is not None:
        return job.waits
    if job.gpus != ceil(job.gpus):
        job.remarks[PART_OF_GPU] = None
    return TraceRow(
        line=job.line,
        name=job.name,
        submitted_ns=job.submitted_ns,
        gpus=ceil(job.gpus),
        run_ns=job.run_ns,
        user=job.user,
        pool=job.pool,
        remarks=tuple(job.remarks),
    )


def _header(head: TraceHead) -> tuple[dict[str, str], str]:
    """Return the columns by their names in small letters, and the separator of cells."""
    line = head.text.split("\n", 1)[0].rstrip("\r")
    delimiter = max(SEPARATORS.values(), key=line.count)
    # Reversed: of two columns of one name the first counts.
    names = cells_in(line, delimiter)
    return {name.lower(): name for name in reversed(names) if name}, delimiter


def _looks(head: TraceHead) -> bool:
    names, _ = _header(head)
    return "submit" in names and all(any(map(names.get, one)) for one in (_IDS, _LENGTHS, _GPUS))


FORMAT: Final = TraceFormat(looks=_looks, read=_read)
