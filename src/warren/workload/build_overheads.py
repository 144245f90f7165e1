"""Measured overheads, inside a cluster or in a file of their own."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from warren.model.errors import Problem, SpecError
from warren.model.overheads import Overheads
from warren.workload.checking import check
from warren.workload.document import Document, Path, parse_document
from warren.workload.schema_cluster import ClusterSpec
from warren.workload.schema_overheads import OverheadsSpec
from warren.workload.text import Reader, fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """How files that a cluster names are found: relative to ``folder``, which is in ``base``."""

    read: Reader
    base: str = ""
    folder: str = ""


def overheads_of(
    spec: ClusterSpec, document: Document, at: Path, nearby: Nearby, problems: list[Problem]
) -> Overheads | None:
    """The overheads that the cluster at ``at`` states or names; None: none, or problems."""
    stated = spec.overheads
    if isinstance(stated, str):
        line = document.line((*at, "overheads"))
        by = document.file if line is None else f"{document.file}:{line}"
        stated = _followed(stated, nearby, by, problems)
    return None if stated is None else _overheads(stated)


def _followed(named: str, nearby: Nearby, by: str, problems: list[Problem]) -> OverheadsSpec | None:
    path = posixpath.join(nearby.base, nearby.folder, named)
    try:
        document = parse_document(path, fetch(path, nearby.read, by))
    except SpecError as error:
        problems += error.problems
        return None
    return check(OverheadsSpec, document, problems)


def _overheads(spec: OverheadsSpec) -> Overheads:
    stated = spec.constants
    return Overheads(
        cores=stated.cores,
        dispatch_ns=stated.dispatch,
        task_cpu_ns=stated.task_cpu,
        round_cpu_ns=stated.round_cpu,
        task_cpu_bytes_per_s=stated.task_cpu_rate,
        round_cpu_bytes_per_s=stated.round_cpu_rate,
        slowdown=stated.slowdown,
    )
