"""The commands ``warren profile ...``: their options and help."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from warren.cli.options import Json, examples

_JOBS: Final = "examples/quickstart/jobs.yaml"
_CLUSTER: Final = "examples/quickstart/cluster.yaml"
_MEASURE: Final = "measure"


class _JobOrCommand(TyperGroup):
    """Anything but the name of a command is what ``measure`` takes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``measure`` before a job file and its options."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_MEASURE, *args]
        return super().parse_args(ctx, args)


profile_app = typer.Typer(
    name="profile",
    cls=_JobOrCommand,
    help="Measure what tasks cost, and look after what was measured.\n\n"
    "`warren profile JOB.yaml --cluster C.yaml` measures; what it finds is kept in the history "
    "database, and live runs add to it.",
    epilog=examples(
        f"warren profile {_JOBS} --job diabetes --cluster {_CLUSTER}", "warren profile list"
    ),
    subcommand_metavar="JOB.yaml --cluster C.yaml | COMMAND",
    rich_markup_mode=None,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="FILE", help="The history database; else $WARREN_HISTORY, else your own."
    ),
]
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="A key, its beginning, or the job that `list` shows.",
        show_default=False,
    ),
]


@profile_app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@profile_app.command(
    _MEASURE,
    epilog=examples(f"warren profile measure {_JOBS} --job diabetes --cluster {_CLUSTER}"),
)
def measure(
    job_file: Annotated[
        str, typer.Argument(metavar="JOB.yaml", help="Job file.", show_default=False)
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="C.yaml", help="Cluster file; required.")
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option("--job", metavar="NAME", help="This job of the file alone; may be repeated."),
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", metavar="N", min=1, max=1000, help="Tasks of each job.")
    ] = 3,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Measure a few tasks of each job.

    `warren profile JOB.yaml` is the same as `warren profile measure JOB.yaml`.
    What is known by as many tasks is not measured again: the same app, parameters, batch,
    numerics and machine. A job without an app is skipped; one that fails is told, with exit code 1.
    Device types that this machine lacks need `emulate` in the cluster.
    """
    from warren.cli.commands.profile import measure_command

    measure_command(job_file, cluster, job or [], tasks, db, json_)


@profile_app.command("list", epilog=examples("warren profile list", "warren profile list --json"))
def list_(db: Db = None, json_: Json = False) -> None:
    """List what was measured, the latest first."""
    from warren.cli.commands.profile import list_command

    list_command(db, json_)


@profile_app.command(epilog=examples("warren profile show 3f9a2c"))
def show(key: Key, db: Db = None, json_: Json = False) -> None:
    """Show all that is known under a key."""
    from warren.cli.commands.profile import show_command

    show_command(key, db, json_)


@profile_app.command(epilog=examples("warren profile forget 3f9a2c"))
def forget(key: Key, db: Db = None, json_: Json = False) -> None:
    """Remove what is known under a key, so that it is measured again."""
    from warren.cli.commands.profile import forget_command

    forget_command(key, db, json_)


@profile_app.command(
    epilog=examples(
        "warren profile export --out rows.yaml",
        f"warren profile export --cluster {_CLUSTER} --out rows.yaml",
        "warren profile export --jobs past.csv",
    )
)
def export(
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write a file (an old one goes)."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="C.yaml", help="For the types of this cluster, in its seconds."
        ),
    ] = None,
    averages: Annotated[
        bool, typer.Option("--averages", help="What live runs took, before what was measured.")
    ] = False,
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="FILE.csv", help="Write the finished jobs instead."),
    ] = None,
    db: Db = None,
    json_: Json = False,
) -> None:
    """Print what was measured as rows for `profiles:` of a run.

    With --jobs, write the finished jobs of live runs as a jobs file, and beside it their costs,
    FILE.profiles.yaml.
    """
    from warren.cli.commands.profile import Export, export_command

    export_command(Export(out, cluster, averages, jobs), db, json_)
