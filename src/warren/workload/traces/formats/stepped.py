"""Shared code of traces that count iterations: an iteration is one round."""

from __future__ import annotations

from warren.workload.traces.csv_cells import CsvCells, run_ns
from warren.workload.traces.rows import NO_DURATION, BadRow, TraceRow


def stepped_row(
    cells: CsvCells,
    types: tuple[str, ...],
    *,
    steps: str,
    step_s: float,
    sync_s: float = 0.0,
    unit_s: float = 1.0,
) -> TraceRow:
    """Return a job of ``cells[steps]`` rounds of ``step_s``, ``sync_s`` of it T^s, on every type.

    A round has as many tasks as the job has GPUs. ``unit_s`` is the unit of ``submit_time``.
    """
    count = cells.count(steps, 1)
    return TraceRow(
        line=cells.line,
        name=cells.name("job_id"),
        submitted_ns=cells.time_ns("submit_time", unit_s),
        gpus=cells.count("num_gpu"),
        run_ns=run_ns(count * step_s),
        steps=count,
        # T^c and T^s add up to the step.
        prices=dict.fromkeys(types, (step_s - sync_s, sync_s)),
        model=cells.text("model_name"),
        batch=cells.count("batch_size", 1) if cells.values.get("batch_size") else 1,
    )


def duration_over_steps(cells: CsvCells, types: tuple[str, ...], steps: str) -> TraceRow:
    """Return a row in seconds whose step takes ``duration`` / ``steps``, all of it T^c.

    Raises BadRow if a cell is wrong, or the duration is 0.
    """
    if cells.time_ns("duration") == 0:
        raise BadRow(NO_DURATION)
    step_s = cells.number_of("duration") / cells.count(steps, 1)
    return stepped_row(cells, types, steps=steps, step_s=step_s)
