"""Every trace format by name; a new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.workload.traces.request import Trace, TraceRequest

TRACES: Final[Mapping[str, str]] = {
    "gavel": "warren.workload.traces.gavel:read_gavel",
    "philly": "warren.workload.traces.philly:read_philly",
}


def read_trace(name: str, request: TraceRequest) -> Trace:
    """Read a trace of the format ``name``.

    Raises
    ------
    SpecError
        If the text is not of this format or no row of it is a job.
    """
    module, _, function = TRACES[name].partition(":")
    reader: Callable[[TraceRequest], Trace] = getattr(import_module(module), function)
    trace = reader(request)
    if not trace.jobs:
        reasons = "; ".join(trace.notes[:3]) or "it has no rows"
        raise SpecError(
            Problem(file=request.file, message=f"no row of this {name} trace is a job: {reasons}")
        )
    return trace
