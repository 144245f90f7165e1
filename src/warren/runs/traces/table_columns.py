"""Columns of a table of jobs that Warren does not know: as a user gives them, or as proposed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.text import shown
from warren.workload.traces.formats.any_table import FIELDS, SEPARATORS, USUAL, mapping_problem
from warren.workload.traces.proposal import Proposal

_SHOWN: Final = 12
"""Most columns of a table that are named in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedTable:
    """The proposed reading of an unknown table.

    ``spec``: the ``workload.trace`` of a run file for this reading. ``options``: the same as
    options of ``warren trace``. ``unused``: columns that the proposal does not use, for a line of
    text. ``has_gpus``: whether a column of GPUs was found.
    """

    spec: Mapping[str, Any]
    options: str
    unused: tuple[str, ...]
    has_gpus: bool


def proposed_table(file: str, table: Proposal) -> ProposedTable:
    """Return a proposal as a user may take it."""
    spec: dict[str, Any] = {"format": "table", "path": file, "columns": dict(table.columns)}
    if table.units:
        spec["units"] = dict(table.units)
    if table.separator != USUAL:
        spec["separator"] = table.separator
    used = table.columns.values()
    return ProposedTable(
        spec=spec,
        options=_options(table.columns, table),
        unused=tuple(shown(name) for name in table.header if name not in used),
        has_gpus="gpus" in table.columns,
    )


def given_table(columns: str, units: str | None, separator: str) -> dict[str, Any]:
    """Return the columns, units and separator of options as fields of a ``TraceRequest``.

    Raises SpecError if a table cannot be read by them.
    """
    # From the fields to their units: each error names the option that it is in.
    named, unit_of = _pairs("--columns", columns), _pairs("--units", units or "")
    if unknown := [field for field in named if field not in FIELDS]:
        allowed = f"allowed: {', '.join(FIELDS)}"
        raise _wrong("--columns", f"unknown field {shown(unknown[0])}; {allowed}")
    if separator not in SEPARATORS:
        raise _wrong("--separator", f"{shown(separator)}; allowed: {', '.join(SEPARATORS)}")
    if problem := mapping_problem(named, unit_of):
        raise _wrong("--units" if problem.startswith("units") else "--columns", problem)
    return {"columns": named, "units": unit_of, "delimiter": SEPARATORS[separator]}


def of_proposal(table: Proposal) -> dict[str, Any]:
    """Return the columns, units and separator of a proposal as fields of a ``TraceRequest``."""
    delimiter = SEPARATORS[table.separator]
    return {"columns": table.columns, "units": table.units, "delimiter": delimiter}


def unknown_table(file: str, table: Proposal) -> SpecError:
    """Make the error for a table whose columns have no stated reading."""
    if lacks := table.lacking:
        names = ", ".join(map(shown, table.header[:_SHOWN]))
        more = ", ..." if len(table.header) > _SHOWN else ""
        named = _options({**table.columns, **dict.fromkeys(lacks, "COLUMN")}, table)
        how = (
            f"as a table it needs a column for {' and '.join(lacks.values())}; "
            f"name it: {named}; it has {names}{more}"
        )
    else:
        named = _options(table.columns, table)
        how = f"as a table, perhaps: {named}; `warren trace inspect` shows it so"
    return SpecError(Problem(file=file, message=f"is no trace that Warren knows; {how}"))


def _options(columns: Mapping[str, str], table: Proposal) -> str:
    """Return columns, with units and separator of a proposal, as options of ``warren trace``."""
    # Names of columns come from the file and may hold anything; units and separators are Warren's.
    words = [f"--columns {shlex.quote(_joined(columns))}"]
    if table.units:
        words.append(f"--units {_joined(table.units)}")
    if table.separator != USUAL:
        words.append(f"--separator {table.separator}")
    return " ".join(words)


def _joined(pairs: Mapping[str, str]) -> str:
    """Return a mapping as ``a=x,b=y``."""
    return ",".join(f"{key}={value}" for key, value in pairs.items())


def _pairs(option: str, text: str) -> dict[str, str]:
    """Parse ``a=x,b=y`` as a mapping."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (key and equals and value) or key in found:
            raise _wrong(option, f"{shown(part)}; write it as submitted=NAME, each field once")
        found[key] = value
    return found


def _wrong(option: str, message: str) -> SpecError:
    return SpecError(Problem(file=option, message=message))
