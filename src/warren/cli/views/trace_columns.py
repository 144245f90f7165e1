"""A table of jobs that Warren does not know: its columns as options, and what is proposed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from warren.model.errors import Problem, SpecError
from warren.workload.text import shown
from warren.workload.traces.formats.any_table import FIELDS, SEPARATORS, USUAL, mapping_problem
from warren.workload.traces.proposal import Proposal

_SHOWN: Final = 12
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./ ")


def given_table(columns: str, units: str | None, separator: str) -> dict[str, Any]:
    """The columns, units and separator of options, for a ``TraceRequest``.

    Raises
    ------
    SpecError
        If they are not what a table can be read by.
    """
    named, told = _pairs("--columns", columns), _pairs("--units", units or "")
    if unknown := [field for field in named if field not in FIELDS]:
        allowed = f"allowed: {', '.join(FIELDS)}"
        raise _wrong("--columns", f"unknown field {shown(unknown[0])}; {allowed}")
    if separator not in SEPARATORS:
        raise _wrong("--separator", f"{shown(separator)}; allowed: {', '.join(SEPARATORS)}")
    if problem := mapping_problem(named, told):
        raise _wrong("--units" if problem.startswith("units") else "--columns", problem)
    return {"columns": named, "units": told, "delimiter": SEPARATORS[separator]}


def of_proposal(table: Proposal) -> dict[str, Any]:
    """The same of a proposal."""
    delimiter = SEPARATORS[table.separator]
    return {"columns": table.columns, "units": table.units, "delimiter": delimiter}


def unknown_table(file: str, table: Proposal) -> SpecError:
    """The error for a table that is to be read and of which nobody has said how."""
    if table.problem:
        names = ", ".join(map(shown, table.header[:_SHOWN]))
        more = ", ..." if len(table.header) > _SHOWN else ""
        how = f"as a table its {table.problem}; name them by --columns; it has {names}{more}"
    else:
        how = f"as a table, perhaps: {_options(table)}; `warren trace inspect` shows it so"
    return SpecError(Problem(file=file, message=f"is no trace that Warren knows; {how}"))


def table_spec(file: str, table: Proposal) -> dict[str, Any]:
    """What a run file says to read the table so, as ``workload.trace``."""
    spec: dict[str, Any] = {"format": "table", "path": file, "columns": dict(table.columns)}
    if table.units:
        spec["units"] = dict(table.units)
    if table.separator != USUAL:
        spec["separator"] = table.separator
    return spec


def proposal_text(file: str, table: Proposal) -> str:
    """Lines that propose how a run file, or the command, reads the table."""
    spec = table_spec(file, table)
    lines = [
        f"{file}: no trace that Warren knows; by the names of its columns, and to be looked at",
        "(times without a unit are seconds):",
        "",
        "  workload:",
        "    trace:",
        *(f"      {key}: {_yaml(value)}" for key, value in spec.items()),
        *_left_out(table),
        "",
        f"  warren trace convert {shlex.quote(file)} {_options(table)} --to jobs.csv",
        "",
    ]
    return "\n".join(lines)


def _left_out(table: Proposal) -> list[str]:
    """What the proposal does not use, and what follows where no column of GPUs was found."""
    lines = []
    if unused := [name for name in table.header if name not in table.columns.values()]:
        lines += ["", f"  columns not used: {', '.join(map(shown, unused))}"]
    if "gpus" not in table.columns:
        lines += ["", "  no column of GPUs was found: each job counts as one of 1 GPU"]
    return lines


def _options(table: Proposal) -> str:
    words = [f"--columns {shlex.quote(_joined(table.columns))}"]
    if table.units:
        words.append(f"--units {_joined(table.units)}")
    if table.separator != USUAL:
        words.append(f"--separator {table.separator}")
    return " ".join(words)


def _joined(pairs: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in pairs.items())


def _yaml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_yaml(one)}' for key, one in value.items())}}}"
    return value if set(value) <= _PLAIN else f'"{value}"'.replace("\t", "\\t")


def _pairs(option: str, text: str) -> dict[str, str]:
    """``a=x,b=y`` as a mapping."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (key and equals and value) or key in found:
            raise _wrong(option, f"{shown(part)}; write it as submitted=NAME, each field once")
        found[key] = value
    return found


def _wrong(option: str, message: str) -> SpecError:
    return SpecError(Problem(file=option, message=message))
