"""Iterations of a group whose pulls and pushes are steps of their own: from event to event.

*What.* (4.1) has one COMM a job and iteration: the push, and then the pull of the next iteration,
in one turn. Where they are two steps of their own, other jobs may come between them, and a group
may take longer. There is no closed form; here the steps are played until turns repeat:

- ``apart``: the network does one step at a time, in the order in which they were queued.
- ``shared``: all steps that there are share the network alike.

A CPU computes one COMP at a time, in the order in which they were queued. A job's COMP is queued
when its pull is over. Its push is queued a given time after its COMP begins, or at the end of the
COMP if the job sends nothing while it computes. Its pull is queued when COMP and push are over. All
pulls are queued at first, in the order of jobs.

*Source.* Harmony (dissertation 2020), 4.3.1 and Fig. 4.6: PULL, COMP and PUSH are subtasks, queued
in executors. ``shared`` is ours: links of Warren's without ``flow: turns``. With turns a job keeps
its turn from the push to the end of the next pull, so that (4.1) holds.

*Symbols.* Axis J: the jobs of a group.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from warren.solve.common.arrays import Float, FloatArray, Int, IntArray
from warren.solve.common.compile import kernel

Sends = Literal["turns", "apart", "shared"]
"""How the pulls and pushes of a group share the network; in turns as (4.1) has it."""
SENDS: Final[tuple[Sends, ...]] = get_args(Sends)
_ROUNDS: Final = 200
"""Iterations of the job that has done fewest, after which the mean of the second half is taken."""
_MOST: Final = 20
"""Times as many iterations of another job that end the play."""
_SAME: Final = 1e-12
"""Part of the time so far by which ends may differ and count as one."""
_NO, _QUEUED, _ACTIVE = 0, 1, 2
_PULL, _COMP, _PUSH = 0, 1, 2
_DUE_S, _DONE, _END_S, _DONE_THEN, _THEN_S = range(5)


def iteration_s(
    pull_s_J: FloatArray,
    comp_s_J: FloatArray,
    due_s_J: FloatArray,
    push_s_J: FloatArray,
    sends: Sends,
) -> float:
    """Compute the longest mean iteration (s) of the jobs of a group, once turns repeat.

    ``due_s_J``: from the beginning of a job's COMP until its push is queued. ``sends``: ``apart``
    or ``shared``.
    """
    times_J3 = np.ascontiguousarray(np.stack([pull_s_J, comp_s_J, push_s_J], axis=1), np.float64)
    jobs = len(times_J3)
    steps = _Steps(
        times_J3,
        np.ascontiguousarray(due_s_J, np.float64),
        np.zeros((jobs, 3), np.int64),
        np.zeros((jobs, 3), np.int64),
        np.zeros((jobs, 3)),
        np.zeros((jobs, 5)),
        np.zeros(1, np.int64),
    )
    _play(steps, sends == "shared")
    seen_J5 = steps.seen_J5
    done_J = seen_J5[:, _DONE] - seen_J5[:, _DONE_THEN]
    return float(((seen_J5[:, _END_S] - seen_J5[:, _THEN_S]) / np.maximum(done_J, 1)).max())


class _Steps(NamedTuple):
    """The pull, COMP and push of each job, and its iterations.

    ``times_J3``: seconds of each; ``due_J``: as ``iteration_s`` has it; ``state_J3``, ``order_J3``,
    ``left_J3``: whether each is queued or active, its place in the order of queueing, and the time
    that it takes yet. ``seen_J5``: when the push is due; iterations that have ended, and when the
    last one did; both in the middle. ``queued``: how many steps have been queued.
    """

    times_J3: FloatArray
    due_J: FloatArray
    state_J3: IntArray
    order_J3: IntArray
    left_J3: FloatArray
    seen_J5: FloatArray
    queued: IntArray


@kernel
def _play(steps: _Steps, shared: bool) -> None:
    """Play iterations, and write how many have ended and when."""
    jobs, now, least, most = len(steps.due_J), 0.0, 0.0, 0.0
    for job in range(jobs):
        _enqueue(steps, job, _PULL)
        steps.seen_J5[job, _DUE_S] = np.inf
    while least < _ROUNDS and most < _ROUNDS * _MOST:
        _begin(steps, shared, now)
        sending, span = 0, np.inf
        for job in range(jobs):
            for step in (_PULL, _PUSH):
                sending += steps.state_J3[job, step] == _ACTIVE
        for job in range(jobs):
            for step in range(3):
                if steps.state_J3[job, step] == _ACTIVE:
                    span = min(span, steps.left_J3[job, step] * (1 if step == _COMP else sending))
            span = min(span, steps.seen_J5[job, _DUE_S] - now)
        span = max(span, 0.0)
        now += span
        for job in range(jobs):
            if _goes_on(steps, job, span, sending, now):
                most = max(most, steps.seen_J5[job, _DONE])
                least = most
                for other in range(jobs):
                    least = min(least, steps.seen_J5[other, _DONE])
                if least <= _ROUNDS // 2:
                    steps.seen_J5[job, _DONE_THEN] = steps.seen_J5[job, _DONE]
                    steps.seen_J5[job, _THEN_S] = now


@kernel
def _enqueue(steps: _Steps, job: Int, step: Int) -> None:
    """Queue a step of a job."""
    steps.state_J3[job, step] = _QUEUED
    steps.order_J3[job, step] = steps.queued[0]
    steps.left_J3[job, step] = steps.times_J3[job, step]
    steps.queued[0] += 1


@kernel
def _goes_on(steps: _Steps, job: Int, span: Float, sending: Int, now: Float) -> bool:
    """Let time pass for a job; tell whether an iteration has ended, after which it pulls again."""
    ended = False
    for step in range(3):
        if steps.state_J3[job, step] == _ACTIVE:
            steps.left_J3[job, step] -= span / (1 if step == _COMP else sending)
            if steps.left_J3[job, step] <= now * _SAME:
                steps.state_J3[job, step] = _NO
                if step == _PULL:
                    _enqueue(steps, job, _COMP)
                else:
                    ended = True
    if steps.seen_J5[job, _DUE_S] <= now * (1.0 + _SAME):
        steps.seen_J5[job, _DUE_S] = np.inf
        _enqueue(steps, job, _PUSH)
    if not ended or steps.seen_J5[job, _DUE_S] < np.inf:
        return False
    for step in range(3):
        if steps.state_J3[job, step] != _NO:
            return False
    _enqueue(steps, job, _PULL)
    steps.seen_J5[job, _DONE] += 1.0
    steps.seen_J5[job, _END_S] = now
    return True


@kernel
def _begin(steps: _Steps, shared: bool, now: Float) -> None:
    """Begin the steps whose turn it is on a free network, and on a free CPU."""
    jobs, sends, computes = len(steps.due_J), False, False
    for job in range(jobs):
        computes = computes or steps.state_J3[job, _COMP] == _ACTIVE
        for step in (_PULL, _PUSH):
            if shared and steps.state_J3[job, step] == _QUEUED:
                steps.state_J3[job, step] = _ACTIVE
            sends = sends or steps.state_J3[job, step] == _ACTIVE
    first_job, first_step, first = -1, -1, np.int64(2**62)
    for job in range(jobs):
        for step in (_PULL, _PUSH):
            queued = not sends and steps.state_J3[job, step] == _QUEUED
            if queued and steps.order_J3[job, step] < first:
                first_job, first_step, first = job, step, steps.order_J3[job, step]
    if first_job >= 0:
        steps.state_J3[first_job, first_step] = _ACTIVE
    first_job, first = -1, np.int64(2**62)
    for job in range(jobs):
        queued = not computes and steps.state_J3[job, _COMP] == _QUEUED
        if queued and steps.order_J3[job, _COMP] < first:
            first_job, first = job, steps.order_J3[job, _COMP]
    if first_job >= 0:
        steps.state_J3[first_job, _COMP] = _ACTIVE
        steps.seen_J5[first_job, _DUE_S] = now + steps.due_J[first_job]
