"""``--set KEY=VALUE``: dotted keys put into the run's files before they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.model.errors import Problem
from warren.workload.text import dotted
from warren.workload.yaml_document import Document

_ELSEWHERE: Final = ("cluster", "profiles")
"""Fields of a run file whose content may stand in a file of its own."""

Key = tuple[str, ...]
Overrides = dict[Key, Any]


def split_keys(values: Mapping[str, Any]) -> Overrides:
    """Overrides by their path, in the order given."""
    return {tuple(key.split(".")): value for key, value in values.items()}


def apply(document: Document, values: Mapping[Key, Any], problems: list[Problem]) -> None:
    """Put the values into the document; where a part of the way is no mapping, say so."""
    if not isinstance(document.data, dict):
        return
    for path, value in values.items():
        if "" in path:
            problems.append(_refused(document, path, "an override is a dotted key and a value"))
        elif not _put(document.data, path, value):
            message = "cannot be set: what stands around it is not a mapping"
            problems.append(_refused(document, path, message))
        else:
            document.overridden.append(path)


def _put(data: dict[str, Any], path: Key, value: Any) -> bool:
    inside: Any = data
    for key in path[:-1]:
        if inside.get(key) is None:
            inside[key] = {}
        inside = inside[key]
        if not isinstance(inside, dict):
            return False
    inside[path[-1]] = value
    return True


def _refused(document: Document, path: Key, message: str) -> Problem:
    return Problem(file=document.file, field=dotted(path), message=f"{message} (an override)")


def divide(data: Any, values: Mapping[Key, Any]) -> tuple[Overrides, dict[str, Overrides]]:
    """What goes into the run file itself, and what into the files it names.

    ``cluster.network.model`` belongs to the cluster's file where ``cluster`` is a path.
    """
    own: Overrides = {path: value for path, value in values.items() if len(path) == 1}
    inner: dict[str, Overrides] = {name: {} for name in _ELSEWHERE}
    for path, value in values.items():
        if len(path) == 1:
            continue
        head = path[0]
        stands = own.get((head,), data.get(head) if isinstance(data, dict) else None)
        if head in _ELSEWHERE and isinstance(stands, str):
            inner[head][path[1:]] = value
        else:
            own[path] = value
    return own, inner
