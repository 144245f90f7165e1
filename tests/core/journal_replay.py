"""A journal becomes the state it leads to, by the state's own table alone."""

from __future__ import annotations

from warren.core.journal import (
    AnswersStep,
    CopyStep,
    Header,
    PlanAdopted,
    PlanRun,
    Resumed,
    Step,
    plan_outcome,
)
from warren.core.journal_reader import decode
from warren.core.scheduling_rules import check_copy
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.errors import JournalError
from warren.model.past import NO_PAST, Past
from warren.model.run import Run


def replay(
    data: bytes | memoryview,
    run: Run,
    costs: CostTable,
    *,
    past: Past = NO_PAST,
    blind: bool = False,
) -> State:
    """The state after the last whole record of a journal of this run.

    ``blind``: its policy knew no number of rounds (``policy.protocol.is_blind``).

    Raises
    ------
    JournalError
        If the journal is damaged or belongs to a run of other jobs or devices.
    InvalidTransition
        If its events cannot have happened one after the other.
    """
    records = decode(data)
    header = next(records, None)
    jobs = tuple(job.name for job in run.workload.jobs)
    devices = tuple(device.name for device in run.cluster.devices)
    if not isinstance(header, Header) or (header.jobs, header.devices) != (jobs, devices):
        raise JournalError("the journal belongs to another run")
    state = State(run, costs, past=past, blind=blind)
    for record in records:
        match record:
            case Step():
                _step(state, record)
            case PlanAdopted():
                state.adopt_plan()
            case PlanRun():
                state.finish_plan(plan_outcome(record))
            case Resumed():
                state.recall()
            case Header():
                raise JournalError("a second header")
    return state


def _step(state: State, step: Step) -> None:
    for event in step.events:
        state.apply(event)
    if isinstance(step, AnswersStep):
        state.answer(step.answers)
    for assignment in step.assign:
        state.assign(assignment)
    for job, reason in step.reasons:
        state.reason_J[job] = reason
    for copy in step.copy if isinstance(step, CopyStep) else ():
        check_copy(state, copy)
        state.copy(copy)
