"""The commands ``warren trace inspect`` and ``warren trace convert``: their options and help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from warren.cli.options import Json, examples

if TYPE_CHECKING:
    from warren.cli.commands.trace import Asked

_SMALL: Final = "examples/traces/bursts.csv"
_ROUND: Final = "60 s"

trace_app = typer.Typer(
    name="trace",
    help="Look at public traces of jobs, and turn them into jobs files.\n\n"
    "Formats: Philly (table and JSON), Helios, Alibaba PAI and openb, Gavel and Shockwave, "
    "Pollux and Sia, Muri, Tiresias, ElasticFlow, Warren's own jobs.csv, and any table whose "
    "columns are named. Files may be gzipped.",
    epilog=examples(f"warren trace inspect {_SMALL}", "warren trace convert --help"),
    rich_markup_mode=None,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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


@trace_app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@trace_app.command(
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
    from warren.cli.commands.trace import inspect_command

    table = (columns, units, separator)
    asked = _asked(file, format_, throughputs, types, limit, gpus_max, leave_out, table)
    inspect_command(asked, json_)


@trace_app.command(
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
    from warren.cli.commands.trace import convert_command

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
) -> Asked:
    from warren.cli.commands.trace import Asked

    return Asked(
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
