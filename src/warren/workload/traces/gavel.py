"""Gavel's traces, and its measured throughputs as their costs.

*Source.* Narayanan et al., OSDI'20 (stanford-futuredata/gavel). TAB separated, no header:
7 fields (job type, command, steps argument, needs data, total steps, arrival s, GPUs) or
10 fields (job type, command, folder, steps argument, needs data, total steps, GPUs, priority
weight, SLO s, arrival s).

*Differs.* One step is one round of as many tasks as the job has GPUs. With the throughputs of
the pair (job type, GPUs) on a worker type, T^c is the least of the step on one GPU and the step
on k GPUs, and T^s = max(0, step on k GPUs - T^c): k devices of one type then take a step in
Gavel's time. A throughput of 0 means that the job does not fit that type. SLOs are not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.units import seconds_to_ns
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

_FIELDS: Final[Mapping[int, Mapping[str, int]]] = {
    7: {"type": 0, "steps": 4, "arrival": 5, "gpus": 6},
    10: {"type": 0, "steps": 5, "gpus": 6, "weight": 7, "arrival": 9},
}
"""Position of what is used, by the number of fields of a line."""
_KEY: Final = re.compile(r"\('(.{1,150})', (\d{1,6})\)")
_BATCH: Final = re.compile(r"\(batch size (\d{1,9})\)")
_MAX_TYPE: Final = 150
_COUNT: Final = re.compile(r"\d{1,12}")
_NUMBER: Final = re.compile(r"\d{1,12}(\.\d{0,20})?")

Throughputs = Mapping[tuple[str, int], Mapping[str, float]]
"""Steps a second alone, by (job type, GPUs) and by device type of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    type: str
    steps: int
    gpus: int
    arrival_s: float
    weight: float


def read_gavel(request: TraceRequest) -> Trace:
    """Jobs ``job-<n>`` (n-th line) with one cost row a pair of job type and GPUs.

    Raises
    ------
    SpecError
        If a file is damaged or the throughputs are not given.
    """
    throughputs = _throughputs(request)
    unused = Unused()
    profiles: dict[str, ProfileRow] = {}
    found = list(_jobs(request, throughputs, profiles, unused))
    kept = first_by_arrival(found, request.limit)
    notes = list(unused.notes(request.file))
    if len(kept) < len(found):
        notes.append(f"{request.file}: {len(found) - len(kept)} later rows not used: limit")
    used = dict.fromkeys(job.cost for _, _, job in kept)
    return Trace(
        jobs=tuple(from_first_arrival(kept)),
        profiles=tuple(profiles[name] for name in used if name is not None),
        notes=tuple(notes),
    )


def _jobs(
    request: TraceRequest,
    throughputs: Throughputs,
    profiles: dict[str, ProfileRow],
    unused: Unused,
) -> Iterator[tuple[int, int, Job]]:
    text = decoded(request.file, unpacked(request.file, request.content))
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        row = _row(content.rstrip("\r").split("\t"), request)
        cost = row if isinstance(row, str) else _cost(row, throughputs, request.types)
        if isinstance(row, str) or isinstance(cost, str):
            unused.add(line, str(cost))
            continue
        profiles.setdefault(cost.model, cost)
        yield seconds_to_ns(row.arrival_s), line, _job(f"job-{line}", row, cost, request.run_seed)


def _row(fields: list[str], request: TraceRequest) -> _Row | str:
    """The row, or why it is none."""
    where = _FIELDS.get(len(fields))
    if where is None:
        return f"{len(fields)} fields with TABs between; allowed: 7 or 10"
    text = {name: fields[place].strip() for name, place in where.items()}
    if not 0 < len(text["type"]) <= _MAX_TYPE or not text["type"].isprintable():
        return f"job type {shown(text['type'])} is not a name"
    if not _COUNT.fullmatch(text["steps"]) or int(text["steps"]) < 1:
        return f"total steps {shown(text['steps'])} is not a count of at least 1"
    if not _COUNT.fullmatch(text["gpus"]) or not 1 <= int(text["gpus"]) <= MAX_SCALE:
        return f"scale factor {shown(text['gpus'])} is not a number of GPUs"
    if not _NUMBER.fullmatch(text["arrival"]) or float(text["arrival"]) > 1e9:
        return f"arrival {shown(text['arrival'])} is not a number of seconds"
    weight = text.get("weight", "1")
    if not _NUMBER.fullmatch(weight) or float(weight) <= 0:
        return f"priority weight {shown(weight)} is not a number above 0"
    if request.gpus_max is not None and int(text["gpus"]) > request.gpus_max:
        return f"more than gpus_max ({request.gpus_max}) GPUs"
    return _Row(
        type=text["type"],
        steps=int(text["steps"]),
        gpus=int(text["gpus"]),
        arrival_s=float(text["arrival"]),
        weight=float(weight),
    )


def _cost(row: _Row, throughputs: Throughputs, types: tuple[str, ...]) -> ProfileRow | str:
    together = throughputs.get((row.type, row.gpus), {})
    alone = throughputs.get((row.type, 1), {})
    comp_s: dict[str, float] = {}
    sync_s: dict[str, float] = {}
    for name in types:
        rate = together.get(name, 0.0)
        if rate > 0:
            step_s = 1.0 / rate
            single = alone.get(name, 0.0)
            comp_s[name] = min(step_s, 1.0 / single) if single > 0 else step_s
            sync_s[name] = max(0.0, step_s - comp_s[name])
    if not comp_s:
        return f"no throughput for its job type and number of GPUs on {', '.join(types)}"
    return ProfileRow(
        model=f"gavel: {row.type} on {row.gpus}",
        batch=0,
        model_bytes=0,
        memory_bytes=0,
        comp_s=comp_s,
        sync_s=sync_s,
        source={"comp": "Gavel's simulation_throughputs.json", "sync": "k-GPU step less T^c"},
    )


def _job(name: str, row: _Row, cost: ProfileRow, run_seed: int) -> Job:
    batch = _BATCH.search(row.type)
    return Job(
        index=0,
        name=name,
        scale=row.gpus,
        rounds=row.steps,
        batch=max(1, int(batch[1])) if batch else 1,
        model=row.type,
        weight=row.weight,
        seed=job_seed(run_seed, name),
        cost=cost.model,
    )


def _throughputs(request: TraceRequest) -> Throughputs:
    """Read ``simulation_throughputs.json``; its worker types match the cluster's in any case."""
    if request.throughputs is None:
        message = "a gavel trace needs throughputs: PATH of Gavel's simulation_throughputs.json"
        raise SpecError(
            Problem(file=request.file, field="workload.trace.throughputs", message=message)
        )
    file = request.throughputs_file
    try:
        table = json.loads(decoded(file, unpacked(file, request.throughputs)))
    except (ValueError, RecursionError):
        raise SpecError(Problem(file=file, message="is not JSON")) from None
    result: dict[tuple[str, int], dict[str, float]] = {}
    for name in request.types:
        for key, rate in _rates(file, table, name):
            result.setdefault(key, {})[name] = rate
    return result


def _rates(file: str, table: Any, device_type: str) -> Iterator[tuple[tuple[str, int], float]]:
    if not isinstance(table, dict):
        raise SpecError(Problem(file=file, message="expected a mapping of worker types"))
    matching = [name for name in table if name.casefold() == device_type.casefold()]
    for worker in matching[:1]:
        pairs = table[worker] if isinstance(table[worker], dict) else {}
        for text, entry in pairs.items():
            key = _KEY.fullmatch(text)
            rate: Any = entry.get("null") if isinstance(entry, dict) else None
            if key is None or not _is_rate(rate):
                message = 'expected {"(\'TYPE\', GPUS)": {"null": STEPS_PER_S}}'
                raise SpecError(
                    Problem(file=file, field=f"{worker}.{shown(text)}", message=message)
                )
            yield (key[1], int(key[2])), float(rate)


def _is_rate(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == 0 or 1e-9 <= value <= 1e12
