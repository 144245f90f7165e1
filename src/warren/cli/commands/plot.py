"""``warren plot``: pictures of the runs in folders, and of comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from warren.cli.options import GROUP, examples
from warren.cli.streams import answers_alone, say
from warren.cli.views.pictures import picture_path, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app: Final = typer.Typer(
    name="plot",
    help="Draw pictures of runs for a paper.",
    epilog=examples(
        "warren plot cdf sim-hare sim-srtf --out jct.pdf",
        "warren plot gantt sim-hare --out gantt.pdf",
        "warren plot use sim-hare --out use.svg",
        "warren plot means t.csv --out means.pdf",
    ),
    **GROUP,
)
Out: TypeAlias = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Picture to write: .png, .svg or .pdf. It replaces an old one.",
    ),
]
Compared: TypeAlias = Annotated[
    str, typer.Argument(metavar="TABLE.csv", help="Table of `warren compare --csv`.")
]
Value: TypeAlias = Annotated[
    str,
    typer.Option(
        "--value",
        metavar="COLUMN",
        help="Column: mean_jct_s, p95_jct_s, mean_slowdown, makespan_s, weighted_jct_s or gap.",
    ),
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
    """Draw the share of finished jobs over completion time, with a line for each run."""
    from warren.runs.comparison.plots import plot_cdf

    _draw(out, lambda: plot_cdf(folders))


@app.command(epilog=examples("warren plot gantt sim-hare --out gantt.pdf"))
@answers_alone()
def gantt(folder: Folder, out: Out) -> None:
    """Draw the schedule: the job on each device over time."""
    from warren.runs.comparison.plots import plot_gantt

    _draw(out, lambda: plot_gantt(folder))


@app.command(epilog=examples("warren plot use sim-hare --out use.svg"))
@answers_alone()
def use(folder: Folder, out: Out) -> None:
    """Draw the use of the devices of each type over time."""
    from warren.runs.comparison.plots import plot_use

    _draw(out, lambda: plot_use(folder))


@app.command(epilog=examples("warren plot users sim-hare --out users.pdf"))
@answers_alone()
def users(folder: Folder, out: Out) -> None:
    """Draw mean JCT, slow-down and share of device time by user."""
    from warren.runs.comparison.plots import plot_users

    _draw(out, lambda: plot_users(folder))


@app.command(epilog=examples("warren plot means t.csv --out means.pdf"))
@answers_alone()
def means(table: Compared, out: Out, value: Value = "mean_jct_s") -> None:
    """Draw the mean of each policy over seeds, with its 95 % interval."""
    from warren.runs.comparison.plots import plot_means

    _draw(out, lambda: plot_means(table, value))


@app.command(epilog=examples("warren plot sweep t.csv --value mean_slowdown --out sweep.pdf"))
@answers_alone()
def sweep(
    table: Compared,
    out: Out,
    value: Value = "mean_jct_s",
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="KEY", help="Swept key. Default: the only one."),
    ] = None,
) -> None:
    """Draw a value over a swept key, with 95 % intervals and a line for each policy."""
    from warren.runs.comparison.plots import plot_sweep

    _draw(out, lambda: plot_sweep(table, by, value))


def _draw(out: str, make: Callable[[], Figure]) -> None:
    """Write a picture; a name that is none is refused before it is made."""
    path = picture_path(out)
    save_figure(make(), path)
    say(f"picture: {path}")
