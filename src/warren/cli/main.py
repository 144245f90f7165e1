"""The command ``warren``. Commands are declared here and import what they need when called."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from warren import __version__

app = typer.Typer(
    name="warren",
    help="One scheduler for many training jobs on one shared cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

RunFile = Annotated[str, typer.Argument(metavar="RUN.yaml", help="Run file.")]
Out = Annotated[
    str | None, typer.Option("--out", "-o", metavar="DIR", help="New folder for the results.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone on standard output.")]
Place = Annotated[
    str | None,
    typer.Option("--place", metavar="NAME", help="Place policy: a name, or FILE.py:Class."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a field of the run file; repeatable."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, print the resolved run, run nothing.")
]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: warren simulate run.yaml --place hare --out sim-hare")
def simulate(
    run_file: RunFile,
    place: Place = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    events: Annotated[
        bool, typer.Option("--events", help="Run a plan event by event, not in compiled code.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the core's invariants after every step.")
    ] = False,
    json_: Json = False,
) -> None:
    """Predict a run in virtual time."""
    from warren.cli.commands.runs import simulate_command

    simulate_command(run_file, place, out, set_ or [], dry_run, events, check, json_)


@app.command(epilog="Example: warren run run.yaml --place hare --out live-hare")
def run(
    run_file: RunFile,
    place: Place = None,
    out: Out = None,
    set_: Set = None,
    dry_run: DryRun = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the core's invariants after every step.")
    ] = False,
    json_: Json = False,
) -> None:
    """Train for real under a scheduler."""
    from warren.cli.commands.runs import run_command

    run_command(run_file, place, out, set_ or [], dry_run, check, json_)


@app.command(epilog="Example: warren compare run.yaml --place gavel-fifo,srtf,hare --out compare")
def compare(
    what: Annotated[
        list[str], typer.Argument(metavar="RUN.yaml|DIR...", help="Run files to simulate, or DIRs.")
    ],
    place: Annotated[
        str | None,
        typer.Option("--place", metavar="A,B", help="Place policies, with commas between."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Simulate with seeds 1..N.")] = 1,
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page.")
    ] = None,
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Put runs side by side; a live and a simulated DIR also give the JCT error per job."""
    from warren.cli.commands.comparing import compare_command

    compare_command(what, place, seeds, out, set_ or [], json_)


@app.command(epilog="Example: warren report live-hare --check")
def report(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a run.")],
    check: Annotated[
        bool, typer.Option("--check", help="Verify the folder from its files alone.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write a run's tables and page again from its journal, or check them."""
    from warren.cli.commands.reporting import report_command

    report_command(folder, check, json_)


@app.command(epilog="Example: warren check jobs.yaml --job digits-mlp")
def check(
    job_file: Annotated[str, typer.Argument(metavar="JOB.yaml", help="Job file.")],
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="One job of the file.")
    ] = None,
    json_: Json = False,
) -> None:
    """Run the same task twice in two processes and name the tensor that differs."""
    from warren.cli.commands.checking import check_command

    check_command(job_file, job, json_)


@app.command(epilog="Example: warren policies hare")
def policies(
    name: Annotated[str | None, typer.Argument(help="Print all about this one.")] = None,
    json_: Json = False,
) -> None:
    """List the policies and where they come from."""
    from warren.cli.commands.listing import policies_command

    policies_command(name, json_)


@app.command(epilog="Example: warren schema job > job.schema.json")
def schema(
    kind: Annotated[str, typer.Argument(metavar="job|cluster|run", help="Which file.")],
) -> None:
    """Print the JSON Schema of a file."""
    from warren.cli.commands.listing import schema_command

    schema_command(kind)


def main() -> None:
    """Entry point: one clear line an error; 0 done, 1 some failed, 2 wrong input, 130 stopped."""
    from warren.model.errors import SpecError, WarrenError

    try:
        app()
    except SpecError as error:
        _complain(str(error))
        sys.exit(2)
    except WarrenError as error:
        _complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)


def _complain(text: str) -> None:
    for line in text.splitlines():
        print(f"warren: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
