"""Rules for decisions, and the invariants of the state at all times. Each rule stands here once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from warren.core.answers.rules import check_standing
from warren.core.speculative_runs import task_of
from warren.core.state import Phase, State
from warren.model.decision import Assignment, Plan
from warren.model.errors import InfeasibleDecision

_ACTIVE: Final = int(Phase.ACTIVE)
_FINISHED: Final = int(Phase.FINISHED)


def check_assignment(state: State, policy: str, assignment: Assignment) -> None:
    """Refuse an assignment that breaks a rule.

    A policy assigns the tasks of a job in order: rounds ascending, shards ascending within a
    round, so device queues and barriers cannot form a cycle.

    Raises
    ------
    InfeasibleDecision
        Naming the policy, the assignment and the rule.
    """
    for broken in _broken_rules(state, assignment):
        raise InfeasibleDecision(f"policy {policy}: {assignment}: {broken}")


def _broken_rules(state: State, one: Assignment) -> Iterator[str]:
    """Yield the text of each rule that an assignment breaks; empty if it is allowed."""
    # The two that return: without a device or a job there is nothing to look the rest up in.
    if not 0 <= one.device < len(state.queues):
        yield f"there is no device {one.device}"
        return
    if not 0 <= one.job < len(state.phase_J):
        yield f"there is no job {one.job}"
        return
    job, count = one.job, len(one.shards)
    if state.phase_J.item(job) != _ACTIVE:
        yield f"job is {Phase(state.phase_J[job]).name}, allowed: ACTIVE"
    if not state.costs.fits_JT.item(job, state.type_D.item(one.device)):
        yield "the job does not fit this device type"
    # Rounds in order, shards in order: the first task not assigned yet comes next.
    start, scale = state.next_shard_J.item(job), state.scale_J.item(job)
    rounds, following = state.rounds_J.item(job), state.next_round_J.item(job)
    if one.round != following:
        yield f"round {following} comes first"
    if not count or one.rounds < 1:
        yield "an assignment has at least one shard and one round"
    if one.rounds == 1 and one.shards != tuple(range(start, start + count)):
        yield f"shards are assigned in order; the next is {start}"
    if start + count > scale:
        yield f"the round has {scale} shards"
    # ``rounds`` is -1 where the policy does not know it: then it may assign beyond the last.
    if 0 <= rounds < one.round + one.rounds:
        yield f"the job has {rounds} rounds"
    group = state.groups[job].get(one.round)
    if group is not None and group.rounds != one.rounds:
        yield f"the other shards of this stretch run {group.rounds} rounds"
    # Mostly nothing binds any job: that is looked at here, since it is asked of every assignment.
    answers = state.answers
    bound = answers.worker_hosts or answers.group_hosts
    if bound and not answers.allows(job, one.device):
        yield _outside(state, job, one.device)
    if state.absent and answers.host_D[one.device] in state.absent:
        host = state.run.cluster.hosts[answers.host_D[one.device]].name
        yield f"host {host} of the device is not there now"


def _outside(state: State, job: int, device: int) -> str:
    """Name the hosts to which a job's shape or group binds it, if a device is on none of them."""
    answers, names = state.answers, [host.name for host in state.run.cluster.hosts]
    host = answers.host_D[device]
    shaped = answers.worker_hosts.get(job, frozenset((host,)))
    what, bound = ("group", answers.group_hosts[job]) if host in shaped else ("shape", shaped)
    allowed = ", ".join(names[one] for one in sorted(bound))
    return f"the device is on host {names[host]}; the job's {what} allows: {allowed}"


def check_copy(state: State, one: Assignment) -> None:
    """Refuse a copy that breaks a rule.

    A copy is of one task, not of a ring. The task is first on its device, apart from runs that have
    lost, and the barrier before it has passed. It goes to another device that has nothing to do
    before the task's own barrier. So it can run at once, and a queue and a barrier cannot wait for
    each other.

    Raises
    ------
    InfeasibleDecision
        Naming the copy and the rule.
    """
    for broken in _broken_copy_rules(state, one):
        raise InfeasibleDecision(f"copy {one}: {broken}")


def _broken_copy_rules(state: State, one: Assignment) -> Iterator[str]:
    """Yield the text of each rule that a copy breaks; empty if it is allowed."""
    if state.phase_J[one.job] != _ACTIVE or one.round != state.round_J[one.job]:
        yield "the barrier before it has not passed, or its own has"
    if not state.costs.fits_JT[one.job, state.type_D[one.device]]:
        yield "the job does not fit this device type"
    if not state.answers.allows(one.job, one.device):
        yield _outside(state, one.job, one.device)
    if is_ring(state, one.job):
        yield "its job is a ring, whose tasks wait for each other"
    first = state.races.first_run(state.queues, one)
    if first is None or first.device == one.device:
        yield "its task is not first on another device, alone"
    elif task_of(one) in state.races.pairs:
        yield "its task has been copied already"
    if not may_take(state, one.device, one):
        yield "the device has something to do before the barrier"


def may_take(state: State, device: int, task: Assignment) -> bool:
    """Tell whether a device has nothing to do before the barrier of a task under way."""
    # Idle, or its first assignment is of a later round of the same job, which waits for the
    # barrier.
    queue = state.queues[device]
    return not queue or (queue[0].job == task.job and queue[0].round > task.round)


def check_stretches(state: State, policy: str, assignments: tuple[Assignment, ...]) -> None:
    """Refuse a decision that leaves a stretch of several rounds without some of its shards.

    For a ring that holds for a single round too, and each of its shards has a device to itself:
    a gang is assigned whole or not at all. Called after the assignments were applied.

    Raises
    ------
    InfeasibleDecision
        Naming the policy, the job, the stretch and the rule.
    """
    # Fast path for most decisions of a large run: a job of one shard is whole by itself.
    if len(assignments) == 1 and _is_whole(state, assignments[0]):
        return
    parts_of: dict[tuple[int, int], list[Assignment]] = {}
    for one in assignments:
        if one.rounds > 1 or is_ring(state, one.job):
            parts_of.setdefault((one.job, one.round), []).append(one)
    for (job, first), parts in parts_of.items():
        group = state.groups[job].get(first)
        shards = [shard for one in parts for shard in one.shards]
        devices = [one.device for one in parts]
        if group is None or sorted(shards) != list(range(int(state.scale_J[job]))):
            raise InfeasibleDecision(
                f"policy {policy}: job {job}, round {first}: a stretch of several rounds, and a "
                f"round of a ring, names every shard once, got {sorted(shards)}"
            )
        if is_ring(state, job) and len(devices) < len(shards):
            raise InfeasibleDecision(
                f"policy {policy}: job {job}, round {first}: a ring of {len(shards)} has as many "
                f"devices, got {len(devices)}"
            )
        if len(set(devices)) != len(devices):
            raise InfeasibleDecision(
                f"policy {policy}: job {job}, round {first}: one assignment a device and stretch"
            )


def is_ring(state: State, job: int) -> bool:
    """Tell whether a round's tasks are one gang; the plain engine has a ring in one process."""
    run = state.run
    return run.workload.jobs[job].sync == "ring" and run.cluster.is_scheduled


def _is_whole(state: State, one: Assignment) -> bool:
    """Tell whether an assignment holds all shards of its stretch by itself."""
    return one.shards == (0,) and state.scale_J.item(one.job) == 1


def check_plan(state: State, policy: str, plan: Plan) -> None:
    """Refuse a plan that does not run every task of every job exactly once where it fits.

    Cycles over device order and barriers are found when the plan is run.

    Raises
    ------
    InfeasibleDecision
        Naming the policy, the row or job, and the rule.
    """
    # Indices first: every later check looks things up by them.
    job_R, device_R = plan.job_R, plan.device_R
    jobs, devices = len(state.phase_J), len(state.queues)
    if len(plan) and not (
        0 <= job_R.min() <= job_R.max() < jobs and 0 <= device_R.min() <= device_R.max() < devices
    ):
        raise InfeasibleDecision(f"policy {policy}: the plan names a job or device unknown here")
    unfit = np.flatnonzero(~state.costs.fits_JT[job_R, state.type_D[device_R]])
    if len(unfit):
        row = int(unfit[0])
        raise InfeasibleDecision(
            f"policy {policy}: plan row {row}: job {job_R[row]} does not fit device {device_R[row]}"
        )
    for row in _rows_outside(state, plan):
        outside = _outside(state, int(job_R[row]), int(device_R[row]))
        raise InfeasibleDecision(f"policy {policy}: plan row {row}: job {job_R[row]}: {outside}")
    # Coverage before stretches: ``_torn_stretch`` relies on each task having exactly one row.
    bad = _uncovered(state, plan)
    if bad is not None:
        raise InfeasibleDecision(
            f"policy {policy}: the plan does not run every task of job {bad} exactly once"
        )
    split = _split_ring(state, plan)
    if split is not None:
        raise InfeasibleDecision(
            f"policy {policy}: the plan gives some round of the ring of job {split} fewer devices "
            "than tasks"
        )
    torn = _torn_stretch(state, plan)
    if torn is not None:
        raise InfeasibleDecision(
            f"policy {policy}: plan row {torn}: job {job_R[torn]}, round {plan.round_R[torn]}: the "
            "rows of a stretch of several rounds follow one another and name every shard once"
        )


def _rows_outside(state: State, plan: Plan) -> Iterator[int]:
    """Yield the rows of a plan that the shape or the group of their job does not allow."""
    answers = state.answers
    for job in sorted({*answers.worker_hosts, *answers.group_hosts}):
        for row in np.flatnonzero(plan.job_R == job).tolist():
            if not answers.allows(job, int(plan.device_R[row])):
                yield row


def _torn_stretch(state: State, plan: Plan) -> int | None:
    """Return the first row of a stretch of several rounds that is not whole; None: all are.

    The plan covers every task exactly once.
    """
    if not np.any(plan.rounds_R > 1):
        return None
    # Blocks (axis B) of neighboring rows that agree in job, first round and rounds.
    keys = np.stack((plan.job_R, plan.round_R, plan.rounds_R))
    first_B = np.flatnonzero(np.append(True, np.any(keys[:, 1:] != keys[:, :-1], axis=0)))
    rows_B = np.diff(np.append(first_B, len(plan)))
    # Every task is covered once, so rows of one stretch never name a shard twice.
    wrong_B = (plan.rounds_R[first_B] > 1) & (rows_B != state.scale_J[plan.job_R[first_B]])
    return int(first_B[np.argmax(wrong_B)]) if np.any(wrong_B) else None


def _split_ring(state: State, plan: Plan) -> int | None:
    """Return the first job with a ring whose gangs do not have as many devices as tasks."""
    rings_J = np.array([job.sync == "ring" for job in state.run.workload.jobs], dtype=np.bool_)
    rows = np.flatnonzero(rings_J[plan.job_R])
    if not len(rows):
        return None
    # The inner ``unique`` leaves each (job, round, device) once; the outer counts devices a gang.
    taken = np.stack((plan.job_R, plan.round_R, plan.device_R))[:, rows]
    gangs, devices = np.unique(np.unique(taken, axis=1)[:2], axis=1, return_counts=True)
    few = gangs[0][devices < state.scale_J[gangs[0]]]
    return int(few[0]) if len(few) else None


def _uncovered(state: State, plan: Plan) -> int | None:
    """Return the first job whose (round, shard) tasks are not each covered by exactly one row.

    The rounds of all (job, shard) are laid end to end on one line, and a row is an interval of it
    that stays within its own (job, shard). Intervals of at least one round cut the whole line up
    if and only if, in order, every end but the last is the next begin: were two to overlap, more
    of them would end up to some point than begin before it.
    """
    # Rows that leave their own (job, shard), and jobs whose rounds are unknown: no line for them.
    job_R, rounds_J = plan.job_R, state.rounds_J
    wrong_R = (plan.shard_R < 0) | (plan.shard_R >= state.scale_J[job_R])
    wrong_R |= (plan.rounds_R < 1) | (plan.round_R < 0)
    wrong_R |= plan.rounds_R > rounds_J[job_R] - plan.round_R
    wrong_J = (rounds_J < 0) & ~state.done_J
    wrong_J[job_R[wrong_R]] = True
    if np.any(wrong_J):
        return int(np.argmax(wrong_J))
    # The line: job j takes ``length_J[j]`` places of it, shard after shard. Jobs that have ended
    # before the plan was made need no rows.
    planned_J = np.bincount(job_R, minlength=len(rounds_J)) > 0
    length_J = np.where(planned_J | ~state.done_J, state.scale_J * rounds_J, 0)
    last_J = np.cumsum(length_J)
    begin_R = (last_J - length_J)[job_R] + plan.shard_R * rounds_J[job_R] + plan.round_R
    end_R = np.append(0, begin_R + plan.rounds_R)
    # Sorted begins and ends agree, with 0 before and the line's length after, iff nothing is
    # covered twice or left out.
    begin_R = np.append(begin_R, length_J.sum())
    begin_R.sort()
    end_R.sort()
    place = int(np.argmax(begin_R != end_R))
    if begin_R[place] == end_R[place]:
        return None
    # The first difference is where the line is first covered twice or not at all.
    at = min(begin_R[place], end_R[place])
    return int(np.searchsorted(last_J, at, side="right"))


def check_invariants(state: State) -> None:
    """Check everything that must hold between two steps.

    Raises
    ------
    AssertionError
        Naming the broken invariant: a defect of Warren's, not of a policy.
    """
    queued_D, scale_J = state.queued_D.tolist(), state.scale_J.tolist()
    for device, queue in enumerate(state.queues):
        assert queued_D[device] == len(queue), f"device {device}: queue count"
    # If a task runs twice, only one run stands for it below.
    live = [one for queue in state.queues for one in queue]
    live += [one for syncing in state.syncing for one in syncing]
    races = state.races
    if races.pairs or races.lost:
        held = {one for pair in races.pairs.values() for one in pair} | set(races.lost)
        assert held <= set(live), "a run of a task that runs twice is on no device"
        live = [one for one in live if races.counts(one)]
    done_J, round_J = state.done_J.tolist(), state.round_J.tolist()
    # Every assignment belongs to an outstanding group whose barrier has not passed.
    outstanding: dict[tuple[int, int], int] = {}
    for one in live:
        assert not done_J[one.job], f"{one}: queued for a job that has ended"
        assert one.round in state.groups[one.job], f"{one}: not in any outstanding round"
        assert one.round + one.rounds > round_J[one.job], f"{one}: its barrier has passed"
        key = (one.job, one.round)
        outstanding[key] = outstanding.get(key, 0) + len(one.shards)
    # A round has no more shards, done and outstanding together, than its job's scale.
    for job, groups in enumerate(state.groups):
        for first, group in groups.items():
            total = outstanding.get((job, first), 0) + group.done
            assert total <= scale_J[job], f"job {job}, round {first}: {total} shards"
    # The Boolean columns say the same as the phases.
    ended_J = state.phase_J >= _FINISHED
    wrong_J = (ended_J != state.done_J) | (state.open_J & (state.done_J | ~state.arrived_J))
    if wrong_J.any():
        assert np.array_equal(ended_J, state.done_J), "done_J follows the phases"
        assert not np.any(state.open_J & state.done_J), "an ended job is open"
        raise AssertionError("a job is open before it arrived")
    assert state.planned or (state.next_round_J >= state.round_J).all(), "assigned before run"
    check_standing(state)
