"""The text that proposes how to read a table of jobs that Warren does not know."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from warren.runs.traces.table_columns import ProposedTable

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./ ")
"""Characters that mean nothing to YAML: a value of these alone needs no quotes."""


def proposal_text(file: str, table: ProposedTable) -> str:
    """Return lines that propose how a run file, or the command, reads the table."""
    lines = [
        f"{file}: a table in no format that Warren knows. The names of its columns suggest this",
        "reading; check it, and the units of times (seconds if none is named). In a run file:",
        "",
        "  workload:",
        "    trace:",
        *(f"      {key}: {_yaml(value)}" for key, value in table.spec.items()),
        *_left_out(table),
        "",
        "Or as a jobs file:",
        "",
        f"  warren trace convert {shlex.quote(file)} {table.options} --to jobs.csv",
        "",
    ]
    return "\n".join(lines)


def _left_out(table: ProposedTable) -> list[str]:
    """Return lines on unused columns, and on the effect of a missing column of GPUs."""
    lines = []
    if table.unused:
        lines += ["", f"  columns not used: {', '.join(table.unused)}"]
    if not table.has_gpus:
        lines += ["", "  no column of GPUs was found: each job counts as one of 1 GPU"]
    return lines


def _yaml(value: Any) -> str:
    """Return a text, or a mapping of texts, as YAML in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_yaml(one)}' for key, one in value.items())}}}"
    # A column may have any name: an unusual one is quoted, and a tab in it escaped.
    return value if set(value) <= _PLAIN else f'"{value}"'.replace("\t", "\\t")
