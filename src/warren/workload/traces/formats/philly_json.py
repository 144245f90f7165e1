"""Microsoft's Philly trace as published: ``cluster_job_log``, one JSON list of jobs.

*Source.* Jeon et al., ATC'19 (msr-fiddle/philly-traces). A job has ``jobid``, ``vc``, ``user``,
``status``, ``submitted_time`` and ``attempts``; an attempt ``start_time``, ``end_time`` and
``detail``, a list of servers with the ``gpus`` used on each. Times have no time zone; those of
attempts may be null or ``"None"``.

*Differs.* GPUs are those of the first attempt that lists any, as in the authors' analysis. The
run time is the sum over the attempts that began and ended: a job that was tried again trained
again. Jobs that passed, failed or were killed are all jobs: they took their GPUs. Costs are those
of run times only, as for the flat table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.traces.csv_cells import CsvCells, since_1970_ns, text_of, tried
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import BadRow, NoJob, TraceRequest, TraceRow

_UNKNOWN: Final = frozenset({"", "None"})


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    try:
        jobs = json.loads(text_of(request))
    except (ValueError, RecursionError):
        raise SpecError(Problem(file=request.file, message="is not JSON")) from None
    if not isinstance(jobs, list):
        message = "expected a JSON list of jobs, as in Philly's cluster_job_log"
        raise SpecError(Problem(file=request.file, message=message))
    for number, job in enumerate(jobs, start=1):
        if isinstance(job, dict):
            # Cells are text; values of other types count as missing.
            texts = {key: value for key, value in job.items() if isinstance(value, str)}
            cells = CsvCells(line=number, number=number, values=texts)
            yield tried(partial(_row, attempts=job.get("attempts")), cells)
        else:
            yield NoJob(line=number, reason="is no mapping")


def _row(cells: CsvCells, attempts: Any) -> TraceRow:
    listed = attempts if isinstance(attempts, list) else []
    tries = [one for one in listed if isinstance(one, dict)]
    if not tries:
        raise BadRow("has no attempt: it never ran")
    return TraceRow(
        line=cells.line,
        name=cells.name("jobid"),
        submitted_ns=cells.when_ns("submitted_time"),
        # The first attempt that lists any GPUs.
        gpus=next((gpus for gpus in map(_gpus, tries) if gpus > 0), 0),
        run_ns=_run_ns(tries),
        user=cells.text("user"),
        pool=cells.text("vc"),
    )


def _gpus(attempt: dict[str, Any]) -> int:
    """Return the number of GPUs that an attempt lists, on all its servers."""
    servers = attempt.get("detail")
    if not isinstance(servers, list):
        return 0
    lists = [server.get("gpus") for server in servers if isinstance(server, dict)]
    return sum(len(gpus) for gpus in lists if isinstance(gpus, list))


def _run_ns(tries: list[dict[str, Any]]) -> int:
    """Return the sum of the run times of the attempts that began and ended, in nanoseconds."""
    # A null becomes "None" here, as it stands in other rows of the trace.
    spans = [(str(one.get("start_time")), str(one.get("end_time"))) for one in tries]
    ended = [span for span in spans if not _UNKNOWN & {*span}]
    if not ended:
        raise BadRow("no attempt has both its start and its end")
    try:
        runs_ns = [since_1970_ns(end) - since_1970_ns(start) for start, end in ended]
    except ValueError as error:
        raise BadRow("the time of an attempt is not a time", str(error)) from None
    if min(runs_ns) < 0:
        raise BadRow("an attempt ends before it starts")
    return sum(runs_ns)


FORMAT: Final = TraceFormat(
    looks=lambda head: head.text[:1] in ("[", "{") and '"submitted_time"' in head.text,
    read=_read,
    unit="entry",
)
