"""The pictures of Cruise's page: rounds by shape, and rounds over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from _pictures import pyplot, save

Rows: TypeAlias = Sequence[Mapping[str, Any]]
COLOURS: Final[Mapping[str, str]] = {
    "fixed": "#b0b0b0", "never there": "#b0b0b0", "all": "#000000", "cruise": "#0b5394",
    "used": "#0b5394", "cruise-published": "#d55e00", "cruise-published (nic)": "#e69f00",
    "optimus": "#009e73",
}  # fmt: skip
SAID: Final = {
    "predicted": ("#0b5394", "--"),
    "simulated": ("#e69f00", ":"),
    "(3.4)": ("#b0b0b0", "-."),
}
BOTH: Final = 6.2
"""Where the shape stands in which each host does both."""


def shapes(
    name: str, apps: Sequence[str], parts: Mapping[str, Any], told: Mapping[str, Any]
) -> None:
    """Rounds by how many hosts work, a panel an app: measured, with quartiles, and said."""
    figure, panels = pyplot.subplots(2, 2, figsize=(7, 5), layout="constrained", sharex=True)
    for axes, app in zip(panels.flat, apps, strict=False):
        rows = parts[app]["rows"]
        at = [_place(row["shape"]) for row in rows]
        measured = [row["measured_s"] for row in rows]
        low, high = zip(*(row["quartiles_s"] for row in rows), strict=True)
        spread = [
            [one - other for one, other in zip(measured, low, strict=True)],
            [other - one for one, other in zip(measured, high, strict=True)],
        ]
        axes.errorbar(at, measured, spread, fmt="o", color="black", label="measured", capsize=3)
        said = {
            "predicted": [row["predicted_s"] for row in rows],
            "simulated": [row["simulated_s"] for row in told[app]["rows"]],
            "(3.4)": [row["published_s"] for row in rows],
        }
        for label, values in said.items():
            _line(axes, at, values, label)
        axes.set_title(app, fontsize=9)
        axes.set_ylim(bottom=0)
        axes.set_xticks([*range(1, 6), BOTH], [*map(str, range(1, 6)), "both"])
    _edges(figure, panels, "hosts that work; the others serve", "round, s")
    save(figure, name)


def _place(shape: str) -> float:
    works, serves = shape.split(":")
    return BOTH if works == serves else len(works)


def _line(axes: Any, at: Sequence[float], values: Sequence[float], label: str) -> None:
    """A line through the shapes in which none does both, and a mark where all do."""
    colour, style = SAID[label]
    points = sorted(zip(at, values, strict=True))
    line = [one for one in points if one[0] != BOTH]
    axes.plot(*zip(*line, strict=True), style, color=colour, label=label)
    apart = [one for one in points if one[0] == BOTH]
    axes.plot(*zip(*apart, strict=True), "_", color=colour, markersize=14, markeredgewidth=2)


def policies(name: str, apps: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Rounds over time, a panel an app and a line a policy; dotted where servers move."""
    figure, panels = pyplot.subplots(2, 2, figsize=(7, 5), layout="constrained")
    for axes, (app, rows) in zip(panels.flat, apps.items(), strict=False):
        for label, row in rows.items():
            _rounds(axes, label, row)
        axes.set_title(app, fontsize=9)
        axes.set_yscale("log")
        axes.set_yticks([0.8, 1, 1.5, 2, 3, 5], ["0.8", "1", "1.5", "2", "3", "5"], minor=False)
        axes.minorticks_off()
    _edges(figure, panels, "time, s", "round, s")
    save(figure, name)


def over_time(
    name: str,
    rows: Mapping[str, Mapping[str, Any]],
    spans: Sequence[tuple[float, float]] = (),
    why: str = "",
) -> None:
    """Rounds over time in one panel; spans of time in which something differs are shaded."""
    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    for at, (begin_s, end_s) in enumerate(spans):
        axes.axvspan(begin_s, end_s, color="#56b4e9", alpha=0.2, lw=0, label=None if at else why)
    for label, row in rows.items():
        _rounds(axes, label, row)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    _edges(figure, [axes], "time, s", "round, s")
    save(figure, name)


def rounds_of(row: Mapping[str, Any]) -> list[tuple[float, float]]:
    """When each round but the first ended, and how long it took.

    Rows that only have how long rounds took: the first one is what the JCT has beside the others.
    """
    if "rounds_s" in row:
        return [(end_s, took_s) for end_s, took_s in row["rounds_s"]]
    found, now_s = [], row["jct_s"] - sum(row["times_s"])
    for took_s in row["times_s"]:
        now_s += took_s
        found.append((now_s, took_s))
    return found


def _rounds(axes: Any, label: str, row: Mapping[str, Any]) -> None:
    """A line of one run's rounds; a dotted one where servers move, which is before a round."""
    rounds = rounds_of(row)
    axes.plot(*zip(*rounds, strict=True), color=COLOURS[label], label=label, lw=1.2)
    for at, *_ in row["moves"]:
        # The first of ``rounds`` is round 1.
        end_s, took_s = rounds[at - 1]
        axes.axvline(end_s - took_s, color=COLOURS[label], ls=":", lw=1)


def _edges(figure: Any, panels: Any, across: str, up: str) -> None:
    """Labels at the outer axes, and one legend above all panels."""
    every = list(getattr(panels, "flat", panels))
    for axes in every:
        axes.spines[["top", "right"]].set_visible(False)
    for axes in every[-2:]:
        axes.set_xlabel(across)
    for axes in every[::2]:
        axes.set_ylabel(up)
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", fontsize=8, frameon=False,
                  ncols=min(len(labels), 5))  # fmt: skip
