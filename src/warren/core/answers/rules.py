"""Rules for answers to shape, group and flow. Each rule stands here once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from warren.core.state import Phase, State
from warren.model.decision import CLASSES, MOST_DELAY_NS, Decision, Group, Shape
from warren.model.errors import InfeasibleDecision

_ENDED: Final = int(Phase.FINISHED)
_ACTIVE: Final = int(Phase.ACTIVE)


def check_answers(state: State, policy: str, decision: Decision) -> None:
    """Refuse a decision whose shapes, groups, classes or delays break a rule, before any applies.

    Raises
    ------
    InfeasibleDecision
        Naming the policy, the answer and the rule.
    """
    for broken in _broken_rules(state, decision):
        raise InfeasibleDecision(f"policy {policy}: {broken}")


def _broken_rules(state: State, decision: Decision) -> Iterator[str]:
    """Yield the text of each rule that an answer breaks; empty if all are allowed."""
    if decision.shapes:
        yield from _broken_by_shapes(state, decision)
    if decision.groups is not None:
        yield from _broken_by_groups(state, decision.groups)
    for job, kind in decision.classes.items():
        yield from _broken_by_class(state, job, kind, f"class {kind} of job {job}")
    for (host, job), kind in decision.host_classes.items():
        what = f"class {kind} of job {job} on host {host}"
        yield from _broken_by_class(state, job, kind, what)
        yield from _unknown_hosts(state, (host,), what)
    for job, delay_ns in decision.delays_ns.items():
        what = f"delay of {delay_ns} ns of job {job}"
        yield from _not_active(state, job, what)
        if not 0 <= delay_ns <= MOST_DELAY_NS:
            yield f"{what}; allowed: 0 to {MOST_DELAY_NS}, a day"


def _broken_by_class(state: State, job: int, kind: int, what: str) -> Iterator[str]:
    """Yield the faults of one class of one job."""
    yield from _not_active(state, job, what)
    if not 0 <= kind < CLASSES:
        yield f"{what}; allowed: 0 to {CLASSES - 1}"


def _broken_by_groups(state: State, groups: tuple[Group, ...]) -> Iterator[str]:
    """Yield the faults of groups, one by one and together."""
    members: set[int] = set()
    for number, group in enumerate(groups):
        what = f"group {number}"
        if not group.jobs or not group.hosts:
            yield f"{what} has at least one job and one host"
        yield from _unknown_hosts(state, group.hosts, what)
        if len(set(group.hosts)) < len(group.hosts):
            yield f"{what} names a host twice"
        for job in group.jobs:
            yield from _not_active(state, job, what)
            yield from _planned_elsewhere(state, job, group.hosts, what)
            if job in members:
                yield f"{what}: job {job} is in two groups, or twice in one"
            members.add(job)


def _broken_by_shapes(state: State, decision: Decision) -> Iterator[str]:
    """Yield the faults of shapes, job by job, then with all servers that hosts would have."""
    jobs = len(state.phase_J)
    for job, shape in decision.shapes.items():
        what = f"shape of job {job}"
        if not 0 <= job < jobs:
            yield f"{what}: there is no such job"
            return
        # A shape may come before its job, so that a policy that plans ahead can use it.
        if state.phase_J.item(job) >= _ENDED:
            yield f"{what}: the job is {Phase(state.phase_J[job]).name}; allowed: one not ended"
        yield from _broken_by_shape(state, job, shape, what)
    yield from _short_of_memory(state, decision)


def _broken_by_shape(state: State, job: int, shape: Shape, what: str) -> Iterator[str]:
    """Yield the faults of the shape of one job by itself."""
    yield from _unknown_hosts(state, shape.servers, f"{what}: servers")
    for host in sorted(state.absent.intersection((*shape.servers, *(shape.workers or ())))):
        yield f"{what}: host {state.run.cluster.hosts[host].name} is not there now"
    if shape.servers and state.run.workload.jobs[job].sync == "ring":
        yield f"{what}: a ring has no servers"
    workers = shape.workers
    if workers is not None:
        yield from _unknown_hosts(state, workers, f"{what}: workers")
        if not workers or len(set(workers)) < len(workers):
            yield f"{what}: workers name at least one host, and each once"
        yield from _planned_elsewhere(state, job, workers, f"{what}: workers")
    sizes = shape.model_bytes
    if sizes is not None and (len(sizes) != len(shape.servers) or min(sizes, default=0) < 0):
        yield f"{what}: model_bytes states 0 or more bytes for each server, got {sizes}"


def _short_of_memory(state: State, decision: Decision) -> Iterator[str]:
    """Yield hosts without memory for the servers of the jobs that have a shape then."""
    hosts = state.run.cluster.hosts
    needed: Counter[int] = Counter()
    for job, shape in {**state.answers.shapes, **decision.shapes}.items():
        for host, size in zip(shape.servers, _sizes(state, job, shape), strict=True):
            needed[host] += size
    for job, shape in decision.shapes.items():
        for host in shape.servers:
            memory = hosts[host].memory_bytes
            if memory is not None and needed[host] > memory:
                yield (
                    f"shape of job {job}: host {hosts[host].name} has {memory} bytes of memory, "
                    f"and its servers would need {needed[host]}"
                )


def _sizes(state: State, job: int, shape: Shape) -> tuple[int, ...]:
    """Return the bytes of the model on each server; 0 where the model's size is unknown."""
    if shape.model_bytes is not None:
        return shape.model_bytes
    known = state.costs.model_bytes_J
    size = 0 if known is None else int(known[job])
    # Rounded up: a server holds whole bytes.
    return (-(-size // max(1, len(shape.servers))),) * len(shape.servers)


def _not_active(state: State, job: int, what: str) -> Iterator[str]:
    """Yield why a job cannot be answered about now: it is unknown, not there yet, or gone."""
    if not 0 <= job < len(state.phase_J):
        yield f"{what}: there is no job {job}"
    elif state.phase_J.item(job) != _ACTIVE:
        yield f"{what}: job {job} is {Phase(state.phase_J[job]).name}, allowed: ACTIVE"


def _planned_elsewhere(state: State, job: int, hosts: tuple[int, ...], what: str) -> Iterator[str]:
    """Yield why these hosts cannot bind a job: a plan, which stays, has placed it on others."""
    beyond = state.answers.planned_hosts.get(job, set()) - set(hosts)
    if beyond:
        names = ", ".join(state.run.cluster.hosts[host].name for host in sorted(beyond))
        yield f"{what}: the plan has tasks of job {job} on host {names}, too"


def _unknown_hosts(state: State, hosts: Iterable[int], what: str) -> Iterator[str]:
    """Yield each host that the cluster has not."""
    count = len(state.run.cluster.hosts)
    for host in hosts:
        if not 0 <= host < count:
            yield f"{what}: there is no host {host}; allowed: 0 to {count - 1}"


def check_standing(state: State) -> None:
    """Check the rules that standing answers must keep between two steps.

    Raises
    ------
    AssertionError
        Naming the broken rule: a defect of Warren's, not of a policy.
    """
    answers, done_J = state.answers, state.done_J
    assert not len(answers.class_J) or 0 <= answers.class_J.min() <= answers.class_J.max() < CLASSES
    for (host, job), kind in answers.host_classes.items():
        assert 0 <= kind < CLASSES, f"job {job}, host {host}: class {kind}"
        assert kind != answers.class_J[job], f"job {job}, host {host}: nothing differs there"
        assert not done_J[job], f"job {job}: a class on a host outlives it"
    members = [job for group in answers.groups for job in group.jobs]
    assert len(set(members)) == len(members), "a job is in two groups"
    assert sorted(members) == (answers.group_J >= 0).nonzero()[0].tolist(), "group_J: the groups"
    for job, hosts in answers.worker_hosts.items():
        shape = answers.shapes[job]
        assert shape is answers.shape_J[job], f"job {job}: shape"
        assert hosts == set(shape.workers or ()), f"job {job}: workers"
        assert shape.servers == answers.servers_J[job], f"job {job}: servers"
    assert not any(done_J[job] for job in (*answers.shapes, *answers.group_hosts))
