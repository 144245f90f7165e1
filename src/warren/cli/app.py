"""The commands, their options and their help. Each imports what it needs when it is called."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren import __version__
from warren.cli import calibrate_app, predict_app, reproduce_app
from warren.cli.options import Json, Set, examples
from warren.cli.plot_app import plot_app
from warren.cli.profile_app import profile_app
from warren.cli.testbed_app import testbed_app
from warren.cli.trace_app import trace_app

_RUN: Final = "examples/quickstart/run.yaml"


app = typer.Typer(
    name="warren",
    help="One scheduler for many training jobs on one shared cluster.",
    epilog=examples(f"warren simulate {_RUN}", "warren compare --help"),
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

RunFile = Annotated[str, typer.Argument(metavar="RUN.yaml", help="Run file.", show_default=False)]
Place = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="NAME",
        help="Place policy: a name from `warren policies`, or FILE.py:Class.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, print the resolved run file, run nothing."),
]
Check = Annotated[
    bool, typer.Option("--check", help="Check the core's invariants after every step.")
]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog=examples(
        f"warren simulate {_RUN}",
        f"warren simulate {_RUN} --place srtf --out sim-srtf",
        f"warren simulate {_RUN} --set cluster.network.model=lane --json",
    )
)
def simulate(
    run_file: RunFile,
    place: Place = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="New folder for the results; none unless given."
        ),
    ] = None,
    set_: Set = None,
    dry_run: DryRun = False,
    events: Annotated[
        bool, typer.Option("--events", help="Run a plan event by event, not in compiled code.")
    ] = False,
    check: Check = False,
    json_: Json = False,
) -> None:
    """Predict a run in virtual time."""
    from warren.cli.commands.run import simulate_command

    simulate_command(run_file, place, out, set_ or [], dry_run, events, check, json_)


@app.command(
    epilog=examples(
        f"warren run {_RUN} --out live-hare",
        f"warren run {_RUN} --place srtf --set cluster.emulate.time_scale=0.1 --out live-srtf",
        "warren run --resume live-hare",
    )
)
def run(
    run_file: Annotated[
        str | None, typer.Argument(metavar="RUN.yaml", help="Run file.", show_default=False)
    ] = None,
    place: Place = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="New folder for the results; out/NAME-PLACE unless given.",
        ),
    ] = None,
    set_: Set = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="DIR", help="Go on with a run that was cut off."),
    ] = None,
    app_: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="pinned|new",
            help="With --resume: apps as the run has them (unless given), or as they are on disk.",
        ),
    ] = None,
    dry_run: DryRun = False,
    check: Check = False,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Leave the history database alone.")
    ] = False,
    json_: Json = False,
) -> None:
    """Train for real under a scheduler.

    Ctrl-C ends it: no process stays, and DIR holds the journal and the tables of what ran. With
    --resume it goes on from there, as it does when it was killed: each job from its checkpoint.
    """
    from warren.cli.commands.run import run_command

    run_command(
        run_file, place, out, set_ or [], dry_run, check, json_, resume, not no_history, app_
    )


@app.command(
    epilog=examples(
        f"warren compare {_RUN} --place gavel-fifo,srtf,hare --out compare.html",
        f"warren compare {_RUN} --place srtf,hare --seeds 9 --set truth.task_cv=0.2 --against srtf",
        f"warren compare {_RUN} --place srtf,hare --sweep truth.task_cv=0.1,0.3 --csv t.csv",
        "warren compare sim-hare live-hare",
    )
)
def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN.yaml|DIR...", help="Run files to simulate, or DIRs.")
    ],
    place: Annotated[
        str | None,
        typer.Option(
            "--place", metavar="A,B", help="Simulate each run file under these place policies."
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Simulate with seeds 1 to N.")
    ] = 1,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="KEY=A,B,C", help="Simulate with each value; repeatable."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="Simulate in so many processes.")
    ] = 1,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PLACE", help="Set policies against this, by seed."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page (an old one goes)."),
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write a row a run.")
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Put runs side by side.

    A run file is simulated now, under each policy and seed; a folder is read. Where a live
    folder and a simulation have the same jobs and policy, each job's JCT error is given too.
    With --seeds each policy has a row of means, with 95 % intervals by Student's t.
    --json prints a list of summaries in the order given; that of a folder has "dir", that of a
    live run "jct_errors": one entry a simulation of it, with every job's error, and
    "same_params": one entry another live run of the same jobs, and which have the same bits.
    """
    from warren.cli.commands.compare import Asked, compare_command

    asked = Asked(
        place=place, seeds=seeds, sweeps=sweep or [], overrides=set_ or [], processes=jobs,
        against=against, out=out, csv=csv, json=json_,
    )  # fmt: skip
    compare_command(what, asked)


@app.command(epilog=examples("warren report sim-hare", "warren report live-hare --check"))
def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; verify the folder from its files.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write a run's tables and page again, from its journal.

    Also for a run that was cut off: its journal holds all that was done.
    """
    from warren.cli.commands.report import report_command

    report_command(folder, check, json_)


@app.command(
    epilog=examples(
        "warren check examples/quickstart/jobs.yaml --job digits-mlp",
        "warren check examples/quickstart/run.yaml",
    )
)
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Job file or run file.")],
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="One job of the file; else all.")
    ] = None,
    json_: Json = False,
) -> None:
    """Tell whether an app is deterministic.

    The same tasks run twice in two processes; if their results differ, the tensor is named. Where
    the app fails, its traceback is shown.
    """
    from warren.cli.commands.check import check_command

    check_command(file, job, json_)


@app.command(epilog=examples("warren policies", "warren policies hare"))
def policies(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="All about this one; also FILE.py:Class."),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="CLUSTER",
            help="What NAME makes of a cluster file, for example GPU groups.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List the policies and where they come from."""
    from warren.cli.commands.policies import policies_command

    policies_command(name, explain, json_)


@app.command(epilog=examples("warren schema job > job.schema.json"))
def schema(
    kind: Annotated[str, typer.Argument(metavar="job|cluster|run|testbed", help="Which file.")],
    json_: Annotated[
        bool, typer.Option("--json", help="As always: JSON is all it prints.")
    ] = False,
) -> None:
    """Print the JSON Schema of a file, with or without --json."""
    from warren.cli.commands.policies import schema_command

    schema_command(kind)


app.command(epilog=calibrate_app.EXAMPLES)(calibrate_app.calibrate)
app.command(epilog=predict_app.EXAMPLES)(predict_app.predict)
app.command(epilog=reproduce_app.EXAMPLES)(reproduce_app.reproduce)
app.add_typer(plot_app)
app.add_typer(trace_app)
app.add_typer(profile_app)
app.add_typer(testbed_app)
