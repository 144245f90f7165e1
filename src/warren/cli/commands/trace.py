"""``warren trace``: what a trace is like, and a trace as jobs.csv."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import GROUP, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.runs.inputs import run_of
from warren.store.files import read, refused, write_atomic
from warren.workload.text import fetch
from warren.workload.traces.format import SOME_TYPE, head_of
from warren.workload.traces.formats.any_table import USUAL
from warren.workload.traces.machine_lists import is_cluster
from warren.workload.traces.proposal import Proposal, propose
from warren.workload.traces.read_trace import TraceRows, read_rows, read_trace
from warren.workload.traces.registry import TRACES, detected, told_by, trace_format
from warren.workload.traces.rows import TraceRequest, TraceRow, UnusedRows

_YAML: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The trace and how to read it; the last two options are those of ``convert`` alone."""

    file: str
    format: str
    throughputs: str | None
    types: str | None
    limit: int | None
    gpus_max: int | None
    leave_out: tuple[str, ...]
    columns: str | None
    units: str | None
    separator: str
    gang: bool
    round: str


@answers_alone()
def inspect_command(asked: TraceOptions, json_: bool) -> None:
    """Print what a trace, or the workload of a run file, is like."""
    from warren.cli.views.trace_columns import proposal_text, table_spec
    from warren.cli.views.trace_text import trace_text
    from warren.workload.traces.summary import summary_of

    if asked.file.endswith(_YAML):
        found = _of_run(run_of(asked.file, None, ()))
        table = None
    else:
        name, request, table = _request(asked, proposing=True)
        found = read_rows(name, replace(request, look=True))
    summary = {"file": asked.file, **summary_of(found)}
    if table is not None:
        summary["proposed"] = table_spec(asked.file, table)
    if json_:
        print_json(summary)
        return
    if table is not None:
        answer(proposal_text(asked.file, table))
    answer(trace_text(summary))


@answers_alone()
def convert_command(asked: TraceOptions, to: str, profiles: str | None, json_: bool) -> None:
    """Write a trace as a jobs file, and its costs as a file of profiles."""
    from warren.workload.specs.write import dump_profiles
    from warren.workload.traces.convert import jobs_csv

    path = Path(to)
    if path.suffix in _YAML:
        _convert_cluster(asked, path, json_)
        return
    if path.suffix != ".csv":
        raise refused(path, "allowed: a table of jobs, .csv, or of a list of machines a .yaml")
    name, request, _ = _request(asked)
    trace = read_trace(name, request)
    written: dict[str, Any] = {"file": asked.file, "format": name, "jobs": len(trace.jobs)}
    if trace.profiles:
        rows = path.with_suffix(".profiles.yaml") if profiles is None else Path(profiles)
        write_atomic(rows, dump_profiles(trace.profiles, f"Costs of {path.name}, a {name} trace."))
        written["profiles"] = str(rows)
        if request.types == (SOME_TYPE,):
            note = f"costs are those of a device type {SOME_TYPE}; --types V100,T4 names your own"
            trace = replace(trace, notes=(*trace.notes, note))
    write_atomic(path, jobs_csv(trace.jobs))
    written |= {"to": to, "notes": list(trace.notes)}
    _tell(written)
    if json_:
        print_json(written)


def _convert_cluster(asked: TraceOptions, path: Path, json_: bool) -> None:
    """Write a list of machines as a cluster file."""
    from warren.workload.traces.machine_lists import read_cluster

    content = fetch(asked.file, read)
    if not is_cluster(head_of(asked.file, content)):
        message = "is no list of machines that Warren knows; give --to a name that ends in .csv"
        raise SpecError(Problem(file=asked.file, message=message))
    found = read_cluster(TraceRequest(file=asked.file, content=content, types=()))
    write_atomic(path, found.text)
    for note in found.notes:
        say(note)
    say(f"written: {path}, {found.hosts} hosts with {found.devices} devices")
    if json_:
        more = {"hosts": found.hosts, "devices": found.devices, "notes": list(found.notes)}
        print_json({"file": asked.file, "to": str(path), **more})


def _tell(written: dict[str, Any]) -> None:
    for note in written["notes"]:
        say(note)
    rows = written.get("profiles")
    costs = (
        f"their costs, for `profiles:`, in {rows}"
        if rows
        else "the run's profiles need a row for each model"
    )
    say(f"written: {written['to']}, {written['jobs']} jobs; {costs}")


def _request(
    asked: TraceOptions, proposing: bool = False
) -> tuple[str, TraceRequest, Proposal | None]:
    """The name of the format, and what to ask its reader; how it is to be read, if proposed."""
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
        throughputs_field="--throughputs",
        gang=asked.gang,
        **how,
    )
    return name, request, proposed


def _form(
    asked: TraceOptions, content: bytes, proposing: bool
) -> tuple[str, dict[str, Any], Proposal | None]:
    """The name of the format; of a table also how its columns are read, and whether proposed."""
    from warren.cli.views.trace_columns import given_table, of_proposal, unknown_table

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
    if asked.format == "auto" and (told_by(head) or is_cluster(head)):
        return detected(asked.file, content), {}, None
    proposed = propose(asked.file, content)
    if proposed is None and asked.format == "table":
        raise SpecError(Problem(file=asked.file, message="needs --columns"))
    if proposed is None:
        return detected(asked.file, content), {}, None
    if proposed.problem or not proposing:
        raise unknown_table(asked.file, proposed)
    return "table", of_proposal(proposed), proposed


def _types(text: str | None) -> tuple[str, ...]:
    types = tuple(name.strip() for name in (text or "").split(",")) if text is not None else ()
    if "" in types or len({*types}) < len(types):
        message = f"{text!r}; allowed: different names of device types, with commas between"
        raise SpecError(Problem(file="--types", message=message))
    return types


def _round_s(text: str) -> float:
    from warren.model.units import parse_time_s

    try:
        round_s = parse_time_s(text)
    except ValueError as error:
        raise SpecError(Problem(file="--round", message=str(error))) from None
    if not 0.001 <= round_s <= 1e9:
        raise SpecError(Problem(file="--round", message=f"{text!r} is not between 1 ms and 1e9 s"))
    return round_s


def _of_run(run: Run) -> TraceRows:
    """The jobs of a run; run times where all of its costs are known without measuring."""
    import numpy as np

    from warren.profile.cost_table import cost_table, missing

    jobs = run.workload.jobs
    best_ns: list[int | None] = [None] * len(jobs)
    if not missing(run):
        costs = cost_table(run)
        sync_ns_JT = np.where(costs.fits_JT, costs.sync_ns_JT, 0)
        best_ns = (costs.comp_ns_JT + sync_ns_JT).min(axis=1).tolist()
    rows = [
        TraceRow(
            line=job.index + 1,
            name=job.name,
            submitted_ns=job.arrival_ns,
            gpus=job.scale,
            run_ns=None if task_ns is None or job.rounds is None else job.rounds * task_ns,
            steps=job.rounds,
            model=job.model or "",
            batch=job.batch,
            weight=job.weight,
            user=job.user,
            group=job.group,
        )
        for job, task_ns in zip(jobs, best_ns, strict=True)
    ]
    return TraceRows(
        format="run file", rows=tuple(rows), unused=UnusedRows(), notes=run.workload.notes
    )


_SMALL: Final = "examples/traces/bursts.csv"
_ROUND: Final = "60 s"

app = typer.Typer(
    name="trace",
    help="Look at public traces of jobs, and turn them into jobs files.\n\n"
    "Formats: Philly (table and JSON), Helios, Alibaba PAI and openb, Gavel and Shockwave, "
    "Pollux and Sia, Muri, Tiresias, ElasticFlow, Warren's own jobs.csv, and any table whose "
    "columns are named. Files may be gzipped.",
    epilog=examples(f"warren trace inspect {_SMALL}", "warren trace convert --help"),
    **GROUP,
)

TraceFile = Annotated[str, typer.Argument(metavar="FILE", help="The trace.", show_default=False)]
Format = Annotated[
    str,
    typer.Option("--format", metavar="NAME", help="Whose trace it is; auto: told from its start."),
]
Throughputs = Annotated[
    str | None,
    typer.Option("--throughputs", metavar="FILE", help="Gavel: its simulation_throughputs.json."),
]
Types = Annotated[
    str | None,
    typer.Option(
        "--types", metavar="A,B", help="Device types to price; GPU, or V100,P100,K80 for Gavel."
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="The first so many jobs.")
]
GpusMax = Annotated[
    int | None, typer.Option("--gpus-max", metavar="N", min=1, help="Leave out larger jobs.")
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A=B,...",
        help="Any table: its columns, as in `submitted=submit_time,run=duration,gpus=num_gpus`.",
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        "--units", metavar="A=UNIT,...", help="Its times: us, ms, s, min, h, d, date or clock."
    ),
]
Separator = Annotated[
    str,
    typer.Option(
        "--separator", metavar="NAME", help="Between its cells: comma, semicolon, tab or bar."
    ),
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option("--leave-out", metavar="VC", help="Leave out a virtual cluster. Repeatable."),
]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog=examples(
        f"warren trace inspect {_SMALL}",
        "warren trace inspect examples/quickstart/run.yaml --json",
    )
)
def inspect(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The trace, or a run file.", show_default=False),
    ],
    format_: Format = "auto",
    throughputs: Throughputs = None,
    types: Types = None,
    limit: Limit = None,
    gpus_max: GpusMax = None,
    leave_out: LeaveOut = None,
    columns: Columns = None,
    units: Units = None,
    separator: Separator = "comma",
    json_: Json = False,
) -> None:
    """Say what a trace of jobs is like.

    Its GPUs, run times, arrivals and tail, and the rows that are no jobs. Of a run file (.yaml),
    the jobs it lists, reads or generates; a run time is then that on its fastest devices. Of a
    table that Warren does not know it proposes what the columns mean, and reads it so.
    """
    table = (columns, units, separator)
    asked = _asked(file, format_, throughputs, types, limit, gpus_max, leave_out, table)
    inspect_command(asked, json_)


@app.command(
    epilog=examples(
        f"warren trace convert {_SMALL} --to jobs.csv",
        f"warren trace convert {_SMALL} --to jobs.csv --types V100,K80 --round '30 s'",
    )
)
def convert(
    file: TraceFile,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FILE",
            help="The jobs file, .csv; of a list of machines a cluster file, .yaml.",
        ),
    ],
    profiles: Annotated[
        str | None,
        typer.Option(
            "--profiles",
            metavar="ROWS.yaml",
            help="The costs that the jobs name; beside the jobs file unless given.",
        ),
    ] = None,
    format_: Format = "auto",
    throughputs: Throughputs = None,
    gang: Annotated[
        bool, typer.Option("--gang", help="Gavel: a task costs the step on all its GPUs.")
    ] = False,
    types: Types = None,
    round_: Annotated[
        str, typer.Option("--round", metavar="TIME", help="Length of a round of a run time.")
    ] = _ROUND,
    limit: Limit = None,
    gpus_max: GpusMax = None,
    leave_out: LeaveOut = None,
    columns: Columns = None,
    units: Units = None,
    separator: Separator = "comma",
    json_: Json = False,
) -> None:
    """Turn a trace into a jobs file.

    The costs that its jobs name go into a file of their own, which `profiles:` of a run can name.
    A published list of machines (openb's nodes, Tiresias's cluster_spec) becomes a cluster file.
    Files of these names are written anew.
    """
    table = (columns, units, separator)
    asked = _asked(
        file, format_, throughputs, types, limit, gpus_max, leave_out, table, gang, round_
    )
    convert_command(asked, to, profiles, json_)


def _asked(
    file: str,
    format_: str,
    throughputs: str | None,
    types: str | None,
    limit: int | None,
    gpus_max: int | None,
    leave_out: list[str] | None,
    table: tuple[str | None, str | None, str],
    gang: bool = False,
    round_: str = _ROUND,
) -> TraceOptions:
    return TraceOptions(
        file=file,
        format=format_,
        throughputs=throughputs,
        types=types,
        limit=limit,
        gpus_max=gpus_max,
        leave_out=tuple(leave_out or ()),
        columns=table[0],
        units=table[1],
        separator=table[2],
        gang=gang,
        round=round_,
    )
