"""The pictures of the reproduction page: bars by cell and policy, and who runs where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import _common
import matplotlib
from _hare_rows import Part, by_cell, named, of
from hare_figures import PLACES

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "warren"
from matplotlib import pyplot  # noqa: E402  # after the choice of how it draws

FOLDER: Final = _common.ROOT / "docs" / "background" / "reproduction"
COLOURS: Final[Mapping[str, str]] = {
    "hare-published": "#882255", "hare": "#0b5394", "sched-allox": "#e69f00",
    "sched-homo": "#56b4e9", "srtf": "#009e73", "gavel-fifo": "#b0b0b0",
}  # fmt: skip
"""Told apart without color vision too."""


def draw(name: str, part: Part) -> None:
    """Bars of weighted JCT by cell and policy, and hare's bound below them."""
    found = by_cell(part)
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    width = 0.8 / len(PLACES)
    for number, place in enumerate(PLACES):
        values = [row["weighted_jct_s"] / 1e3 for row in of(part, place)]
        at = [cell + number * width for cell in range(len(found))]
        axes.bar(at, values, width, label=named(place), color=COLOURS[place])
    for cell, row in enumerate(of(part, "hare")):
        bound = row["weighted_jct_s"] / 1e3 / (1 + row["gap_mean"])
        label = None if cell else "lower bound"
        axes.hlines(bound, cell - width / 2, cell + 0.8 - width / 2, "black", ":", label=label)
    axes.set_xticks([cell + 0.4 - width / 2 for cell in range(len(found))], list(found))
    axes.set_xlabel(part["varies"])
    axes.set_ylabel("sum of weighted JCTs, 1000 s")
    _finish(figure, axes, f"hare-{name}")


def gantt(name: str, titles: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """One panel a policy: devices by time, a box a task."""
    figure, panels = pyplot.subplots(1, len(rows), figsize=(7, 2.1), layout="constrained",
                                     sharex=True, sharey=True)  # fmt: skip
    jobs = sorted({one["job"] for row in rows for one in row["tasks"]})
    colours = dict(zip(jobs, ("#d9d9d9", "#bdbdbd", "#969696", "#0b5394"), strict=True))
    devices = sorted({one["device"] for row in rows for one in row["tasks"]})
    for axes, row in zip(panels, rows, strict=True):
        for one in row["tasks"]:
            place, long_s = devices.index(one["device"]), one["comp_end_s"] - one["start_s"]
            colour = colours[one["job"]]
            axes.barh(place, long_s, 0.8, one["start_s"], color=colour, edgecolor="white")
            axes.text(one["start_s"] + long_s / 2, place, one["job"], ha="center", va="center",
                      color="white" if one["job"] == jobs[-1] else "black")  # fmt: skip
        axes.set_title(titles[row["place"]], fontsize=9)
        axes.set_xlabel("time, s")
    panels[0].set_yticks(range(len(devices)), [f"GPU {at + 1}" for at in range(len(devices))])
    panels[0].invert_yaxis()
    save(figure, name)


def bars(name: str, label: str, values: Mapping[str, Mapping[str, float]]) -> None:
    """Bars by cell and policy."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    cells = list(next(iter(values.values())))
    width = 0.8 / len(values)
    for number, (place, by) in enumerate(values.items()):
        at = [cell + number * width for cell in range(len(cells))]
        axes.bar(at, [by[cell] for cell in cells], width, label=named(place), color=COLOURS[place])
    axes.set_xticks([cell + 0.4 - width / 2 for cell in range(len(cells))], cells)
    axes.set_ylabel(label)
    _finish(figure, axes, name)


ONLINE: Final[Mapping[str, str]] = {
    "gittins": "#000000", "hlas": "#0072b2", "hlas-published": "#882255", "oracle": "#117733",
    "hlas-p": "#009e73", "hlas-l": "#d55e00",
    "las-2d": "#e69f00", "sched-homo-unit": "#56b4e9", "sched-allox-unit": "#cc79a7",
    "fifo": "#b0b0b0",
    "sjf-bco": "#000000", "first-fit": "#d55e00", "list-scheduling": "#0072b2",
    "braid": "#009e73", "braid-online": "#009e73", "gavel-fifo": "#666666",
}  # fmt: skip


def curves(name: str, varies: str, label: str, values: Mapping[str, Mapping[str, float]]) -> None:
    """A line a policy over the cells; a form of a policy is dashed, in the policy's color."""
    figure, axes = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    for place, by in values.items():
        plain, cells = place.partition(" ")[0], [float(cell) for cell in by]
        dashed = "-" if plain == place else "--"
        axes.plot(cells, list(by.values()), dashed, marker="o", markersize=3, label=place,
                  color=ONLINE[plain])  # fmt: skip
    axes.set_xlabel(varies)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    _finish(figure, axes, name, columns=4)


def _finish(figure: Any, axes: Any, name: str, columns: int | None = None) -> None:
    """The legend above the bars, where it hides none."""
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", fontsize=8, frameon=False,
                  ncols=columns or min(len(labels), 4))  # fmt: skip
    save(figure, name)


def save(figure: Any, name: str) -> None:
    """Write a picture beside the page, the same bytes each time."""
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(FOLDER / f"{name}.svg", metadata=nothing)
    pyplot.close(figure)
