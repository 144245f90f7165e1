"""The choice of a trace, its format, and the request to its reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warren.model.errors import Problem, SpecError
from warren.model.units import parse_time_s
from warren.runs.traces.table_columns import given_table, of_proposal, unknown_table
from warren.store.files import read
from warren.workload.text import fetch
from warren.workload.traces.format import head_of
from warren.workload.traces.formats.any_table import USUAL
from warren.workload.traces.machine_lists import is_cluster
from warren.workload.traces.proposal import Proposal, propose
from warren.workload.traces.registry import TRACES, detected, told_by, trace_format
from warren.workload.traces.rows import TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """A trace and how to read it, as given by a user: the options of ``warren trace``.

    ``gang`` and ``round`` give the costs of jobs, so they matter only if a trace becomes jobs.
    """

    file: str
    format: str = "auto"
    throughputs: str | None = None
    types: str | None = None
    limit: int | None = None
    gpus_max: int | None = None
    leave_out: tuple[str, ...] = ()
    columns: str | None = None
    units: str | None = None
    separator: str = USUAL
    gang: bool = False
    round: str = "60 s"


def trace_request(
    asked: TraceOptions, *, proposing: bool = False
) -> tuple[str, TraceRequest, Proposal | None]:
    """Return the name of a trace's format, the request to its reader, and proposed columns.

    The proposal is None if the format, or the user, gives the meaning of the columns.
    ``proposing``: a table that Warren does not know is read by the proposal; otherwise it is
    refused. Raises SpecError if a file cannot be read, the trace has no known format, or an option
    is wrong.
    """
    if asked.format not in ("auto", *TRACES):
        message = f"unknown format {asked.format!r}; allowed: auto, {', '.join(TRACES)}"
        raise SpecError(Problem(file="--format", message=message))
    content = fetch(asked.file, read)
    name, how, proposed = _form(asked, content, proposing)
    table = None if asked.throughputs is None else fetch(asked.throughputs, read)
    request = TraceRequest(
        file=asked.file,
        content=content,
        types=_types(asked.types) or trace_format(name).types,
        round_s=_round_s(asked.round),
        limit=asked.limit,
        gpus_max=asked.gpus_max,
        leave_out=asked.leave_out,
        throughputs_file=asked.throughputs or "",
        throughputs=table,
        # Faults of that file are reported under the option that names it.
        throughputs_field="--throughputs",
        gang=asked.gang,
        **how,
    )
    return name, request, proposed


def _form(
    asked: TraceOptions, content: bytes, proposing: bool
) -> tuple[str, dict[str, Any], Proposal | None]:
    """Return a trace's format; for a table also the reading of its columns, and the proposal.

    The user's names count first, then the beginning of the file, and last the names of its columns.
    """
    if asked.columns is not None:
        if asked.format not in ("auto", "table"):
            raise SpecError(Problem(file="--columns", message="needs --format table"))
        return "table", given_table(asked.columns, asked.units, asked.separator), None
    if asked.units is not None or asked.separator != USUAL:
        option = "--separator" if asked.units is None else "--units"
        raise SpecError(Problem(file=option, message="needs --columns"))
    if asked.format not in ("auto", "table"):
        return asked.format, {}, None
    head = head_of(asked.file, content)
    # For a list of machines ``detected`` says that it is no trace, and names the command for it.
    if asked.format == "auto" and (told_by(head) or is_cluster(head)):
        return detected(asked.file, content), {}, None
    proposed = propose(asked.file, content)
    if proposed is None and asked.format == "table":
        raise SpecError(Problem(file=asked.file, message="needs --columns"))
    # No table either: ``detected`` raises the error that names the formats.
    if proposed is None:
        return detected(asked.file, content), {}, None
    if proposed.problem or not proposing:
        raise unknown_table(asked.file, proposed)
    return "table", of_proposal(proposed), proposed


def _types(text: str | None) -> tuple[str, ...]:
    """Parse names of device types with commas between; empty if none are given."""
    types = tuple(name.strip() for name in (text or "").split(",")) if text is not None else ()
    if "" in types or len({*types}) < len(types):
        message = f"{text!r}; allowed: different names of device types, with commas between"
        raise SpecError(Problem(file="--types", message=message))
    return types


def _round_s(text: str) -> float:
    """Parse the length of a round, in seconds."""
    try:
        round_s = parse_time_s(text)
    except ValueError as error:
        raise SpecError(Problem(file="--round", message=str(error))) from None
    if not 0.001 <= round_s <= 1e9:
        raise SpecError(Problem(file="--round", message=f"{text!r} is not between 1 ms and 1e9 s"))
    return round_s
