"""Run a whole plan in compiled code: the same times as the event path, row for row."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.decision import Plan
from warren.model.draws import COMP, SYNC, stream_key
from warren.model.errors import InfeasibleDecision
from warren.model.run import Run
from warren.model.timeline import PlanOutcome, Timeline, sorted_by_start
from warren.sim.task_durations import check_simulable, cv_to_ppm, true_costs
from warren.solve.lists.execute_plan import OK, PARTIAL, STUCK, TWICE, PlanTables, execute
from warren.solve.lists.plan_units import PlanRows, UnitTimes, planned_columns

_RULE: Final = {
    STUCK: "never starts: the plan's device orders and barriers form a cycle, or an earlier "
    "round of the job is not complete",
    TWICE: "is planned twice",
    PARTIAL: "is part of a stretch that does not name every shard of the job once",
}


def run_plan(plan: Plan, run: Run, costs: CostTable) -> PlanOutcome:
    """Return the outcome of a plan under the run's hidden truth.

    Parameters
    ----------
    plan
        Rows in device order; see ``warren.model.decision.Plan``.
    run
        Cluster, workload and hidden truth.
    costs
        The profile that policies see.

    Raises
    ------
    SpecError
        As for ``SimPort``: an unknown network model or number of rounds.
    InfeasibleDecision
        If a row is out of range or does not fit its device, a task is planned twice, a stretch
        is not whole, or a row can never start (a cycle). Names job, round and device.
    """
    check_simulable(run)
    tables = _tables(run, costs)
    rows = PlanRows(*(np.ascontiguousarray(column, dtype=np.int64) for column in _columns(plan)))
    _check_rows(rows, tables, run, costs)
    outcome = execute(rows, tables, costs.switch_ns_JT)
    if outcome.status != OK:
        raise _refusal(rows, run, outcome.row, _RULE[outcome.status])
    return PlanOutcome(timeline=_timeline(rows, outcome), finish_ns_J=outcome.finish_ns_J)


def _timeline(rows: PlanRows, outcome: UnitTimes) -> Timeline:
    """Return the timeline of the tasks that ran, each column made once, in its order.

    Axes: U units (rows that ran as one), X the four times of a unit.
    """
    time_ns_XU = outcome.time_ns_XU
    row_U = outcome.row_U
    tasks_U = outcome.tasks_U
    columns = (rows.shard_R, rows.round_R, rows.job_R, rows.device_R)

    # As the event path breaks ties, so that both give the same rows in the same order. A unit of
    # several tasks has shard -1 there too.
    def ties(units: IntArray) -> list[IntArray]:
        """Return the columns (shard, round, job, device) of some units."""
        shard_U, *others = (column[row_U[units]] for column in columns)
        return [np.where(tasks_U[units] > 1, -1, shard_U), *others]

    order = sorted_by_start(time_ns_XU[0], ties)
    planned = np.empty((6, len(order)), dtype=np.int64)
    planned_columns(rows, row_U, tasks_U, order, planned)
    # In place: a plan has millions of rows, and no second copy of its times is needed.
    for column in time_ns_XU:
        column[:] = column.take(order)
    names = [field.name for field in fields(Timeline)]
    return Timeline(**dict(zip(names, (*planned, *time_ns_XU), strict=True)))


def _columns(plan: Plan) -> tuple[IntArray, ...]:
    """Return the columns of a plan in the order of the fields of ``PlanRows``."""
    return plan.job_R, plan.round_R, plan.rounds_R, plan.shard_R, plan.device_R


def _tables(run: Run, costs: CostTable) -> PlanTables:
    """Return the arrays of jobs, devices, true times and noise that the compiled code reads."""
    jobs, truth = run.workload.jobs, run.truth
    true = true_costs(run, costs)
    cv_ppm = cv_to_ppm(truth.task_cv)
    # Without noise nothing is drawn, so no job needs keys.
    keyed = range(len(jobs)) if cv_ppm > 0 else range(0)
    return PlanTables(
        arrival_ns_J=np.array([job.arrival_ns for job in jobs], dtype=np.int64),
        scale_J=np.array([job.scale for job in jobs], dtype=np.int64),
        rounds_J=np.array([job.rounds for job in jobs], dtype=np.int64),
        type_D=np.array(run.cluster.type_of_device, dtype=np.int64),
        comp_ns_JT=np.array(true.comp_ns_JT, dtype=np.int64, order="C"),
        sync_ns_JT=np.array(true.sync_ns_JT, dtype=np.int64, order="C"),
        comp_key_J=np.array([stream_key(truth.seed, COMP, job) for job in keyed], dtype=np.uint64),
        sync_key_J=np.array([stream_key(truth.seed, SYNC, job) for job in keyed], dtype=np.uint64),
        cv_ppm=cv_ppm,
        is_lane=run.cluster.network.model == "lane",
    )


def _check_rows(rows: PlanRows, tables: PlanTables, run: Run, costs: CostTable) -> None:
    """Refuse the first row that is out of range or does not fit its device."""
    # Jobs and devices first: the checks after it look things up by them.
    jobs, devices = len(tables.scale_J), len(tables.type_D)
    wrong = (rows.job_R < 0) | (rows.job_R >= jobs)
    wrong |= (rows.device_R < 0) | (rows.device_R >= devices)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InfeasibleDecision(
            f"row {row} of the plan names job {rows.job_R[row]} and device {rows.device_R[row]}; "
            f"there are {jobs} jobs and {devices} devices"
        )
    wrong = (rows.shard_R < 0) | (rows.shard_R >= tables.scale_J[rows.job_R])
    if wrong.any():
        raise _refusal(rows, run, int(np.argmax(wrong)), "is a shard that the job does not have")
    # By a difference, since round + rounds may be more than an int64 holds.
    wrong = (rows.round_R < 0) | (rows.rounds_R < 1)
    wrong |= rows.rounds_R > tables.rounds_J[rows.job_R] - rows.round_R
    if wrong.any():
        raise _refusal(rows, run, int(np.argmax(wrong)), "is outside the rounds of the job")
    wrong = ~costs.fits_JT[rows.job_R, tables.type_D[rows.device_R]]
    if wrong.any():
        raise _refusal(rows, run, int(np.argmax(wrong)), "does not fit the device")


def _refusal(rows: PlanRows, run: Run, row: int, rule: str) -> InfeasibleDecision:
    """Return the error that a row of the plan breaks a rule."""
    job = run.workload.jobs[rows.job_R[row]]
    device = run.cluster.devices[rows.device_R[row]]
    return InfeasibleDecision(
        f"job {job.name}, round {rows.round_R[row]}, shard {rows.shard_R[row]} "
        f"on device {device.name} {rule}"
    )
