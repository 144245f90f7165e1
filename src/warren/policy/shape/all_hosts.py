"""Every host works and serves: the shape that needs no thought.

What
    When a job arrives, each host of the cluster, or of the job's group, is a worker and has a
    server of an equal part of the model.
Source
    Cruise (dissertation 2020), 3.4, and Harmony, 4.1: colocated workers and servers are the shape
    of systems that do not choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision, Question, Shape
from warren.model.events import Event, JobArrived
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class AllHosts:
    """Let every host work and serve. It remembers nothing."""

    name: ClassVar[str] = "all"
    source: ClassVar[str] = "none: every host both"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.SHAPE})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived})

    def initial(self, view: View) -> None:
        """Return None: there is nothing to remember."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Return the shapes of jobs that have arrived; a ring has no servers, and keeps its."""
        shapes = dict[int, Shape]()
        for event in view.changes:
            if isinstance(event, JobArrived) and view.jobs[event.job].sync == "ps":
                shapes[event.job] = Shape(None, hosts_of(view, event.job))
        return (Decision(shapes=shapes) if shapes else NOTHING), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """Say in one sentence why the job has its shape."""
        return "every host works and serves"


def hosts_of(view: View, job: int) -> tuple[int, ...]:
    """Return the hosts that a job may have: those of its group, or else all of the cluster."""
    group = view.group_J.item(job)
    return view.groups[group].hosts if group >= 0 else tuple(range(len(view.hosts.devices_H)))
