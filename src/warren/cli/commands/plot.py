"""``warren plot``: pictures of the runs in folders."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from warren.cli.options import GROUP, examples
from warren.cli.streams import answers_alone, say
from warren.cli.views.pictures import picture_path
from warren.report.record import Record
from warren.runs.results import load_record
from warren.store.files import read_dir

app: Final = typer.Typer(
    name="plot",
    help="Draw pictures of runs for a paper.",
    epilog=examples(
        "warren plot cdf sim-hare sim-srtf --out jct.pdf",
        "warren plot gantt sim-hare --out gantt.pdf",
        "warren plot use sim-hare --out use.svg",
    ),
    **GROUP,
)
Out: TypeAlias = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help=".png, .svg or .pdf (an old one goes).")
]
Folder: TypeAlias = Annotated[str, typer.Argument(metavar="DIR", help="Folder of a run.")]


@app.callback()
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=examples("warren plot cdf sim-hare sim-srtf --out jct.pdf"))
@answers_alone()
def cdf(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="Folders of runs.")],
    out: Out,
) -> None:
    """Draw the share of jobs by completion time, a line a run."""
    from warren.cli.views.run_plots import plot_cdf

    path = picture_path(out)
    plot_cdf([_record(folder) for folder in folders], folders, path)
    say(f"picture: {path}")


@app.command(epilog=examples("warren plot gantt sim-hare --out gantt.pdf"))
@answers_alone()
def gantt(folder: Folder, out: Out) -> None:
    """Draw which job computes where and when."""
    from warren.cli.views.run_plots import plot_gantt

    path = picture_path(out)
    plot_gantt(_record(folder), path)
    say(f"picture: {path}")


@app.command(epilog=examples("warren plot use sim-hare --out use.svg"))
@answers_alone()
def use(folder: Folder, out: Out) -> None:
    """Draw how busy the devices of each type are."""
    from warren.cli.views.run_plots import plot_use

    path = picture_path(out)
    plot_use(_record(folder), path)
    say(f"picture: {path}")


def _record(folder: str) -> Record:
    """Load the run of a folder."""
    return load_record(folder, read_dir(folder))
