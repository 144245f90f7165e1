"""Microsoft's Philly trace as a flat table: submission, run time, GPUs, virtual cluster.

*Source.* Jeon et al., ATC'19; the flattened form with columns ``timestamp, duration, num_gpus,
gpu_time, cluster``. Rows are not sorted, and equal rows are real: jobs submitted in bursts.

*Differs.* The trace knows run times only. A job of run time T on g GPUs becomes
ceil(T / ``round_s``) rounds of g tasks, each ``round_s`` long on every device type and without
synchronisation: run alone on g devices it takes T, rounded up to whole rounds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.workload.build_jobs import job_seed
from warren.workload.schema_job import MAX_SCALE
from warren.workload.text import decoded, shown, unpacked
from warren.workload.traces.request import (
    Trace,
    TraceRequest,
    Unused,
    first_by_arrival,
    from_first_arrival,
)

COST: Final = "philly"
_COLUMNS: Final = ("timestamp", "duration", "num_gpus", "cluster")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_SECONDS: Final = re.compile(r"\d{1,15}(\.\d{0,20})?")
_GPUS: Final = re.compile(r"\d{1,9}")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the trace states no time zone


def read_philly(request: TraceRequest) -> Trace:
    """Jobs ``row-<n>`` (n-th row after the header) with the cost row ``philly``.

    Raises
    ------
    SpecError
        If the text is not UTF-8 or a column is missing.
    """
    unused = Unused()
    found = list(_jobs(request, unused))
    kept = first_by_arrival(found, request.limit)
    notes = list(unused.notes(request.file))
    if len(kept) < len(found):
        notes.append(f"{request.file}: {len(found) - len(kept)} later rows not used: limit")
    return Trace(
        jobs=tuple(from_first_arrival(kept)), profiles=(_cost(request),), notes=tuple(notes)
    )


def _cost(request: TraceRequest) -> ProfileRow:
    return ProfileRow(
        model=COST,
        batch=0,
        model_bytes=0,
        memory_bytes=0,
        comp_s=dict.fromkeys(request.types, request.round_s),
        sync_s=dict.fromkeys(request.types, 0.0),
        source={"comp": "round_s of the run file", "sync": "the trace states run times only"},
    )


def _jobs(request: TraceRequest, unused: Unused) -> Iterator[tuple[int, int, Job]]:
    text = decoded(request.file, unpacked(request.file, request.content))
    reader = csv.reader(io.StringIO(text, newline=""))
    round_ns = max(1, seconds_to_ns(request.round_s))
    try:
        columns = _columns(request.file, next(reader, []))
        for number, row in enumerate((row for row in reader if row), start=1):
            reason = _reason(row, columns, request)
            if reason is not None:
                unused.add(reader.line_num, reason)
                continue
            when, duration, gpus, _ = (row[column] for column in columns)
            name = f"row-{number}"
            job = Job(
                index=0,
                name=name,
                scale=int(gpus),
                rounds=-(-seconds_to_ns(float(duration)) // round_ns),
                seed=job_seed(request.run_seed, name),
                cost=COST,
            )
            yield _submitted_ns(when), number, job
    except csv.Error as error:
        message = f"is not CSV: {error}"
        raise SpecError(Problem(file=request.file, line=reader.line_num, message=message)) from None


def _columns(file: str, header: list[str]) -> list[int]:
    names = [name.strip() for name in header]
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        message = f"is no Philly table: columns missing: {', '.join(missing)}"
        raise SpecError(Problem(file=file, line=1, message=message))
    return [names.index(name) for name in _COLUMNS]


def _reason(row: list[str], columns: list[int], request: TraceRequest) -> str | None:
    """Why a row is no job of this run; None if it is one."""
    if len(row) <= max(columns):
        return "too few cells"
    when, duration, gpus, cluster = (row[column] for column in columns)
    if not _TIMESTAMP.fullmatch(when) or _submitted_ns(when) < 0:
        return f"timestamp {shown(when)} is not a time"
    if not _SECONDS.fullmatch(duration) or float(duration) > 1e9:
        return f"duration {shown(duration)} is not a number of seconds"
    if seconds_to_ns(float(duration)) == 0:
        return "duration is 0: nothing to train"
    if not _GPUS.fullmatch(gpus) or not 1 <= int(gpus) <= MAX_SCALE:
        return f"num_gpus {shown(gpus)} is not a number of GPUs"
    if request.gpus_max is not None and int(gpus) > request.gpus_max:
        return f"more than gpus_max ({request.gpus_max}) GPUs"
    if cluster in request.leave_out:
        return f"cluster {cluster} is in leave_out"
    return None


def _submitted_ns(when: str) -> int:
    """Nanoseconds since 1970; -1 for a date that does not exist or is after 2100."""
    try:
        since = datetime.fromisoformat(when) - _EPOCH
    except ValueError:
        return -1
    if since.days > 47_500:
        return -1
    return (since.days * 86_400 + since.seconds) * NS_PER_S
