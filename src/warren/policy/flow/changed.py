"""Shared code of the flow policies: the jobs to order, and a decision of changed classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from warren.model.decision import CLASSES, NOTHING, Decision
from warren.model.view import View
from warren.policy.common.job_traffic import JobTraffic
from warren.solve.flows.class_order import ordered_classes

MOST: Final = CLASSES - 1
"""Classes for jobs: class 0 is for control, and for jobs that are not known yet."""
UNKNOWN: Final = "it has run no task yet: class 0, before all others"
"""The explanation for a job whose hosts are not known."""


@dataclass(frozen=True, slots=True)
class OrderMemory:
    """The memory of a policy that orders jobs when one comes or goes; ``order``: first first."""

    traffic: JobTraffic = field(default_factory=JobTraffic)
    order: tuple[int, ...] = ()


def checked_classes(classes: int) -> None:
    """Refuse a number of classes that no port has. Raises ValueError."""
    if not 1 <= classes <= MOST:
        raise ValueError(f"classes must be 1 to {MOST}, got {classes}")


def known_jobs(view: View, traffic: JobTraffic) -> list[int]:
    """Return the jobs that are there and have run a task, so that their hosts are known."""
    there = (view.arrived_J & ~view.done_J).nonzero()[0].tolist()
    return [job for job in there if job in traffic.tasks]


def reordered(
    view: View,
    memory: OrderMemory,
    ranked: Callable[[JobTraffic, list[int]], Sequence[int]],
    classes: int,
) -> tuple[Decision, OrderMemory]:
    """Order the jobs again, by ``ranked``, if one has come or gone."""
    traffic = memory.traffic.after(view)
    known = known_jobs(view, traffic)
    if known == sorted(memory.order):
        return NOTHING, OrderMemory(traffic, memory.order)
    order = tuple(ranked(traffic, known))
    return in_turns(view, traffic, [(job,) for job in order], classes), OrderMemory(traffic, order)


def in_turns(
    view: View, traffic: JobTraffic, turns: Sequence[Collection[int]], classes: int
) -> Decision:
    """Answer the classes that put these jobs in order on each host; all others have class 0."""
    hosts = {job: traffic.hosts(view, job) for turn in turns for job in turn}
    return changed(view, ordered_classes(turns, hosts, classes))


def changed(view: View, wanted: Mapping[int, int]) -> Decision:
    """Answer the classes that differ from the present ones; a job that is not named has class 0."""
    there = (view.arrived_J & ~view.done_J).nonzero()[0].tolist()
    found = {job: wanted.get(job, 0) for job in there}
    new = {job: kind for job, kind in found.items() if kind != view.class_J[job]}
    return msgspec.structs.replace(NOTHING, classes=new) if new else NOTHING
