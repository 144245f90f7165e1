"""How figures look: colors, axes, units of time, and labels beside what they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warren.report.number_text import time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK: Final = "#0b5394"
ORANGE: Final = "#e69f00"
GREY: Final = "#b0b0b0"
COLOURS: Final = (DARK, ORANGE, "#009e73", "#d55e00", "#56b4e9", "#882255", "#117733", GREY)
"""Colors that differ without color vision too."""
_WORDS: Final = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds"}
_APART: Final = 0.065
"""Least distance between two labels, as a share of the height of the axes."""


class Unit(NamedTuple):
    """A unit of time: its size in seconds, its sign and its word in plural."""

    size_s: float
    sign: str
    word: str


class EndLabel(NamedTuple):
    """A label for the end of a line at (x, y) in the units of the axes."""

    x: float
    y: float
    text: str
    colour: str


def colour(number: int) -> str:
    """Return the color of a line; beyond the last they begin again."""
    return COLOURS[number % len(COLOURS)]


def unit_of(span_s: float) -> Unit:
    """Return the unit in which times up to ``span_s`` seconds are read best."""
    size_s, sign = time_unit(span_s)
    return Unit(size_s, sign, _WORDS[sign])


def new_figure(
    width: float = 7.0, height: float = 3.6, columns: int = 1
) -> tuple[Figure, Sequence[Axes]]:
    """Return an empty figure of ``width`` by ``height`` inches, with axes side by side."""
    # Imported here: matplotlib takes long to load, and few commands draw. Without pyplot, which
    # would change how a notebook draws figures of the user's.
    from matplotlib.figure import Figure as Base

    class Drawn(Base):
        """A figure that a notebook shows as it is."""

        def _repr_png_(self) -> bytes:
            from io import BytesIO

            content = BytesIO()
            self.savefig(content, format="png", dpi=144)
            return content.getvalue()

    figure = Drawn(figsize=(width, height), layout="constrained")
    found = figure.subplots(ncols=columns, squeeze=False)[0]
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(found)


def set_title(axes: Axes, text: str) -> None:
    """Write the title of axes, over their left end."""
    axes.set_title(text, loc="left", fontsize=10)


def add_legend(figure: Figure, axes: Axes, **place: Any) -> None:
    """Add a legend of labeled items, above the picture unless ``place`` says where."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        where = place or {"loc": "outside upper center", "ncols": min(len(labels), 4)}
        figure.legend(handles, labels, fontsize=8, frameon=False, **where)


def label_ends(axes: Axes, labels: Iterable[EndLabel]) -> None:
    """Write each label beside the end of its line, at a distance from the others."""
    low, high = axes.get_ylim()
    heights = sorted(((one.y - low) / ((high - low) or 1.0), one) for one in labels)
    # Upwards, each at least so far above the one below; then all down by what is too much.
    places: list[float] = []
    for height, _ in heights:
        places.append(max(height, places[-1] + _APART) if places else height)
    surplus = max(0.0, places[-1] - 1.0) if places else 0.0
    for (_, one), place in zip(heights, places, strict=True):
        axes.annotate(
            one.text,
            (one.x, one.y),
            (1.02, place - surplus),
            textcoords="axes fraction",
            color=one.colour,
            fontsize=8,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.5},
        )
