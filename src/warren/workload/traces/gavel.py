"""Gavel's traces, and Shockwave's, which add two fields; priced by ``throughputs.py``.

*Source.* Narayanan et al., OSDI'20 (stanford-futuredata/gavel) and Zheng et al., NSDI'23
(uw-mad-dash/shockwave). TAB separated, no header. 7 fields: job type, command, steps argument,
needs data, total steps, arrival s, GPUs. 10 fields: job type, command, folder, steps argument,
needs data, total steps, GPUs, priority weight, SLO s, arrival s. Shockwave's 12 have a mode before
the weight and a duration (s) after the SLO.

*Differs.* One step is one round of as many tasks as the job has GPUs. SLOs and modes are not used:
batch sizes do not change during a run. A line of 12 fields costs what the throughputs say; where
none are given, its duration over its steps on every device type, all of it T^c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.traces.csv_cells import Cells, run_ns, text_of, tried
from warren.workload.traces.formats import Format
from warren.workload.traces.rows import NO_DURATION, BadRow, NoJob, Row, TraceRequest
from warren.workload.traces.throughputs import Throughputs, prices, read_throughputs

_FIELDS: Final[Mapping[int, Mapping[str, int]]] = {
    7: {"job type": 0, "total steps": 4, "arrival": 5, "scale factor": 6},
    10: {"job type": 0, "total steps": 5, "scale factor": 6, "priority weight": 7, "arrival": 9},
    12: {
        "job type": 0, "total steps": 5, "scale factor": 6, "priority weight": 8, "duration": 10,
        "arrival": 11,
    },
}  # fmt: skip
"""Position of what is used, by the number of fields of a line."""
_BATCH: Final = re.compile(r"\(batch size (\d{1,9})\)")

Prices = Mapping[str, tuple[float, float]]


def _read(request: TraceRequest) -> Iterator[Row | NoJob]:
    table = None
    if request.throughputs is not None:
        table = read_throughputs(request.throughputs_file, request.throughputs, request.types)
    for line, content in enumerate(text_of(request).split("\n"), start=1):
        if not content.strip():
            continue
        fields = content.rstrip("\r").split("\t")
        where = _FIELDS.get(len(fields))
        if where is None:
            reason = "the fields with TABs between are not 7, 10 or 12"
            yield NoJob(line=line, reason=reason, value=f"{len(fields)} fields")
            continue
        values = {name: fields[place].strip() for name, place in where.items()}
        if table is None and "duration" not in values and not request.look:
            raise SpecError(_no_throughputs(request))
        cells = Cells(line=line, number=line, values=values)
        yield tried(lambda cells: _row(cells, table, request), cells)


def _row(cells: Cells, table: Throughputs | None, request: TraceRequest) -> Row:
    job_type = cells.text("job type")
    if not job_type:
        raise BadRow("job type is not a name")
    weight = cells.number_of("priority weight") if "priority weight" in cells.values else 1.0
    if weight <= 0:
        raise BadRow("priority weight is not more than 0", cells.values["priority weight"])
    gpus, steps = cells.count("scale factor", 1), cells.count("total steps", 1)
    costs = _costs(cells, table, request)
    run_s = None if costs is None else steps * min(comp + sync for comp, sync in costs.values())
    return Row(
        line=cells.line,
        name=f"job-{cells.line}",
        submitted_ns=cells.time_ns("arrival"),
        gpus=gpus,
        run_ns=None if run_s is None else run_ns(run_s),
        steps=steps,
        prices=costs,
        model=job_type,
        batch=batch_of(job_type),
        weight=weight,
    )


def batch_of(job_type: str) -> int:
    """The batch that a job type names, else 1."""
    batch = _BATCH.search(job_type)
    return max(1, int(batch[1])) if batch else 1


def _costs(cells: Cells, table: Throughputs | None, request: TraceRequest) -> Prices | None:
    if table is not None:
        key = cells.values["job type"], cells.count("scale factor", 1)
        found = prices(table, *key, request.types, gang=request.gang)
        if not found:
            types = ", ".join(request.types)
            reason = f"no throughput for its job type and number of GPUs on {types}"
            raise BadRow(reason, f"{key[0]} on {key[1]}")
        return found
    if "duration" not in cells.values:
        return None
    if cells.time_ns("duration") == 0:
        raise BadRow(NO_DURATION)
    step_s = cells.number_of("duration") / cells.count("total steps", 1)
    return dict.fromkeys(request.types, (step_s, 0.0))


def _no_throughputs(request: TraceRequest) -> Problem:
    message = "a gavel trace needs throughputs: PATH of Gavel's simulation_throughputs.json"
    return Problem(file=request.file, field=request.throughputs_field, message=message)


FORMAT: Final = Format(
    what="Gavel (7 or 10 fields) and Shockwave (12)",
    looks=lambda head: head.tabs + 1 in _FIELDS,
    read=_read,
    types=("V100", "P100", "K80"),
    costs={"comp": "Gavel's simulation_throughputs.json", "sync": "k-GPU step less T^c"},
)
