"""Reasons why a job waits: the state's own knowledge, else the policy's latest reason."""

from __future__ import annotations

from warren.core.state import Phase, State
from warren.model.decision import Reason


def reason(state: State, job: int) -> Reason:
    """Return the one reason that dominates now.

    Reasons that the state can see come first: not arrived, ended, computing, all open tasks under
    way. Only a job with nothing under way waits for the policy, whose last code then counts.
    """
    if state.done_J[job]:
        return Reason.ENDED
    if state.phase_J[job] == Phase.PENDING:
        return Reason.NOT_ARRIVED
    if state.groups[job]:
        return _under_way(state, job)
    if state.planned:
        return Reason.PLANNED_LATER
    # The last code may be of an assignment that has ended since: then the job waits for its turn.
    said = Reason(int(state.reason_J[job]))
    return Reason.WAITING_FOR_TURN if said is Reason.RUNNING else said


def _under_way(state: State, job: int) -> Reason:
    """Return ``RUNNING`` if a device computes for it, else the reason why its tasks wait."""
    # The state does not say which head computes; a head whose barrier has passed does.
    queued = False
    for queue in state.queues:
        if not queue:
            continue
        head = queue[0]
        if head.job == job and head.round <= state.round_J[job]:
            return Reason.RUNNING
        queued = queued or any(one.job == job and one.round <= state.round_J[job] for one in queue)
    return Reason.WAITING_FOR_DEVICES if queued else Reason.WAITING_FOR_BARRIER
