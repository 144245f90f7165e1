"""What was measured of a cluster, inside its file or in one of its own: overheads, network."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TypeVar

from warren.model.cluster import Network
from warren.model.errors import Problem, SpecError
from warren.model.overheads import Overheads
from warren.workload.specs.cluster import ClusterSpec, NetworkFileSpec, NetworkSpec
from warren.workload.specs.overheads import OverheadsSpec
from warren.workload.specs.types import Spec
from warren.workload.text import Reader, fetch
from warren.workload.validation import check
from warren.workload.yaml_document import Document, Path, parse_document

SomeSpec = TypeVar("SomeSpec", bound=Spec)


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
        by = _named_at(document, (*at, "overheads"))
        stated = _followed(OverheadsSpec, stated, nearby, by, problems)
    return None if stated is None else _overheads(stated)


def network_of(
    spec: ClusterSpec, document: Document, at: Path, nearby: Nearby, problems: list[Problem]
) -> Network | None:
    """The network that the cluster at ``at`` states or names; None: problems."""
    stated = spec.network
    if isinstance(stated, str):
        by = _named_at(document, (*at, "network"))
        found = _followed(NetworkFileSpec, stated, nearby, by, problems)
        return None if found is None else _network(found)
    return _network(stated)


def _named_at(document: Document, at: Path) -> str:
    line = document.line(at)
    return document.file if line is None else f"{document.file}:{line}"


def _followed(
    kind: type[SomeSpec], named: str, nearby: Nearby, by: str, problems: list[Problem]
) -> SomeSpec | None:
    path = posixpath.join(nearby.base, nearby.folder, named)
    try:
        document = parse_document(path, fetch(path, nearby.read, by))
    except SpecError as error:
        problems += error.problems
        return None
    return check(kind, document, problems)


def _network(spec: NetworkSpec) -> Network:
    return Network(
        model=spec.model,  # type: ignore[arg-type]
        xi1=spec.xi1,
        xi2_s=spec.xi2,
        alpha=spec.alpha,
        reading=spec.reading,  # type: ignore[arg-type]
        outer_bps=spec.outer,
        inner_bps=spec.inner,
    )


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
        ring_start_ns=stated.ring_start,
        ring_rank_ns=stated.ring_rank,
        ring_move_ns=stated.ring_move,
    )
