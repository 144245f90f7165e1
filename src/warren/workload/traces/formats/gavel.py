"""Gavel's traces, and Shockwave's, which add two fields; priced by measured throughputs.

*Source.* Narayanan et al., OSDI'20 (stanford-futuredata/gavel) and Zheng et al., NSDI'23
(uw-mad-dash/shockwave). TAB separated, no header. 7 fields: job type, command, steps argument,
needs data, total steps, arrival s, GPUs. 10 fields: job type, command, folder, steps argument,
needs data, total steps, GPUs, priority weight, SLO s, arrival s. Shockwave's 12 have a mode before
the weight and a duration (s) after the SLO.

*Differs.* One step is one round of as many tasks as the job has GPUs. SLOs and modes are not used:
batch sizes do not change during a run. The throughputs give the cost of a line of 12 fields;
without throughputs it is its duration over its steps on every device type, all of it T^c.

*Throughputs* (``simulation_throughputs.json`` there) are ``{worker type: {"('JOB TYPE', GPUS)":
{"null": steps a second alone}}}``. *Differs.* T^c is the least of the step on one GPU and the step
on k GPUs, and T^s = max(0, step on k GPUs - T^c): k devices of one type take a step in Gavel's
time, and a task alone does not pay for devices that it does not wait for. As a ``gang`` T^c is the
step on k GPUs and T^s is 0: nothing is gained by running the tasks of a round one after the other.
A throughput of 0 means that the job does not fit that type. Throughputs of shared GPUs are not
used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.text import decoded, shown, unpacked
from warren.workload.traces.csv_cells import CsvCells, run_ns, text_of, tried
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.rows import NO_DURATION, BadRow, NoJob, TraceRequest, TraceRow

_KEY: Final = re.compile(r"\('(.{1,150})', (\d{1,6})\)")

Throughputs = Mapping[tuple[str, int], Mapping[str, float]]
"""Steps a second alone, by (job type, GPUs) and by device type."""


def read_throughputs(file: str, content: bytes, types: tuple[str, ...]) -> Throughputs:
    """Read the table for these device types; its worker types match them in any case.

    Raises SpecError if the content is no such table.
    """
    try:
        table = json.loads(decoded(file, unpacked(file, content)))
    except (ValueError, RecursionError):
        raise SpecError(Problem(file=file, message="is not JSON")) from None
    result: dict[tuple[str, int], dict[str, float]] = {}
    for name in types:
        for key, rate in _rates(file, table, name):
            result.setdefault(key, {})[name] = rate
    return result


def prices(
    throughputs: Throughputs, job_type: str, gpus: int, types: tuple[str, ...], *, gang: bool
) -> dict[str, tuple[float, float]]:
    """Return T^c and T^s in seconds by device type, without the types that it does not fit."""
    together = throughputs.get((job_type, gpus), {})
    alone = throughputs.get((job_type, 1), {})
    found: dict[str, tuple[float, float]] = {}
    for name in types:
        rate, single = together.get(name, 0.0), alone.get(name, 0.0)
        if rate > 0:
            step_s = 1.0 / rate
            # T^c: the least of the step on k GPUs and on one; T^s: the rest of the step on k.
            comp_s = min(step_s, 1.0 / single) if single > 0 and not gang else step_s
            found[name] = comp_s, max(0.0, step_s - comp_s)
    return found


def _rates(file: str, table: Any, device_type: str) -> Iterator[tuple[tuple[str, int], float]]:
    """Yield (job type, GPUs) and steps a second alone, for one device type."""
    if not isinstance(table, dict):
        raise SpecError(Problem(file=file, message="expected a mapping of worker types"))
    matching = [name for name in table if name.casefold() == device_type.casefold()]
    # Of worker types that differ in case alone the first counts.
    for worker in matching[:1]:
        pairs = table[worker] if isinstance(table[worker], dict) else {}
        for text, entry in pairs.items():
            key = _KEY.fullmatch(text)
            # "null" is the throughput alone; other keys are of jobs that share the GPUs.
            rate: Any = entry.get("null") if isinstance(entry, dict) else None
            if key is None or not _is_rate(rate):
                message = 'expected {"(\'TYPE\', GPUS)": {"null": STEPS_PER_S}}'
                raise SpecError(
                    Problem(file=file, field=f"{worker}.{shown(text)}", message=message)
                )
            yield (key[1], int(key[2])), float(rate)


def _is_rate(value: object) -> bool:
    """Tell whether a value is a rate: 0, or from 1e-9 to 1e12 steps a second."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or 1e-9 <= value <= 1e12


_FIELDS: Final[Mapping[int, Mapping[str, int]]] = {
    7: {"job type": 0, "total steps": 4, "arrival": 5, "scale factor": 6},
    10: {"job type": 0, "total steps": 5, "scale factor": 6, "priority weight": 7, "arrival": 9},
    12: {
        "job type": 0,
        "total steps": 5,
        "scale factor": 6,
        "priority weight": 8,
        "duration": 10,
        "arrival": 11,
    },
}
"""Position of each used field, by the number of fields of a line."""
_BATCH: Final = re.compile(r"\(batch size (\d{1,9})\)")

Prices = Mapping[str, tuple[float, float]]


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    table = None
    if request.throughputs is not None:
        table = read_throughputs(request.throughputs_file, request.throughputs, request.types)
    for line, content in enumerate(text_of(request).split("\n"), start=1):
        if not content.strip():
            continue
        fields = content.rstrip("\r").split("\t")
        # The number of fields tells which of the three forms a line has.
        where = _FIELDS.get(len(fields))
        if where is None:
            reason = "the fields with TABs between are not 7, 10 or 12"
            yield NoJob(line=line, reason=reason, value=f"{len(fields)} fields")
            continue
        values = {name: fields[place].strip() for name, place in where.items()}
        # Without throughputs this row has no costs: the whole trace is refused.
        if table is None and "duration" not in values and not request.look:
            raise SpecError(_no_throughputs(request))
        cells = CsvCells(line=line, number=line, values=values)
        yield tried(lambda cells: _row(cells, table, request), cells)


def _row(cells: CsvCells, table: Throughputs | None, request: TraceRequest) -> TraceRow:
    job_type = cells.text("job type")
    if not job_type:
        raise BadRow("job type is not a name")
    weight = cells.number_of("priority weight") if "priority weight" in cells.values else 1.0
    if weight <= 0:
        raise BadRow("priority weight is not more than 0", cells.values["priority weight"])
    gpus, steps = cells.count("scale factor", 1), cells.count("total steps", 1)
    costs = _costs(cells, table, request)
    # The run time on the device type that is fastest for the job.
    run_s = None if costs is None else steps * min(comp + sync for comp, sync in costs.values())
    return TraceRow(
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
    """Return the batch that a job type names, else 1."""
    batch = _BATCH.search(job_type)
    return max(1, int(batch[1])) if batch else 1


def _costs(cells: CsvCells, table: Throughputs | None, request: TraceRequest) -> Prices | None:
    """Return a job's T^c and T^s by device type; None where the trace does not tell."""
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


FORMAT: Final = TraceFormat(
    looks=lambda head: head.tabs + 1 in _FIELDS,
    read=_read,
    types=("V100", "P100", "K80"),
    costs={"comp": "Gavel's simulation_throughputs.json", "sync": "k-GPU step less T^c"},
)
