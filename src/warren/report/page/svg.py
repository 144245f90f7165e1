"""The paths, scales and frames that charts are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from warren.model.costs import FloatArray
from warren.report.number_text import number, time_unit
from warren.report.page.fill import fill

WIDTH: Final = 1000
"""Every chart is this many units wide and stretched to the page; heights are CSS pixels."""
HEIGHT: Final = 190
"""The height of a chart that shows one thing over time or JCT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on an axis: its place from 0 to 1 and its label."""

    at: float
    label: str


SHARES: Final = tuple(Tick(at=k / 4, label=f"{25 * k} %") for k in range(5))
"""The marks of an axis of shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis: maps values from ``low``..``high`` to 0..1, by logarithm where ``log``."""

    low: float
    high: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; outside 0..1 for one beyond the ends."""
        low, high = self.low, self.high
        if self.log:
            # 0 has no logarithm; the least double stands for it, far beyond the left end.
            value = math.log(max(value, 1e-300))
            low = math.log(low)
            high = math.log(high)
        # An axis of one value shows it in the middle.
        return (value - low) / (high - low) if high > low else 0.5


def short(value: float) -> str:
    """Write a coordinate with at most one decimal, which keeps pages small."""
    return f"{value:.1f}".removesuffix(".0")


def line_path(points: Iterable[tuple[float, float]]) -> str:
    """Return the ``d`` of a path through points in chart units."""
    return "M" + "L".join(f"{short(x)} {short(y)}" for x, y in points)


def step_path(points: Sequence[tuple[float, float]]) -> str:
    """Return the ``d`` of a staircase: each value holds until the next point."""
    first, *rest = points
    return f"M{short(first[0])} {short(first[1])}" + "".join(
        f"H{short(x)}V{short(y)}" for x, y in rest
    )


def band_path(floor: FloatArray, top: FloatArray, most: float) -> str:
    """Return the ``d`` around the area between two curves of equal steps; ``most``: full height."""
    x = np.linspace(0, WIDTH, len(top)).tolist()
    upper, lower = ((1 - curve / most) * HEIGHT for curve in (top, floor))
    points = [
        *zip(x, upper.tolist(), strict=True),
        *zip(x[::-1], lower[::-1].tolist(), strict=True),
    ]
    return line_path(points) + "z"


def boxes_path(boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Return the ``d`` of many boxes (x, y, width, height)."""
    return "".join(
        f"M{short(x)} {short(y)}h{short(w)}v{short(h)}h-{short(w)}z" for x, y, w, h in boxes
    )


def ticks(scale: Scale, most: int = 6) -> list[Tick]:
    """Return round values on a scale, at most about ``most`` of them."""
    if scale.log:
        return _log_ticks(scale, most)
    span = scale.high - scale.low
    if span <= 0:
        return [Tick(at=0.5, label=number(scale.low))]
    # Multiples of the step, counted as whole numbers: adding steps up would add up rounding. The
    # 1e-9 keeps a tick that lies on an end but for its last bit.
    step = _round_step(span / most)
    first = math.ceil(scale.low / step - 1e-9)
    values = [k * step for k in range(first, math.floor(scale.high / step + 1e-9) + 1)]
    digits = max(0, -math.floor(math.log10(step)))
    return [Tick(at=scale(value), label=f"{value:,.{digits}f}") for value in values]


def _round_step(raw: float) -> float:
    """Return the least of 1, 2, 5 times a power of ten that is not below ``raw``."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * (1 - 1e-9))


def _log_ticks(scale: Scale, most: int) -> list[Tick]:
    """Return ticks at 1, 2, 5 times powers of ten, or at 1, 3, or at 1 where these are too many."""
    powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        values = [m * 10.0**p for p in powers for m in mantissas]
        inside = [value for value in values if scale.low <= value <= scale.high]
        if len(inside) <= most or mantissas == (1,):
            break
    return [Tick(at=scale(value), label=number(value)) for value in inside]


def axis_unit(scale: Scale) -> tuple[float, str]:
    """Return the unit of a time axis whose scale is in seconds: its size in seconds, its sign."""
    # The unit suits the length of a linear axis, and the middle of a logarithmic one.
    return time_unit(math.sqrt(scale.low * scale.high) if scale.log else scale.high - scale.low)


def time_ticks(scale: Scale, most: int = 6) -> tuple[list[Tick], str]:
    """Return ticks of a time axis whose scale is in seconds, and the unit of their labels."""
    size, sign = axis_unit(scale)
    in_unit = Scale(low=scale.low / size, high=scale.high / size, log=scale.log)
    return ticks(in_unit, most), sign


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartFrame:
    """A chart: its picture in ``WIDTH`` x ``height`` units and what stands around it.

    The picture is stretched to the page while all text is HTML above it, so that it stays
    readable at any width.
    """

    label: str
    height: float
    body: str
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    x_title: str = ""
    y_title: str = ""
    over: str = ""
    """HTML laid over the picture."""
    kind: str = ""
    width: float = WIDTH

    def render(self, legend: Iterable[tuple[str, str, str]] = (), note: str = "") -> Markup:
        """Make the chart HTML, with a note below it.

        ``legend``: chips below the chart, each a color class, the key that it highlights (empty:
        nothing) and a label.
        """
        grid = "".join(f"M{short(t.at * self.width)} 0v{short(self.height)}" for t in self.x_ticks)
        rows = "".join(
            f"M0 {short((1 - t.at) * self.height)}h{short(self.width)}" for t in self.y_ticks
        )
        return fill(
            "chart.html",
            kind=self.kind,
            label=self.label,
            width=short(self.width),
            height=short(self.height),
            grid=grid + rows,
            picture=Markup(self.body),
            over=Markup(self.over),
            x_ticks=self.x_ticks,
            y_ticks=self.y_ticks,
            x_title=self.x_title,
            y_title=self.y_title,
            legend=list(legend),
            note=note,
        )
