"""The commands ``warren plot cdf|gantt|use``: their options and help."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from warren.cli.options import examples

plot_app: Final = typer.Typer(
    name="plot",
    help="Draw pictures of runs for a paper.",
    epilog=examples(
        "warren plot cdf sim-hare sim-srtf --out jct.pdf",
        "warren plot gantt sim-hare --out gantt.pdf",
        "warren plot use sim-hare --out use.svg",
    ),
    rich_markup_mode=None,
    no_args_is_help=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
Out: TypeAlias = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help=".png, .svg or .pdf (an old one goes).")
]
Folder: TypeAlias = Annotated[str, typer.Argument(metavar="DIR", help="Folder of a run.")]


@plot_app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@plot_app.command(epilog=examples("warren plot cdf sim-hare sim-srtf --out jct.pdf"))
def cdf(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Folders of runs.")],
    out: Out,
) -> None:
    """Draw the share of jobs by completion time, a line a run."""
    from warren.cli.commands.plot import cdf_command

    cdf_command(folders, out)


@plot_app.command(epilog=examples("warren plot gantt sim-hare --out gantt.pdf"))
def gantt(folder: Folder, out: Out) -> None:
    """Draw which job computes where and when."""
    from warren.cli.commands.plot import gantt_command

    gantt_command(folder, out)


@plot_app.command(epilog=examples("warren plot use sim-hare --out use.svg"))
def use(folder: Folder, out: Out) -> None:
    """Draw how busy the devices of each type are."""
    from warren.cli.commands.plot import use_command

    use_command(folder, out)
