"""Classes stated by users: each job's bytes have the class of its job file.

What
    When a job arrives, it gets the class that its job file states (``class: 1`` to ``7``, 1 first).
    A job that states none stays in class 0, before all others.
Source
    None; priorities that users give, and a policy to test links with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision, Question
from warren.model.events import Event, JobArrived
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedClasses:
    """Give each job the class of its job file when it arrives. It remembers nothing."""

    name: ClassVar[str] = "fixed"
    source: ClassVar[str] = "none: the classes of the job file"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived})

    def initial(self, view: View) -> None:
        """Return None: there is nothing to remember."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Return the classes of the jobs that have just arrived and state one."""
        arrived = [event.job for event in view.changes if isinstance(event, JobArrived)]
        stated = {job: view.jobs[job].flow_class for job in arrived if not view.done_J[job]}
        classes = {job: kind for job, kind in stated.items() if kind}
        return (Decision(classes=classes) if classes else NOTHING), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """Say in one sentence why the job has its class."""
        kind = view.jobs[job].flow_class
        return f"its job file states class {kind}" if kind else "its job file states no class"
