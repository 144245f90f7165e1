"""``warren predict``: a learning curve is read, and what it will come to is told."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json, say
from warren.cli.views.pictures import picture_path
from warren.model.errors import Problem, SpecError
from warren.predict.curve import Curve, first, part_of, until
from warren.predict.curve_files import log_curve, table_curve
from warren.predict.forecast import Forecast, forecast
from warren.store.files import read
from warren.workload.text import decoded, fetch, unpacked

_DRAWN: Final = 121
_WAY: Final = {1: "rising", -1: "falling", 0: "constant"}


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """The options as typed."""

    file: str
    at: str
    observe: str
    target: float | None
    columns: str | None
    pattern: str | None
    plot: str | None
    seed: int


@answers_alone()
def predict_command(asked: PredictOptions, json_: bool) -> None:
    """Print the prediction, and draw it where that is asked for."""
    picture = None if asked.plot is None else picture_path(asked.plot)
    whole = _curve(asked)
    last = float(whole.steps[-1])
    at = _step("--at", asked.at, last)
    seen = _observed(asked, whole)
    if at < seen.steps[-1]:
        message = (
            f"step {at:g} lies before the last one observed, {seen.steps[-1]:g}; "
            "give a later one, or a smaller --observe"
        )
        raise SpecError(Problem(file="--at", message=message))
    if asked.target is not None and not math.isfinite(asked.target):
        raise SpecError(Problem(file="--target", message=f"{asked.target} is not a finite number"))
    started = time.perf_counter()
    found = forecast(seen, [at], asked.seed)
    seconds = time.perf_counter() - started
    told = _told(asked, seen, found, seconds)
    if picture:
        from warren.cli.views.curve_plot import draw_curve

        shown = forecast(seen, np.linspace(seen.steps[-1], at, _DRAWN), asked.seed)
        draw_curve(picture, whole, seen, shown, asked.target)
        say(f"written: {picture}")
    if json_:
        print_json(told)
    else:
        answer(_text(told))


def _told(asked: PredictOptions, seen: Curve, found: Forecast, seconds: float) -> dict[str, Any]:
    chance = None if asked.target is None else float(found.reaches(asked.target)[0])
    return {
        "at": float(found.at[0]),
        "mean": float(found.mean[0]),
        "low": float(found.low[0]),
        "high": float(found.high[0]),
        "p_target": chance,
        "seconds": seconds,
        "curve": asked.file,
        "direction": _WAY[found.direction],
        "observed": {
            "points": len(seen),
            "step": float(seen.steps[-1]),
            "value": float(seen.values[-1]),
        },
        "target": asked.target,
        "seed": asked.seed,
    }


def _text(told: dict[str, Any]) -> str:
    seen = told["observed"]
    lines = [
        f"{told['curve']}: {told['direction']}; {seen['points']} points to step {seen['step']:g}, "
        f"the last {seen['value']:.6g}",
        f"at step {told['at']:g}: {told['mean']:.6g}, with 80 % between {told['low']:.6g} and "
        f"{told['high']:.6g}",
    ]
    if told["target"] is not None:
        lines.append(f"{told['target']:g} or better: {100 * told['p_target']:.0f} %")
    return "\n".join(lines)


def _curve(asked: PredictOptions) -> Curve:
    if asked.columns is not None and asked.pattern is not None:
        message = "names columns of a table; leave it out where --pattern reads a log"
        raise SpecError(Problem(file="--columns", message=message))
    text = decoded(asked.file, unpacked(asked.file, fetch(asked.file, read)))
    if asked.pattern is not None:
        return log_curve(asked.file, text, asked.pattern)
    names = tuple(name.strip() for name in (asked.columns or "step,value").split(","))
    if len(names) != 2 or "" in names:
        message = f"{asked.columns!r} is not STEP,VALUE, for example round,loss"
        raise SpecError(Problem(file="--columns", message=message))
    return table_curve(asked.file, text, (names[0], names[1]))


def _observed(asked: PredictOptions, whole: Curve) -> Curve:
    """The points up to a step, or so many percent of them."""
    number, percent = _number("--observe", asked.observe)
    try:
        return first(whole, part_of(len(whole), number / 100)) if percent else until(whole, number)
    except ValueError as error:
        message = f"{asked.observe} {error}"
        raise SpecError(Problem(file=asked.file, field="--observe", message=message)) from None


def _step(option: str, text: str, last: float) -> float:
    """A step as typed: a number, or a percentage of the last step."""
    number, percent = _number(option, text)
    return last * number / 100 if percent else number


def _number(option: str, text: str) -> tuple[float, bool]:
    """A number as typed, and whether it is a percentage."""
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        message = f"{text!r} is neither a step nor a percentage, such as 30%"
        raise SpecError(Problem(file=option, message=message))
    return number, text.strip().endswith("%")


_CURVE: Final = "examples/curves/digits.csv"
_LOG: Final = "examples/curves/digits.log"

app: Final = one_command()
EXAMPLES: Final = examples(
    f"warren predict {_CURVE} --observe 30% --at 100%",
    f"warren predict {_CURVE} --at 200% --target 0.97 --plot curve.png",
    f"warren predict {_LOG} --pattern 'loss=(?P<value>[0-9.]+)' --at 300%",
)


@app.command(epilog=EXAMPLES)
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
    asked = PredictOptions(curve_file, at, observe, target, columns, pattern, plot, seed)
    predict_command(asked, json_)
