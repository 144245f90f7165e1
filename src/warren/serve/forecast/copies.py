"""Copies of a queue, on which changes are tried that the service does not make."""

from __future__ import annotations

from copy import copy

from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob


def copied(queue: Queue) -> Queue:
    """Return a queue in the same state, without the jobs that have ended.

    Events that are applied to it leave the original as it is. The places of jobs in ``in_order``
    stay; ended jobs are there, and are not to be changed.
    """
    other = Queue()
    other.in_order = [*queue.in_order]
    for job in queue.jobs.values():
        if job.ended_ns is None:
            other.jobs[job.id] = other.in_order[job.order] = _copied_job(job)
    for array in queue.dependencies.arrays.values():
        if array.unended and array.failed is not None:
            other.jobs.setdefault(array.failed, queue.jobs[array.failed])
    other.machines = {name: machine.copied() for name, machine in queue.machines.items()}
    other.types = dict(queue.types)
    other.hosts = {kind: [*names] for kind, names in queue.hosts.items()}
    other.users, other.quotas = dict(queue.users), dict(queue.quotas)
    other.waiting = queue.waiting.copied()
    other.running = dict(queue.running)
    other.dependencies = queue.dependencies.copied(other.jobs)
    other.names = {name: dict(units) for name, units in queue.names.items()}
    other.last_named, other.keys = dict(queue.last_named), dict(queue.keys)
    other.holds = {user: dict(held) for user, held in queue.holds.items()}
    other.usage = queue.usage.copied()
    other.next_number = queue.next_number
    other.policy = queue.policy
    return other


def _copied_job(job: ServiceJob) -> ServiceJob:
    other = copy(job)
    other.attempts = [*job.attempts]
    if other.attempts:
        other.attempts[-1] = copy(job.attempts[-1])
    return other
