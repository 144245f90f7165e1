"""``warren trace``: a description of a trace, and a trace as jobs.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import GROUP, Json, examples
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.runs.traces.conversion import convert_machines, convert_trace
from warren.runs.traces.inspection import YAML, inspect_trace
from warren.runs.traces.trace_source import TraceOptions


def _convert_jobs(asked: TraceOptions, to: str, profiles: str | None, json_: bool) -> None:
    """Write a trace as a jobs file, and its costs as a file of profiles."""
    found = convert_trace(asked, to, profiles)
    for note in found.notes:
        say(note)
    # A trace that names models or steps alone tells no costs: the run's own rows must.
    costs = (
        f"their costs, for `profiles:`, in {found.profiles}"
        if found.profiles
        else "the run's profiles need a row for each model"
    )
    say(f"written: {to}, {found.jobs} jobs; {costs}")
    if json_:
        written: dict[str, Any] = {"file": asked.file, "format": found.format, "jobs": found.jobs}
        if found.profiles is not None:
            written["profiles"] = found.profiles
        print_json({**written, "to": to, "notes": list(found.notes)})


def _convert_cluster(file: str, to: str, json_: bool) -> None:
    """Write a list of machines as a cluster file."""
    found = convert_machines(file, to)
    for note in found.notes:
        say(note)
    say(f"written: {to}, {found.hosts} hosts with {found.devices} devices")
    if json_:
        more = {"hosts": found.hosts, "devices": found.devices, "notes": list(found.notes)}
        print_json({"file": file, "to": to, **more})


_SMALL: Final = "examples/traces/bursts.csv"
_ROUND: Final = "60 s"

app = typer.Typer(
    name="trace",
    help="Describe traces of jobs, and convert them into jobs files.\n\n"
    "Formats: Philly (table and JSON), Helios, Alibaba PAI and openb, Gavel and Shockwave, "
    "Pollux and Sia, Muri, Tiresias, ElasticFlow, Slurm (sacct -P), Warren's own jobs.csv, and "
    "any table whose columns are named. Files may be gzipped.",
    epilog=examples(f"warren trace inspect {_SMALL}", "warren trace convert --help"),
    **GROUP,
)

TraceFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Trace to read.", show_default=False)
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the trace. auto finds it from the beginning of the file.",
    ),
]
Throughputs = Annotated[
    str | None,
    typer.Option("--throughputs", metavar="FILE", help="Gavel: file simulation_throughputs.json."),
]
Types = Annotated[
    str | None,
    typer.Option(
        "--types",
        metavar="A,B",
        help="Device types to price. Default: GPU, or V100,P100,K80 for Gavel.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Read only the first N jobs.")
]
GpusMax = Annotated[
    int | None,
    typer.Option("--gpus-max", metavar="N", min=1, help="Leave out jobs with more than N GPUs."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A=B,...",
        help=(
            "Any table: meaning of its columns, such as "
            "`submitted=submit_time,run=duration,gpus=num_gpus`."
        ),
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        "--units",
        metavar="A=UNIT,...",
        help="Any table: units of its times: us, ms, s, min, h, d, date or clock. Default: s.",
    ),
]
Separator = Annotated[
    str,
    typer.Option(
        "--separator",
        metavar="NAME",
        help="Any table: separator of cells: comma, semicolon, tab or bar.",
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
@answers_alone()
def inspect(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Trace, or run file.", show_default=False),
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
    """Describe a trace of jobs.

    The output has GPUs, run times, arrivals, the tail, and the rows that are no jobs. For a run
    file (.yaml) it describes the jobs of the run, with run times on the fastest devices. For an
    unknown table it proposes the meaning of the columns, and reads the table with it.
    """
    from warren.cli.views.trace_columns import proposal_text
    from warren.cli.views.trace_text import trace_text

    found = inspect_trace(
        TraceOptions(
            file=file,
            format=format_,
            throughputs=throughputs,
            types=types,
            limit=limit,
            gpus_max=gpus_max,
            leave_out=tuple(leave_out or ()),
            columns=columns,
            units=units,
            separator=separator,
        )
    )
    if json_:
        print_json(found.summary)
        return
    if found.proposed is not None:
        answer(proposal_text(file, found.proposed))
    answer(trace_text(found.summary))


@app.command(
    epilog=examples(
        f"warren trace convert {_SMALL} --to jobs.csv",
        f"warren trace convert {_SMALL} --to jobs.csv --types V100,K80 --round '30 s'",
    )
)
@answers_alone()
def convert(
    file: TraceFile,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FILE",
            help="Jobs file to write (.csv), or a cluster file (.yaml) for a list of machines.",
        ),
    ],
    profiles: Annotated[
        str | None,
        typer.Option(
            "--profiles",
            metavar="ROWS.yaml",
            help="File for the costs of the jobs. Default: beside the jobs file.",
        ),
    ] = None,
    format_: Format = "auto",
    throughputs: Throughputs = None,
    gang: Annotated[
        bool, typer.Option("--gang", help="Gavel: a task costs the step on all GPUs of its job.")
    ] = False,
    types: Types = None,
    round_: Annotated[
        str,
        typer.Option(
            "--round", metavar="TIME", help="Length of a round, where only a run time is known."
        ),
    ] = _ROUND,
    limit: Limit = None,
    gpus_max: GpusMax = None,
    leave_out: LeaveOut = None,
    columns: Columns = None,
    units: Units = None,
    separator: Separator = "comma",
    json_: Json = False,
) -> None:
    """Convert a trace into a jobs file.

    The costs of the jobs go into a file of their own, for `profiles:` of a run.
    A published list of machines (openb's nodes, Tiresias's cluster_spec) becomes a cluster file.
    Existing files of these names are replaced.
    """
    # The kind of the requested file tells what the trace must be: jobs, or machines.
    if Path(to).suffix in YAML:
        _convert_cluster(file, to, json_)
        return
    asked = TraceOptions(
        file=file,
        format=format_,
        throughputs=throughputs,
        types=types,
        limit=limit,
        gpus_max=gpus_max,
        leave_out=tuple(leave_out or ()),
        columns=columns,
        units=units,
        separator=separator,
        gang=gang,
        round=round_,
    )
    _convert_jobs(asked, to, profiles, json_)
