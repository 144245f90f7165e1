"""``gavel-mix``: jobs as Gavel's own generator draws them, for any cluster.

*Source.* ``generate_trace.py`` of stanford-futuredata/gavel (OSDI'20): a job type evenly from the
table's; on one GPU, or where the table has its type on several: 1 GPU (70 %), 2 (10 %) or 4 (20 %);
a run time of 1, 2, 3 or 4 hours, evenly, on that number of V100s, which gives its steps;
exponential times between arrivals; weight 1. ``generated_t120.trace`` was made like this: all its
run times are whole hours, 87, 7 and 26 jobs have 1, 2 and 4 GPUs, the mean gap is 391 s on 48 GPUs.

*Differs.* Draws are not Gavel's (Python's generator there), so no trace is repeated job by job.
Arrivals are those of a Poisson process given their number, over the number of jobs times ``gap``,
or as ``load`` says: then the jobs' work, in seconds of the whole cluster, arrives evenly over that
/ ``load``. Costs, with zero throughputs, are as for a trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.generators.draws import (
    arrivals_ns,
    integers,
    uniform,
    whole_cluster_s,
    window_s,
)
from warren.workload.generators.inputs import GeneratorInputs
from warren.workload.specs.workload import GavelMixSpec
from warren.workload.traces.formats.gavel import Throughputs, batch_of, prices, read_throughputs
from warren.workload.traces.read_trace import jobs_of
from warren.workload.traces.registry import trace_format
from warren.workload.traces.rows import Trace, TraceRequest, TraceRow

REFERENCE: Final = "v100"
"""The worker type whose run times are whole hours."""
_HOURS: Final = 4
# Draws below 0.7 mean 1 GPU, below 0.8 2 GPUs, others 4; then the numbers of the streams.
_TWO, _FOUR = 0.7, 0.8
_TYPES, _SCALES, _OF_HOURS, _ARRIVALS = range(5, 9)


def gavel_mix(spec: GavelMixSpec, ground: GeneratorInputs, file: str, content: bytes) -> Trace:
    """Draw the jobs in order of arrival; ``file`` and ``content`` are the throughputs.

    Raises SpecError if the throughputs are damaged, have no V100, or none for a job on this
    cluster.
    """
    seed = ground.run_seed if spec.seed is None else spec.seed
    types = ground.cluster.type_names
    table = read_throughputs(file, content, (*types, REFERENCE))
    try:
        rows = _rows(spec, seed, table, types)
        length_s = _window_s(spec, rows, ground)
    except ValueError as error:
        raise SpecError(Problem(file=file, message=str(error))) from None
    times = arrivals_ns(seed, _ARRIVALS, spec.jobs, length_s)
    # Arrivals depend on the work of all jobs, so they are drawn last.
    rows = [replace(row, submitted_ns=at) for row, at in zip(rows, times, strict=True)]
    request = TraceRequest(file=file, content=b"", types=types, run_seed=ground.run_seed)
    trace = jobs_of(rows, "gavel", trace_format("gavel"), request)
    pace = f"over {length_s:.0f} s" if length_s else "all at time 0"
    note = f"gavel-mix, seed {seed}: {len(rows)} jobs, {pace}"
    return replace(trace, notes=(note,))


def _rows(
    spec: GavelMixSpec, seed: int, table: Throughputs, types: tuple[str, ...]
) -> list[TraceRow]:
    # Sorted, since the draws below number the kinds: the order must not be that of the JSON file.
    kinds = sorted(
        job_type
        for (job_type, gpus), rates in table.items()
        if gpus == 1 and rates.get(REFERENCE, 0) > 0
    )
    if not kinds:
        raise ValueError(f"has no throughput of a {REFERENCE}, which run times refer to")
    chosen = integers(seed, _TYPES, spec.jobs, len(kinds))
    hours = integers(seed, _OF_HOURS, spec.jobs, _HOURS)
    sizes = uniform(seed, _SCALES, spec.jobs)
    width = len(str(spec.jobs))
    result = []
    for index in range(spec.jobs):
        kind = kinds[chosen[index]]
        # A type is drawn on several GPUs only where the table has it on two.
        gpus = _gpus(sizes[index]) if spec.multi_gpu and (kind, 2) in table else 1
        costs = prices(table, kind, gpus, types, gang=spec.gang)
        rate = table.get((kind, gpus), {}).get(REFERENCE, 0.0)
        if not costs or rate <= 0:
            raise ValueError(f"has no throughput of {kind} on {gpus} GPUs of {', '.join(types)}")
        row = TraceRow(
            line=index + 1,
            name=f"job-{index + 1:0{width}}",
            submitted_ns=0,
            gpus=gpus,
            # Steps in a run of 1 to 4 whole hours on the reference type.
            steps=max(1, int(rate * 3600 * (1 + hours[index]))),
            prices=costs,
            model=kind,
            batch=batch_of(kind),
        )
        result.append(row)
    return result


def _gpus(drawn: float) -> int:
    if drawn < _TWO:
        return 1
    return 2 if drawn < _FOUR else 4


def _window_s(spec: GavelMixSpec, rows: Sequence[TraceRow], ground: GeneratorInputs) -> float:
    """Return the seconds in which the jobs arrive: from their mean gap, else from the load."""
    if spec.gap is not None:
        # The mean gap times the number of jobs.
        return spec.jobs * spec.gap
    devices = ground.devices()
    # A job's work: the time of the whole cluster for a task, times tasks a round, times rounds.
    work_s = [
        whole_cluster_s({kind: comp for kind, (comp, _) in (row.prices or {}).items()}, devices)
        * row.gpus
        * (row.steps or 0)
        for row in rows
    ]
    return window_s(work_s, spec.load)
