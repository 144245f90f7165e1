"""The command ``warren reproduce``: its options and help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples

EXAMPLES: Final = examples("warren reproduce", "warren reproduce hare-4")


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="FIGURE", help="Which one; without it they are listed."),
    ] = None,
    checkout: Annotated[
        str,
        typer.Option("--checkout", metavar="DIR", help="Warren's checkout, or a folder in it."),
    ] = ".",
    json_: Json = False,
) -> None:
    """Make a figure of a paper again and compare it.

    The program under experiments/ runs as it is, its rows stand beside the committed ones, and
    nothing in the checkout changes. Exit code 1 if a row differs; real times are not compared.
    """
    from warren.cli.commands.reproduce import reproduce_command

    reproduce_command(name, checkout, json_)
