"""Groups as users stated them: the jobs and hosts that the run file names.

What
    A job that arrives joins the group of the run file that names it, and shares the group's hosts
    with the others. A job that no group names may run anywhere.
Source
    None; groups that users know to be good, and a policy to test groups with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from warren.model.decision import NOTHING, Decision, Group, Question
from warren.model.errors import Problem, SpecError
from warren.model.events import Event, JobArrived
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedGroups:
    """Let the groups of the run file share hosts, as ``policy: {group: {groups: [...]}}`` states.

    Its memory is the stated groups by index: jobs and hosts of each.
    """

    groups: list[Any] = field(default_factory=list)
    """``{jobs: [NAME, ...], hosts: [NAME, ...]}`` each."""

    name: ClassVar[str] = "fixed"
    source: ClassVar[str] = "none: the groups of the run file"
    # It knows the names of jobs before these arrive, since the run file states them.
    offline: ClassVar[bool] = True
    needs_rounds: ClassVar[bool] = False
    answers: ClassVar[frozenset[Question]] = frozenset({Question.GROUP})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived})

    def __post_init__(self) -> None:
        groups = self.groups if isinstance(self.groups, list) else [None]
        for one in groups:
            right = isinstance(one, dict) and set(one) == {"jobs", "hosts"}
            if not right or not all(map(_names, one.values())):
                raise ValueError("a group is {jobs: [NAME, ...], hosts: [NAME, ...]}")

    def initial(self, view: View) -> tuple[Group, ...]:
        """Return the stated groups by index.

        Raises SpecError if there is no job or no host of a name that a group states.
        """
        jobs = {job.name: job.index for job in view.jobs}
        hosts = {host.name: index for index, host in enumerate(view.cluster.hosts)}
        return tuple(
            Group(_indices(one["jobs"], jobs, "job"), _indices(one["hosts"], hosts, "host"))
            for one in self.groups
        )

    def decide(self, view: View, memory: tuple[Group, ...]) -> tuple[Decision, tuple[Group, ...]]:
        """Return the groups of all jobs that are there now, if one of them has just arrived."""
        named = {job for group in memory for job in group.jobs}
        arrived = {event.job for event in view.changes if isinstance(event, JobArrived)}
        if not named & arrived:
            return NOTHING, memory
        present = [
            Group(tuple(job for job in one.jobs if _is_present(view, job)), one.hosts)
            for one in memory
        ]
        return Decision(groups=tuple(one for one in present if one.jobs)), memory

    def explain(self, view: View, memory: tuple[Group, ...], job: int) -> str:
        """Say in one sentence which jobs share hosts with the job."""
        for group in memory:
            if job in group.jobs:
                hosts = ", ".join(view.cluster.hosts[host].name for host in group.hosts)
                return f"the run file puts it with {len(group.jobs) - 1} other job(s) on {hosts}"
        return "no group of the run file names it"


def _is_present(view: View, job: int) -> bool:
    return bool(view.arrived_J[job] and not view.done_J[job])


def _names(value: object) -> bool:
    """Tell whether a value is a list of at least one name."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _indices(names: list[str], known: dict[str, int], what: str) -> tuple[int, ...]:
    """Return the indices of the names; refuse a name that is not known."""
    for name in names:
        if name not in known:
            some = ", ".join(list(known)[:10])
            message = f"there is no {what} {name!r}; allowed, for example: {some}"
            raise SpecError(Problem(file="policy", field="group.groups", message=message))
    return tuple(known[name] for name in names)
