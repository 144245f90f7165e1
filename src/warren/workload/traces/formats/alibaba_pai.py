"""Alibaba PAI 2020: the task table, or the one-row-a-job table of its authors' simulator.

*Source.* Weng et al., NSDI'22 (alibaba/clusterdata, cluster-trace-gpu-v2020).
``pai_task_table.csv`` has no header: ``job_name, task_name, inst_num, status, start_time,
end_time, plan_cpu, plan_mem, plan_gpu, gpu_type``; ``plan_gpu`` in percent of a GPU an instance,
times in seconds from a moment that was made unknown. ``pai_job_*_100K.csv`` of the simulator has
one: ``job_id, num_inst, submit_time, num_cpu, num_gpu, gpu_type, duration, user`` and others.

*Differs.* A device is not shared here: an instance that asks for a part of a GPU gets a whole one,
and the notes count these jobs. A job of the task table has the GPUs of all its tasks, from the
first start to the last end. Its submission is in another table (``pai_job_table``), so its first
start takes that place and queueing is lost. Tasks that have not ended leave their job out. Types of
GPUs are not kept: run times hold on every device type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warren.workload.traces.csv_cells import CsvCells, cells_of, rows_of
from warren.workload.traces.format import TraceFormat, TraceHead, head_of
from warren.workload.traces.rows import PART_OF_GPU, BadRow, NoJob, TraceRequest, TraceRow

_TASKS: Final = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
_JOBS: Final = ("job_id", "num_inst", "submit_time", "num_gpu", "duration")
_STATES: Final = ("Terminated", "Failed", "Running", "Waiting")


@dataclass(slots=True, kw_only=True)
class _Tasks:
    """The sums over the tasks of one job; ``bad`` is why it is none."""

    line: int
    name: str
    # Later than any time, so that the first task's start is the least.
    begin_ns: int = 2**62
    end_ns: int = 0
    gpus: int = 0
    part: bool = False
    bad: BadRow | None = None


def _read(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    if head_of(request.file, request.content).has(*_JOBS):
        return rows_of(request, _JOBS, _job)
    return _of_tasks(request)


def _job(cells: CsvCells) -> TraceRow:
    each = cells.number_of("num_gpu")
    return TraceRow(
        line=cells.line,
        name=cells.name("job_id"),
        submitted_ns=cells.time_ns("submit_time"),
        gpus=cells.count("num_inst", 1) * _whole(each),
        run_ns=cells.time_ns("duration"),
        user=cells.text("user"),
        remarks=() if each == int(each) else (PART_OF_GPU,),
    )


def _of_tasks(request: TraceRequest) -> Iterator[TraceRow | NoJob]:
    """Yield one row a job, from all its rows of the task table."""
    jobs: dict[str, _Tasks] = {}
    for cells in cells_of(request, ("job_name", "plan_gpu"), _TASKS):
        if isinstance(cells, NoJob):
            yield cells
            continue
        key = cells.values["job_name"]
        tasks = jobs.setdefault(key, _Tasks(line=cells.line, name=cells.name("job_name")))
        try:
            _add(tasks, cells)
        except BadRow as bad:
            # The first fault of a job is reported; its other tasks may not make it a job again.
            tasks.bad = tasks.bad or bad
    yield from map(_row, jobs.values())


def _add(tasks: _Tasks, cells: CsvCells) -> None:
    percent = cells.number_of("plan_gpu") if cells.values.get("plan_gpu") else 0.0
    # Tasks without a GPU count neither in GPUs nor in time.
    if percent == 0:
        return
    if not cells.values.get("end_time") or not cells.values.get("start_time"):
        raise BadRow("a task has not run to its end")
    tasks.gpus += cells.count("inst_num", 1) * _whole(percent / 100)
    tasks.part = tasks.part or percent % 100 > 0
    tasks.begin_ns = min(tasks.begin_ns, cells.time_ns("start_time"))
    tasks.end_ns = max(tasks.end_ns, cells.time_ns("end_time"))


def _row(tasks: _Tasks) -> TraceRow | NoJob:
    if tasks.bad is not None:
        return NoJob(line=tasks.line, reason=tasks.bad.reason, value=tasks.bad.value)
    if tasks.gpus and tasks.end_ns < tasks.begin_ns:
        return NoJob(line=tasks.line, reason="ends before it starts")
    return TraceRow(
        line=tasks.line,
        name=tasks.name,
        submitted_ns=tasks.begin_ns,
        gpus=tasks.gpus,
        run_ns=tasks.end_ns - tasks.begin_ns if tasks.gpus else 0,
        remarks=(PART_OF_GPU,) if tasks.part else (),
    )


def _whole(gpus: float) -> int:
    # Rounded up: a part of a GPU becomes a whole one.
    return -int(-gpus // 1)


def _looks(head: TraceHead) -> bool:
    # A table without a header is known by its number of columns and the state in the fourth.
    tasks = len(head.columns) == len(_TASKS) and head.columns[3] in _STATES
    return tasks or head.has(*_TASKS) or head.has(*_JOBS)


FORMAT: Final = TraceFormat(looks=_looks, read=_read)
