"""``warren reproduce``: one figure of a paper made again, beside the value that is committed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.runs.studies.figures import Figure, Row, figure_named, figures_of, reproduced


def _list(figures: Mapping[str, Figure], json_: bool) -> None:
    """Print the figures and how many rows each has."""
    if json_:
        print_json({name: one.rows for name, one in figures.items()})
        return
    for name, one in figures.items():
        answer(f"{name:28} {one.rows:4} rows, experiments/{one.program}.py")


def _tell(name: str, compared: list[Row], json_: bool) -> None:
    """Print each row, and whether all agree; exit code 1 if one does not."""
    agree = sum(one["agree"] for one in compared)
    if json_:
        print_json({"name": name, "rows": compared, "agree": agree == len(compared)})
    else:
        for one in compared:
            values = " | ".join(_text(one[which]) for which in ("committed", "made"))
            # A line has room for some names of figures; --json has all that differ.
            verdict = "agree" if one["agree"] else f"differ in {', '.join(one['differ'][:3])}"
            answer(f"{', '.join(one['row'])}: {one['figure']} {values}: {verdict}")
        answer(f"{name}: {agree} of {len(compared)} rows agree (committed | made again)")
    if agree < len(compared):
        raise typer.Exit(1)


def _text(value: float | None) -> str:
    """Return a figure for people."""
    return "none" if value is None else f"{value:,.6g}"


app: Final = one_command()
EXAMPLES: Final = examples("warren reproduce", "warren reproduce hare-4")


@app.command(epilog=EXAMPLES)
@answers_alone()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FIGURE", help="Name of a figure. Default: list all."),
    ] = None,
    checkout: Annotated[
        str,
        typer.Option("--checkout", metavar="DIR", help="Warren's checkout, or a folder in it."),
    ] = ".",
    json_: Json = False,
) -> None:
    """Reproduce a figure of a paper, and compare it with the committed one.

    This runs the program of the figure under experiments/ and prints its rows beside the committed
    ones. Nothing in the checkout changes. Exit code 1 if a row differs. Real times are not
    compared.
    """
    figures = figures_of(Path(checkout))
    if name is None:
        _list(figures, json_)
        return
    figure = figure_named(name, figures)
    say(f"{name}: {figure.rows} rows by experiments/{figure.program}.py, into a folder of its own")
    found = reproduced(figure)
    if found.returncode:
        say(f"experiments/{figure.program}.py ended with {found.returncode}")
    _tell(name, found.rows, json_)
