"""Why a job waits: one cause, confirmed by taking it away, its evidence, and what can be done."""

from __future__ import annotations

import msgspec

from warren.serve.forecast.counterfactual import Counterfactual, needed
from warren.serve.forecast.next_steps import NextStep, free_in_all, jobs_before
from warren.serve.forecast.remaining import Remaining, by_limits
from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob
from warren.serve.schedule.decide import Order
from warren.serve.schedule.reasons import WaitCode, evidence, why


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits.

    ``cause`` is a code: held, dependency, quota, devices, drained, foreign, order, host, starting
    or never; empty if the job does not wait. ``confirmed``: without this cause alone the job would
    start at once. Where no single cause keeps the job, ``also`` has those that must go with it.
    ``evidence`` says what was found, ``next`` what can be done or is to come.
    """

    cause: str
    also: tuple[str, ...] = ()
    evidence: str
    next: str
    confirmed: bool


def explained(
    queue: Queue,
    job: ServiceJob,
    now_ns: int,
    order: Order,
    remaining_s: Remaining = by_limits,
) -> Why:
    """Return why a job waits; of a job that runs or has ended, in which state it is.

    Parameters
    ----------
    queue
        The queue, which stays as it is.
    job
        A job of it.
    now_ns
        The present.
    order
        How jobs may overtake each other.
    remaining_s
        How long jobs run on, in seconds: by default up to their limits.
    """
    listed = why(queue, job, now_ns, order)
    if listed.code == "" or listed.code == "starting":
        text = listed.text or _state(job)
        return Why(cause=listed.code, evidence=text, next="", confirmed=True)
    test = Counterfactual(queue, job, now_ns, order)
    there = test.present()
    if listed.code not in there:
        # No machine could run it: it waits whatever is taken away.
        step = NextStep(queue, job, now_ns, order, remaining_s).after(listed.code)
        gone = test.starts_without(there)
        return Why(cause=listed.code, evidence=listed.text, next=step, confirmed=not gone)
    causes = needed(test, [listed.code, *(one for one in there if one != listed.code)])
    cause, *also = causes or (listed.code,)
    step = NextStep(queue, job, now_ns, order, remaining_s, test).after(cause)
    if also:
        step = f"{step}; then it waits for: {', '.join(also)}" if step else step
    return Why(
        cause=cause,
        also=tuple(also),
        evidence=_evidence(queue, job, now_ns, order, (cause, *also)),
        next=step,
        confirmed=len(causes) == 1,
    )


def _state(job: ServiceJob) -> str:
    """Say what a job does that does not wait."""
    attempt = job.attempt
    if job.state.ended or attempt is None:
        return f"it is {job.state}{f': {job.reason}' if job.reason else ''}"
    return f"it runs on {attempt.host}"


def _evidence(
    queue: Queue, job: ServiceJob, now_ns: int, order: Order, causes: tuple[WaitCode, ...]
) -> str:
    """Return the evidence for the first cause, with figures that the list has no room for."""
    text = evidence(queue, job, causes[0], now_ns, order)
    if causes[0] == "devices" and "free" in text:
        count, hosts = free_in_all(queue, job)
        if hosts > 1:
            text = f"{text}; {count} are free on {hosts} hosts in all"
    if "order" in causes[1:] and job in queue.waiting:
        count = jobs_before(queue, job, now_ns)
        text = f"{text}; {count} {'job comes' if count == 1 else 'jobs come'} first"
    return text
