"""Workers and servers stated by users: each job has the hosts of its job file.

What
    Before time starts, each job whose job file states ``servers`` or ``workers`` gets these hosts.
    A job that states neither keeps the shape of ``static``.
Source
    None; shapes that users know to be good, and a policy to test servers on hosts with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import NOTHING, Decision, Question, Shape
from warren.model.errors import Problem, SpecError
from warren.model.events import Event
from warren.model.job import Job
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedShapes:
    """Give each job the hosts of its job file. It remembers nothing."""

    name: ClassVar[str] = "fixed"
    source: ClassVar[str] = "none: the hosts of the job file"
    # The statements of job files are known before any job arrives, to policies that plan ahead too.
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.SHAPE})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset()

    def initial(self, view: View) -> None:
        """Return None: there is nothing to remember."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Return the shapes of all jobs that state hosts.

        Raises SpecError if the cluster has no host of a name that a job states.
        """
        stated = ((job.index, stated_shape(view, job.index)) for job in view.jobs)
        shapes = {job: shape for job, shape in stated if shape is not None}
        return (Decision(shapes=shapes) if shapes else NOTHING), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """Say in one sentence where the job has its workers and servers."""
        stated = view.jobs[job]
        servers = ", ".join(stated.server_hosts) or "no hosts of servers"
        workers = ", ".join(stated.worker_hosts) or "none of workers"
        return f"its job file states {servers}, and {workers}"


def stated_shape(view: View, index: int) -> Shape | None:
    """Return the shape that a job file states; None: it states no hosts.

    Raises SpecError if the cluster has no host of a name that a job states.
    """
    job = view.jobs[index]
    if not (job.server_hosts or job.worker_hosts):
        return None
    position = {host.name: at for at, host in enumerate(view.cluster.hosts)}
    workers = _hosts(job, "workers", job.worker_hosts, position) or None
    servers = _hosts(job, "servers", job.server_hosts, position)
    return Shape(workers, servers, job.server_bytes or None)


def _hosts(job: Job, field: str, names: Sequence[str], position: dict[str, int]) -> tuple[int, ...]:
    """Return hosts by their index; refuse a name that the cluster does not have."""
    for name in names:
        if name not in position:
            message = f"there is no host {name!r}; allowed: {', '.join(position)}"
            where = f"job {job.name}: {field}.hosts"
            raise SpecError(Problem(file=job.source or "workload", field=where, message=message))
    return tuple(position[name] for name in names)
