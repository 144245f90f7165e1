"""What a trace reader is asked, what it answers, and the rows it could not use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warren.model.costs import ProfileRow
from warren.model.job import Job

_LINES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A trace's text, the cluster's device types, and what to take of it."""

    file: str
    content: bytes
    types: tuple[str, ...]
    run_seed: int = 0
    round_s: float = 60.0
    limit: int | None = None
    gpus_max: int | None = None
    leave_out: tuple[str, ...] = ()
    throughputs_file: str = ""
    throughputs: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Jobs in file order, the costs they name, and remarks on rows that were not used."""

    jobs: tuple[Job, ...]
    profiles: tuple[ProfileRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Unused:
    """Rows that are no jobs: counted by reason, never dropped in silence."""

    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, line: int, reason: str) -> None:
        """Count one row."""
        self.lines.setdefault(reason, []).append(line)

    def notes(self, file: str) -> Iterator[str]:
        """One remark a reason: how many rows, why, and their lines (the first of many)."""
        for reason, lines in self.lines.items():
            first = ", ".join(str(line) for line in lines[:_LINES_SHOWN])
            more = "" if len(lines) <= _LINES_SHOWN else ", ..."
            what = "row" if len(lines) == 1 else "rows"
            yield f"{file}: {len(lines)} {what} not used: {reason} (line {first}{more})"


def from_first_arrival(jobs: Iterable[tuple[int, int, Job]]) -> Iterator[Job]:
    """Jobs with arrivals counted from the earliest; input is (submission ns, line, job)."""
    rows = list(jobs)
    first_ns = min((submitted for submitted, _, _ in rows), default=0)
    for index, (submitted_ns, _, job) in enumerate(rows):
        yield replace(job, index=index, arrival_ns=submitted_ns - first_ns)


def first_by_arrival(
    rows: Sequence[tuple[int, int, Job]], limit: int | None
) -> list[tuple[int, int, Job]]:
    """The ``limit`` earliest rows, in file order; all of them where there is no limit."""
    if limit is None or limit >= len(rows):
        return list(rows)
    earliest = sorted(rows, key=lambda row: row[:2])[:limit]
    return sorted(earliest, key=lambda row: row[1])
