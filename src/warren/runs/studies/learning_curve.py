"""Prediction of a learning curve in a file: the observed points, and the later ones."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from warren.model.errors import Problem, SpecError
from warren.predict.curve import Curve, direction_of, first, part_of, spikes_of, until
from warren.predict.curve_kind import CurveKind, named_direction, parse_cuts
from warren.predict.forecast import Forecast, forecast
from warren.predict.reading.curve_files import file_curve, log_curve
from warren.predict.reading.curve_rows import FileCurve
from warren.store.files import read
from warren.workload.text import decoded, fetch, unpacked


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePrediction:
    """The predicted value of a learning curve at one later step.

    ``whole`` is the curve of the file, ``observed`` the part of it that the prediction used.
    ``forecast`` is at one step. ``seconds``: real time of the forecast. ``notes``: unused parts of
    the file, and assumptions.
    """

    whole: Curve
    observed: Curve
    forecast: Forecast
    target: float | None
    kind: CurveKind
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def p_target(self) -> float | None:
        """Return the chance that the value is the target or better; None without a target."""
        return None if self.target is None else float(self.forecast.reaches(self.target)[0])

    def band(self, points: int) -> Forecast:
        """Forecast evenly spaced steps from the last one observed to the one predicted."""
        at = float(self.forecast.at[0])
        steps = np.linspace(self.observed.steps[-1], at, points)
        # With the seed of the prediction itself, so that the last step has the same values.
        return forecast(self.observed, steps, self.seed, self.kind)


def predict_curve(
    file: str,
    *,
    at: str = "100%",
    observe: str = "100%",
    target: float | None = None,
    columns: str | None = None,
    pattern: str | None = None,
    metric: str | None = None,
    cuts: str | None = None,
    seed: int = 1,
) -> CurvePrediction:
    """Predict how the learning curve of a file goes on.

    Parameters
    ----------
    file
        A table with a header, JSON of a trainer, or a log; it may be gzipped.
    at
        The step to predict: a number, or ``N%`` of the last step of the file.
    observe
        The last point of the curve that is used: a step, or ``N%`` of the points.
    target
        A value; the prediction then includes the probability of it, or of a better one.
    columns
        ``STEP,VALUE``: the columns of a table, or the keys of JSON; unless given ``step,value``, or
        those that trainers write.
    pattern
        A regular expression with a group ``value``, and perhaps ``step``: the file is a log.
    metric
        The quantity, such as ``accuracy`` or ``training loss``; by default the name of the column.
    cuts
        Steps from which on the learning rate is lower, ``100,150``; ``none``: it never is.
    seed
        The seed of the sampling.

    Raises
    ------
    SpecError
        If the file is no curve, or an argument is wrong; the error names it as the options of
        ``warren predict`` are called.
    """
    read_curve = _curve(file, columns, pattern, metric)
    whole = read_curve.curve
    step = _step("--at", at, float(whole.steps[-1]))
    observed = _observed(file, observe, whole)
    if step < observed.steps[-1]:
        message = (
            f"step {step:g} lies before the last one observed, {observed.steps[-1]:g}; "
            "give a later one, or a smaller --observe"
        )
        raise SpecError(Problem(file="--at", message=message))
    if target is not None and not math.isfinite(target):
        raise SpecError(Problem(file="--target", message=f"{target} is not a finite number"))
    kind = CurveKind(metric or read_curve.metric, _cuts(cuts))
    started = time.perf_counter()
    found = forecast(observed, [step], seed, kind)
    return CurvePrediction(
        whole=whole,
        observed=observed,
        forecast=found,
        target=target,
        kind=kind,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=(*read_curve.notes, *_notes(observed, kind)),
    )


def _notes(observed: Curve, kind: CurveKind) -> list[str]:
    """Return facts that a prediction hides: spikes, and a name that the values contradict."""
    notes = []
    spikes = spikes_of(observed)
    if spikes.any():
        at = int(np.argmax(spikes))
        count = "1 value is" if spikes.sum() == 1 else f"{spikes.sum()} values are"
        first = f"{observed.values[at]:g} at step {observed.steps[at]:g}"
        notes.append(f"{count} far off all others and not counted: {first}")
    named = 0 if kind.metric is None else named_direction(kind.metric)
    if named and kind.direction(observed) == named == -direction_of(observed):
        better, seen = ("higher", "fall") if named > 0 else ("lower", "rise")
        notes.append(f"better is {better} by the name {kind.metric!r}, but the values {seen}")
    return notes


def _curve(file: str, columns: str | None, pattern: str | None, metric: str | None) -> FileCurve:
    """Read the curve of a file: of a log if there is a pattern, else of a table or of JSON."""
    if columns is not None and pattern is not None:
        message = "names columns of a table; leave it out where --pattern reads a log"
        raise SpecError(Problem(file="--columns", message=message))
    text = decoded(file, unpacked(file, fetch(file, read)))
    if pattern is not None:
        return log_curve(file, text, pattern)
    return file_curve(file, text, None if columns is None else _names(columns), metric)


def _names(columns: str) -> tuple[str, str]:
    """Return the columns of steps and of values."""
    names = tuple(name.strip() for name in columns.split(","))
    if len(names) != 2 or "" in names:
        message = f"{columns!r} is not STEP,VALUE, for example round,loss"
        raise SpecError(Problem(file="--columns", message=message))
    return names[0], names[1]


def _cuts(text: str | None) -> tuple[float, ...] | None:
    """Parse the steps at which the learning rate is cut; None where nothing is stated."""
    try:
        return parse_cuts(text)
    except ValueError as error:
        raise SpecError(Problem(file="--cuts", message=str(error))) from None


def _observed(file: str, observe: str, whole: Curve) -> Curve:
    """Return the points up to a step, or up to a percentage of them."""
    # A percentage counts points, not steps: reports may come at uneven distances.
    number, percent = _number("--observe", observe)
    try:
        return first(whole, part_of(len(whole), number / 100)) if percent else until(whole, number)
    except ValueError as error:
        message = f"{observe} {error}"
        raise SpecError(Problem(file=file, field="--observe", message=message)) from None


def _step(option: str, text: str, last: float) -> float:
    """Return a step as typed: a number, or a percentage of the last step."""
    number, percent = _number(option, text)
    return last * number / 100 if percent else number


def _number(option: str, text: str) -> tuple[float, bool]:
    """Parse a number as typed; tell also whether it is a percentage."""
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    # One error for both: a text that is no number, and a number that is no step, such as inf.
    if not math.isfinite(number) or number < 0:
        message = f"{text!r} is neither a step nor a percentage, such as 30%"
        raise SpecError(Problem(file=option, message=message))
    return number, text.strip().endswith("%")
