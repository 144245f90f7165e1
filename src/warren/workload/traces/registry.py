"""List every trace format by name; a new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.traces.format import TraceFormat, TraceHead, head_of
from warren.workload.traces.machine_lists import is_cluster
from warren.workload.traces.proposal import propose
from warren.workload.traces.unknown_kinds import unknown_kind

# Formats are asked in this order; the first that knows a trace for its own reads it.
TRACES: Final[Mapping[str, str]] = {
    "philly": "warren.workload.traces.formats.philly",
    "philly-json": "warren.workload.traces.formats.philly_json",
    "helios": "warren.workload.traces.formats.helios",
    "pai": "warren.workload.traces.formats.alibaba_pai",
    "openb": "warren.workload.traces.formats.alibaba_openb",
    "slurm": "warren.workload.traces.formats.slurm",
    "gavel": "warren.workload.traces.formats.gavel",
    "pollux": "warren.workload.traces.formats.pollux",
    "muri": "warren.workload.traces.formats.muri",
    "tiresias": "warren.workload.traces.formats.tiresias",
    "elasticflow": "warren.workload.traces.formats.elasticflow",
    "warren": "warren.workload.traces.formats.warren_csv",
    "table": "warren.workload.traces.formats.any_table",
}


def trace_format(name: str) -> TraceFormat:
    """Return the format called ``name``, one of ``TRACES``."""
    found: TraceFormat = import_module(TRACES[name]).FORMAT
    return found


def told_by(head: TraceHead) -> str | None:
    """Return the name of the format that a trace's beginning shows; None if it shows none."""
    return next((name for name in TRACES if trace_format(name).looks(head)), None)


def detected(file: str, content: bytes) -> str:
    """Return the name of the format that a trace's beginning shows.

    Raises SpecError if it shows none.
    """
    head = head_of(file, content)
    if name := told_by(head):
        return name
    if is_cluster(head):
        message = "is a list of machines: `warren trace convert FILE --to cluster.yaml` takes it"
        raise SpecError(Problem(file=file, message=message))
    if kind := unknown_kind(file, content):
        raise SpecError(Problem(file=file, message=kind))
    how = "name its format, by --format or `format:` in a run file"
    message = f"is no trace that Warren knows; {how}: {', '.join(TRACES)}"
    # Only for a possible table: otherwise the advice would lead here again.
    if propose(file, content) is not None:
        message += "; `warren trace inspect` proposes the columns of a table"
    raise SpecError(Problem(file=file, message=message))
