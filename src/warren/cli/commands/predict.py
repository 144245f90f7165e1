"""``warren predict``: a learning curve is read, and its later course predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from warren.cli.options import Cuts, Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.pictures import picture_path
from warren.runs.studies.learning_curve import CurvePrediction, predict_curve

# As ``Forecast.direction`` counts them.
_DIRECTIONS: Final = {1: "rising", -1: "falling", 0: "constant"}


def _told(file: str, found: CurvePrediction) -> dict[str, Any]:
    """Return a prediction as ``--json`` prints it."""
    seen, forecast = found.observed, found.forecast
    return {
        "at": float(forecast.at[0]),
        "mean": float(forecast.mean[0]),
        "low": float(forecast.low[0]),
        "high": float(forecast.high[0]),
        "p_target": found.p_target,
        "seconds": found.seconds,
        "curve": file,
        "direction": _DIRECTIONS[forecast.direction],
        "observed": {
            "points": len(seen),
            "step": float(seen.steps[-1]),
            "value": float(seen.values[-1]),
        },
        "target": found.target,
        "seed": found.seed,
        "notes": list(found.notes),
    }


def _text(row: dict[str, Any]) -> str:
    """Return a prediction as lines for people."""
    seen = row["observed"]
    lines = [
        f"{row['curve']}: {row['direction']}; {seen['points']} points to step {seen['step']:g}, "
        f"the last {seen['value']:.6g}",
        *(f"  {note}" for note in row["notes"]),
        f"at step {row['at']:g}: {row['mean']:.6g}, with 80 % between {row['low']:.6g} and "
        f"{row['high']:.6g}",
    ]
    if row["target"] is not None:
        lines.append(f"{row['target']:g} or better: {100 * row['p_target']:.0f} %")
    return "\n".join(lines)


_CURVE: Final = "examples/curves/digits.csv"
_LOG: Final = "examples/curves/digits.log"

app: Final = one_command()
EXAMPLES: Final = examples(
    f"warren predict {_CURVE} --observe 30% --at 100%",
    f"warren predict {_CURVE} --at 200% --target 0.97 --plot curve.png",
    f"warren predict {_LOG} --pattern 'loss=(?P<value>[0-9.]+)' --at 300%",
)
Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="REGEX",
        help=(
            "Read a log. Each match of (?P<value>...) is a point; its step is "
            "(?P<step>...), or its number."
        ),
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help=(
            "Metric of the values, such as accuracy, loss, perplexity or F1. Default: the "
            "name of the column."
        ),
    ),
]


At = Annotated[
    str,
    typer.Option("--at", metavar="STEP|N%", help="Step to predict; N% is a part of the last step."),
]
Observe = Annotated[
    str,
    typer.Option(
        "--observe", metavar="STEP|N%", help="Last step to read; N% is a part of the points."
    ),
]
Target = Annotated[
    float | None,
    typer.Option(
        "--target", metavar="V", help="Also print the probability of V or better at that step."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="STEP,VALUE", help="Columns of the table. Default: step,value."
    ),
]


@app.command(epilog=EXAMPLES)
@answers_alone()
def predict(
    curve_file: Annotated[
        str,
        typer.Argument(
            metavar="CURVE.csv",
            help="Curve: a table, JSON of a trainer, or a log.",
            show_default=False,
        ),
    ],
    at: At = "100%",
    observe: Observe = "100%",
    target: Target = None,
    columns: Columns = None,
    pattern: Pattern = None,
    metric: Metric = None,
    cuts: Cuts = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the curve as .png, .svg or .pdf; it replaces an old file.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of the sampling.")
    ] = 1,
    json_: Json = False,
) -> None:
    """Predict a learning curve.

    The metric's name decides whether higher or lower is better. If it does not, the curve decides.
    Steps may have any unit. If the file has several runs, the last one counts. Accuracies rise when
    the learning rate falls; state these steps with --cuts. The later value lies between low and
    high with a probability of 80 %.
    """
    # Before the prediction, which takes seconds: a picture that cannot be written is reported
    # first.
    picture = None if plot is None else picture_path(plot)
    found = predict_curve(
        curve_file,
        at=at,
        observe=observe,
        target=target,
        columns=columns,
        pattern=pattern,
        metric=metric,
        cuts=cuts,
        seed=seed,
    )
    if picture:
        _draw(picture, found)
    row = _told(curve_file, found)
    if json_:
        print_json(row)
    else:
        answer(_text(row))


def _draw(picture: Path, found: CurvePrediction) -> None:
    """Draw a prediction into a file."""
    # Imported here, since matplotlib takes long to load.
    from warren.cli.views.curve_plot import draw_curve

    draw_curve(picture, found)
    say(f"written: {picture}")
