"""Read a trace as a whole: its rows, and the jobs and costs they become.

Jobs of a trace that knows run times only may be given models, so that device types differ: a job of
run time T draws one of the models asked for, by (the run's seed, its name), all equally
likely. It becomes ceil(T / T^c) rounds, T^c that of the cluster's type which is fastest for the
model: run alone on its GPUs, all of that type, it computes for T. On other types it takes longer,
and synchronization comes on top. The real models of the trace's jobs are not known; this keeps
their arrivals, their GPUs and their run times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.units import NS_PER_S, seconds_to_ns
from warren.workload.specs.job import MAX_SCALE, job_seed
from warren.workload.traces.format import TraceFormat
from warren.workload.traces.job_names import file_names, name_notes
from warren.workload.traces.registry import trace_format
from warren.workload.traces.resample import resampled
from warren.workload.traces.rows import (
    NO_DURATION,
    NoJob,
    Trace,
    TraceRequest,
    TraceRow,
    UnusedRows,
)


def modelled(row: TraceRow, request: TraceRequest) -> TraceRow:
    """Return a row with a drawn model and its rounds; unchanged if the trace tells more.

    Raises SpecError if no device type of the cluster has a cost for the model.
    """
    # A trace that names models, steps or prices knows better than a draw.
    priced = row.model or row.steps is not None or row.prices is not None
    if priced or not request.models or row.run_ns is None:
        return row
    # By name: a job draws the same model whatever rows are left out before it.
    drawn = sha256(f"{request.run_seed}/{row.name}".encode()).digest()[:8]
    cost = request.models[int.from_bytes(drawn, "little") % len(request.models)]
    fastest_s = min((cost.comp_s[kind] for kind in request.types if kind in cost.comp_s), default=0)
    if not fastest_s:
        message = f"model {cost.model} has no cost on {', '.join(request.types)}"
        raise SpecError(Problem(file=request.file, field="models", message=message))
    # ceil(T / T^c) rounds, T^c that of the fastest type of the cluster.
    rounds = max(1, math.ceil(row.run_ns / NS_PER_S / fastest_s))
    return replace(row, model=cost.model, batch=max(1, cost.batch), steps=rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows:
    """The rows of a trace that can be jobs, in file order, and those that cannot."""

    format: str
    rows: tuple[TraceRow, ...]
    unused: UnusedRows
    notes: tuple[str, ...] = ()


def read_rows(name: str, request: TraceRequest) -> TraceRows:
    """Read the rows of a trace of the format ``name``, except those that ``request`` leaves out.

    Raises SpecError if the text is not of this format, or has no row at all.
    """
    one = trace_format(name)
    unused = UnusedRows(unit=one.unit)
    rows = list(_kept(one.read(request), request, unused))
    if not rows and not unused.total:
        raise SpecError(Problem(file=request.file, message=f"has a header and no row ({name})"))
    own = [row.name for row in rows]
    new = dict(zip(own, file_names(own), strict=True))
    earliest = rows
    if request.limit is not None and request.limit < len(rows):
        # The first by arrival, but then in the order of the file again.
        order = sorted(rows, key=lambda row: (row.submitted_ns, row.line))[: request.limit]
        earliest = sorted(order, key=lambda row: row.line)
    notes = [*unused.notes(request.file), *_remarks(earliest, request.file)]
    notes += name_notes(request.file, {row.name: new[row.name] for row in earliest})
    if len(earliest) < len(rows):
        notes.append(f"{request.file}: {len(rows) - len(earliest)} later rows not used: limit")
    named = tuple(replace(row, name=new[row.name]) for row in earliest)
    return TraceRows(format=name, rows=named, unused=unused, notes=tuple(notes))


def read_trace(name: str, request: TraceRequest) -> Trace:
    """Read the jobs of a trace of the format ``name``, with arrivals counted from the first.

    Raises SpecError if the text is not of this format, no row of it is a job, or it cannot be
    resampled as asked.
    """
    found = read_rows(name, request)
    if not found.rows:
        reasons = "; ".join(found.notes[:3])
        message = f"no row of this {name} trace is a job: {reasons}"
        raise SpecError(Problem(file=request.file, message=message))
    rows, remarks = resampled(found.rows, request)
    trace = jobs_of(rows, name, trace_format(name), request)
    return replace(trace, notes=(*found.notes, *remarks))


def jobs_of(rows: Iterable[TraceRow], name: str, form: TraceFormat, request: TraceRequest) -> Trace:
    """Make jobs in the order of the rows, and one cost row for all that cost the same.

    A row with steps and prices becomes that number of rounds of that cost; a row with only a run
    time T becomes ceil(T / ``round_s``) rounds of ``round_s``, or the result of ``modelled``; a row
    with only steps has the costs of its model.
    """
    rows = [modelled(row, request) for row in rows]
    costs = _Costs(name=name, form=form, request=request)
    # Arrivals count from the first submission among the rows that are taken.
    first_ns = min((row.submitted_ns for row in rows), default=0)
    jobs = []
    for index, row in enumerate(rows):
        cost, rounds = costs.of(row)
        jobs.append(
            Job(
                index=index,
                name=row.name,
                scale=row.gpus,
                rounds=rounds,
                batch=row.batch,
                model=row.model or None,
                weight=row.weight,
                arrival_ns=row.submitted_ns - first_ns,
                user=row.user,
                group=row.group,
                seed=job_seed(request.run_seed, row.name),
                cost=cost,
            )
        )
    return Trace(jobs=tuple(jobs), profiles=tuple(costs.rows.values()))


class _Costs:
    """The cost rows of a trace, made as its jobs need them."""

    def __init__(self, *, name: str, form: TraceFormat, request: TraceRequest) -> None:
        self.name = name
        self.form = form
        self.request = request
        self.rows: dict[str, ProfileRow] = {}
        self._named: dict[tuple[str, tuple[tuple[str, tuple[float, float]], ...]], str] = {}
        self._round_ns = max(1, seconds_to_ns(request.round_s))

    def of(self, row: TraceRow) -> tuple[str | None, int | None]:
        """Return the name of a row's costs, and its rounds."""
        stem = f"{self.name}: {row.model}" if row.model else self.name
        if row.prices is not None:
            return self._cost(f"{stem} on {row.gpus}", tuple(row.prices.items())), row.steps
        if row.steps is None and row.run_ns is not None:
            each = (self.request.round_s, 0.0)
            cost = self._cost(stem, tuple((kind, each) for kind in self.request.types))
            # ceil(T / round_s), in whole nanoseconds.
            return cost, -(-row.run_ns // self._round_ns)
        return None, row.steps

    def _cost(self, stem: str, prices: tuple[tuple[str, tuple[float, float]], ...]) -> str:
        """Return the name of the cost row with these prices; others of its stem get numbers."""
        if (stem, prices) not in self._named:
            name, number = stem, 1
            # One stem may have several prices, for example jobs of one model with other durations.
            while name in self.rows:
                number += 1
                name = f"{stem} ({number})"
            self._named[stem, prices] = name
            self.rows[name] = ProfileRow(
                model=name,
                batch=0,
                model_bytes=0,
                memory_bytes=0,
                comp_s={kind: comp for kind, (comp, _) in prices},
                sync_s={kind: sync for kind, (_, sync) in prices},
                source=self.form.costs,
            )
        return self._named[stem, prices]


def _kept(
    found: Iterable[TraceRow | NoJob], request: TraceRequest, unused: UnusedRows
) -> Iterator[TraceRow]:
    """Yield the rows that are jobs of this run; the others are counted in ``unused``."""
    seen: set[str] = set()
    for row in found:
        no_job = row if isinstance(row, NoJob) else _refused(row, request, seen)
        if no_job is not None:
            unused.add(no_job)
        elif isinstance(row, TraceRow):
            seen.add(row.name)
            yield row


def _refused(row: TraceRow, request: TraceRequest, seen: set[str]) -> NoJob | None:
    """Return why a row that can be read is no job of this run; None if it is one."""
    reason = ""
    value = ""
    if row.run_ns == 0 and row.gpus > 0:
        reason = NO_DURATION
    elif row.gpus == 0:
        reason = "asks for no GPU"
    elif row.gpus > MAX_SCALE:
        reason, value = f"asks for more than {MAX_SCALE} GPUs", str(row.gpus)
    elif request.gpus_max is not None and row.gpus > request.gpus_max:
        reason = f"more than gpus_max ({request.gpus_max}) GPUs"
    elif row.pool and row.pool in request.leave_out:
        reason = f"cluster {row.pool} is in leave_out"
    elif row.name in seen:
        reason, value = "its id stands in an earlier row", row.name
    return NoJob(line=row.line, reason=reason, value=value) if reason else None


def _remarks(rows: Iterable[TraceRow], file: str) -> Iterator[str]:
    """Yield each remark of the rows once, with the number of jobs it is on."""
    counts: dict[str, int] = {}
    for row in rows:
        for remark in row.remarks:
            counts[remark] = counts.get(remark, 0) + 1
    for remark, count in counts.items():
        yield f"{file}: {count} {'job' if count == 1 else 'jobs'}: {remark}"
