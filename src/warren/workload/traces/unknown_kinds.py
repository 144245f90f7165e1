"""Name text that is no trace: an empty file, a header alone, columns of fixed width, JSON."""

from __future__ import annotations

import re
from typing import Final

from warren.workload.text import shown, unpacked
from warren.workload.traces.format import cells_in
from warren.workload.traces.formats.any_table import SEPARATORS

SACCT: Final = (
    "`sacct -P --format=JobID,User,Partition,Submit,Start,End,Elapsed,State,AllocTRES,ReqTRES`"
)
"""The command that writes a table of Slurm's accounting in the expected form."""
_LOOKED_AT_BYTES: Final = 1 << 16
_SHOWN: Final = 12
_RULE: Final = re.compile(r"\s*-{2,}(\s+-{2,})+\s*")


def unknown_kind(file: str, content: bytes) -> str:
    """Return the kind of a file that is no known trace, and a way out; empty if it is unknown.

    Raises SpecError if it is damaged gzip data.
    """
    text = unpacked(file, content)[:_LOOKED_AT_BYTES].decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "is empty"
    if text.lstrip()[0] in "{[":
        slurm = f"; write Slurm's accounting by {SACCT}" if '"slurm"' in text.lower() else ""
        return f"is JSON; the one trace of JSON that is read is Philly's cluster_job_log{slurm}"
    separators = [one for one in SEPARATORS.values() if one in lines[0]]
    if len(lines) > 1 and _RULE.fullmatch(lines[1]):
        return f"has columns of fixed width, as `sacct` prints without -P; write it by {SACCT}"
    if not separators and len(lines[0].split()) > 2 and _aligned(lines):
        return f"has columns of fixed width; allowed: cells with {', '.join(SEPARATORS)} between"
    if separators and len(lines) == 1 and re.search("[A-Za-z]", lines[0]):
        most = max(separators, key=lines[0].count)
        names = cells_in(lines[0], most)
        columns = ", ".join(map(shown, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        return f"has a header and no row: {columns}"
    return ""


def _aligned(lines: list[str]) -> bool:
    """Tell whether most of the first lines have as many words as the first, set apart by spaces."""
    words = len(lines[0].split())
    rows = lines[1:50]
    return 2 * sum(len(line.split()) == words for line in rows) > len(rows) and any(
        "  " in line.strip() for line in lines[:50]
    )
