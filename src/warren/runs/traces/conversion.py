"""Traces as files of a run: jobs and their costs, and lists of machines as clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warren.model.errors import Problem, SpecError
from warren.runs.traces.trace_source import TraceOptions, trace_request
from warren.store.files import read, refused, write_atomic
from warren.workload.text import fetch
from warren.workload.traces.format import SOME_TYPE, head_of
from warren.workload.traces.machine_lists import Machines, is_cluster, read_cluster
from warren.workload.traces.read_trace import read_trace
from warren.workload.traces.rows import TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedTrace:
    """A trace that became a jobs file.

    ``profiles``: the file with the costs of its jobs; None: the trace has no costs, and the run
    that reads the jobs must give them. ``notes``: remarks of the reader, for people.
    """

    format: str
    jobs: int
    profiles: str | None
    notes: tuple[str, ...]


def convert_trace(asked: TraceOptions, to: str, profiles: str | None = None) -> ConvertedTrace:
    """Write a trace as a jobs file, and the costs that its jobs name as a file of profiles.

    ``to`` ends in ``.csv``; an existing file is replaced. Costs go into ``profiles``; None: beside
    the jobs file, ``.profiles.yaml``. Raises SpecError if the trace cannot be read, no row of it is
    a job, or a file cannot be written.
    """
    # Imported here: a trace that is only looked at is not written.
    from warren.workload.specs.write import dump_profiles
    from warren.workload.traces.convert import jobs_csv

    path = Path(to)
    if path.suffix != ".csv":
        raise refused(path, "allowed: a table of jobs, .csv, or of a list of machines a .yaml")
    name, request, _ = trace_request(asked)
    trace = read_trace(name, request)
    rows, notes = None, trace.notes
    # The costs first: a jobs file must not name costs that are not there.
    if trace.profiles:
        rows = path.with_suffix(".profiles.yaml") if profiles is None else Path(profiles)
        write_atomic(rows, dump_profiles(trace.profiles, f"Costs of {path.name}, a {name} trace."))
        if request.types == (SOME_TYPE,):
            note = f"costs are those of a device type {SOME_TYPE}; --types V100,T4 names your own"
            notes = (*notes, note)
    write_atomic(path, jobs_csv(trace.jobs))
    return ConvertedTrace(
        format=name,
        jobs=len(trace.jobs),
        profiles=None if rows is None else str(rows),
        notes=notes,
    )


def convert_machines(file: str, to: str) -> Machines:
    """Write a published list of machines as a cluster file, and return its machines.

    Raises SpecError if the file is no list of machines, holds no machine with a GPU, or cannot be
    written.
    """
    content = fetch(file, read)
    if not is_cluster(head_of(file, content)):
        message = "is no list of machines that Warren knows; give --to a name that ends in .csv"
        raise SpecError(Problem(file=file, message=message))
    found = read_cluster(TraceRequest(file=file, content=content, types=()))
    write_atomic(Path(to), found.text)
    return found
