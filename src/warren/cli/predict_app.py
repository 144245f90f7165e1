"""The command ``warren predict``: its options and help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples

_CURVE: Final = "examples/curves/digits.csv"
_LOG: Final = "examples/curves/digits.log"

EXAMPLES: Final = examples(
    f"warren predict {_CURVE} --observe 30% --at 100%",
    f"warren predict {_CURVE} --at 200% --target 0.97 --plot curve.png",
    f"warren predict {_LOG} --pattern 'loss=(?P<value>[0-9.]+)' --at 300%",
)


def predict(
    curve_file: Annotated[
        str,
        typer.Argument(
            metavar="CURVE.csv", help="A table with a header, or a log.", show_default=False
        ),
    ],
    at: Annotated[
        str,
        typer.Option("--at", metavar="STEP|N%", help="Where to predict; N% of the last step."),
    ] = "100%",
    observe: Annotated[
        str,
        typer.Option(
            "--observe", metavar="STEP|N%", help="Look at no later points; N% of the points."
        ),
    ] = "100%",
    target: Annotated[
        float | None,
        typer.Option("--target", metavar="V", help="Also the chance to be at V or better then."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="STEP,VALUE", help="Which columns; step,value unless given."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Read a log: each match of (?P<value>...), and (?P<step>...) or the count.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf (an old one goes)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the sampling.")] = 1,
    json_: Json = False,
) -> None:
    """Predict how a learning curve goes on.

    Accuracy or loss: whether better is higher or lower is told from the curve. Steps may be of any
    unit. With probability 80 % the value measured at that step lies between low and high.
    """
    from warren.cli.commands.predict import Asked, predict_command

    asked = Asked(curve_file, at, observe, target, columns, pattern, plot, seed)
    predict_command(asked, json_)
