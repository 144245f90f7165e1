"""Answers to shape, group and flow, made plain: a foreign policy is user code and may say anything.

Types are checked here; whether the cluster state allows an answer is checked in ``rules``. A
refused answer raises ``WrongAnswer``, to which ``core.decision_checks`` adds the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Final

from warren.model.decision import Decision, Group, Question, Shape


class WrongAnswer(Exception):
    """An invalid answer; the text says what is wrong and what is allowed."""


def questions_of(decision: Decision) -> Iterable[tuple[Question, str]]:
    """Yield the questions that a decision answers, each with the field that does."""
    for question, names in _FIELDS.items():
        for name in names:
            value = getattr(decision, name)
            # An empty tuple of groups is an answer; an empty mapping or tuple of the others is not.
            if value if name not in _MAY_BE_EMPTY else value is not None:
                yield question, name
                break


_FIELDS: Final[Mapping[Question, tuple[str, ...]]] = {
    Question.SHAPE: ("shapes",),
    Question.GROUP: ("groups",),
    Question.PLACE: ("assign", "plan", "reasons"),
    Question.FLOW: ("classes", "host_classes", "delays_ns"),
}
_MAY_BE_EMPTY: Final = ("groups", "plan")


def plain_classes(classes: object) -> dict[int, int]:
    """Return classes by plain index of their job, or refuse them."""
    if not isinstance(classes, Mapping):
        raise WrongAnswer(f"classes map jobs to classes, got {kind_of(classes)}")
    what = "classes map a job's index to a whole number"
    return {_whole(job, what): _whole(one, what) for job, one in classes.items()}


def plain_delays(delays_ns: object) -> dict[int, int]:
    """Return delays in ns by plain index of their job, or refuse them."""
    if not isinstance(delays_ns, Mapping):
        raise WrongAnswer(f"delays_ns map jobs to ns, got {kind_of(delays_ns)}")
    what = "delays_ns map a job's index to whole ns"
    return {_whole(job, what): _whole(one, what) for job, one in delays_ns.items()}


def plain_host_classes(classes: object) -> dict[tuple[int, int], int]:
    """Return classes by plain indices of host and job, or refuse them."""
    if not isinstance(classes, Mapping):
        raise WrongAnswer(f"host_classes map (host, job) to classes, got {kind_of(classes)}")
    plain: dict[tuple[int, int], int] = {}
    what = "host_classes map (host, job), two indices, to a whole number"
    for key, one in classes.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise WrongAnswer(f"{what}, got {key!r}")
        plain[_whole(key[0], what), _whole(key[1], what)] = _whole(one, what)
    return plain


def plain_shapes(shapes: object) -> dict[int, Shape]:
    """Return shapes by plain index of their job, or refuse them."""
    if not isinstance(shapes, Mapping):
        raise WrongAnswer(f"shapes map jobs to shapes, got {kind_of(shapes)}")
    plain: dict[int, Shape] = {}
    for job, shape in shapes.items():
        which = _whole(job, "shapes map a job's index to a Shape")
        if not isinstance(shape, Shape):
            raise WrongAnswer(f"shapes map a job's index to a Shape, got {kind_of(shape)}")
        workers = None if shape.workers is None else _indices(shape.workers, "workers")
        servers = _indices(shape.servers, "servers")
        sizes = None if shape.model_bytes is None else _indices(shape.model_bytes, "model_bytes")
        plain[which] = Shape(workers, servers, sizes)
    return plain


def plain_groups(groups: object) -> tuple[Group, ...]:
    """Return groups with plain indices, or refuse them."""
    if not isinstance(groups, tuple) or not all(isinstance(one, Group) for one in groups):
        raise WrongAnswer(f"groups are a tuple of Groups, got {kind_of(groups)}")
    return tuple(
        Group(_indices(one.jobs, "jobs of a group"), _indices(one.hosts, "hosts of a group"))
        for one in groups
    )


def kind_of(value: object) -> str:
    """Return the name of a value's type."""
    return f"a {type(value).__name__}"


def _indices(values: object, what: str) -> tuple[int, ...]:
    """Return a tuple of plain whole numbers, or refuse it."""
    if not isinstance(values, tuple):
        raise WrongAnswer(f"{what} are a tuple, got {kind_of(values)}")
    return tuple(_whole(one, f"{what} are whole numbers") for one in values)


def _whole(value: object, what: str) -> int:
    """Return an integer of any library as Python's own; refuse anything else."""
    # Python takes True for 1, which no policy means here.
    if isinstance(value, bool):
        raise WrongAnswer(f"{what}, got {value!r}")
    try:
        return int(index(value))  # type: ignore[arg-type]
    except TypeError:
        raise WrongAnswer(f"{what}, got {value!r}") from None
