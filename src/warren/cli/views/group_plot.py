"""The picture of a run's groups like Harmony's Fig. 4.7: computing, sending, and idle time.

A pair of axes a group, with a lane for CPU and one for the network. Steps with bold lines are those
that limit the group, and red hatched boxes are idle time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.cli.views.group_text import hosts_text, limit_text
from warren.cli.views.pictures import pyplot, save_figure
from warren.report.figures.drawing import colour
from warren.report.number_text import count, percent, seconds
from warren.runs.studies.group_steps import LANES, LaneStep, lane_steps
from warren.runs.studies.job_groups import GroupPrediction, RunGroups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS: Final = 12
"""Most groups drawn."""
_ITERATIONS: Final = 3
_NAMED: Final = 0.05
"""A step has the name of its job in it from this part of the picture's width on."""


def draw_groups(path: Path, found: RunGroups) -> None:
    """Draw the first groups of a run, three predicted iterations of each.

    Raises SpecError if the file cannot be written.
    """
    shown = found.groups[:MOST_GROUPS]
    figure, grid = pyplot().subplots(
        max(1, len(shown)), squeeze=False, layout="constrained",
        figsize=(8.0, 0.4 + 1.45 * max(1, len(shown))),
    )  # fmt: skip
    if not shown:
        grid[0, 0].set_title("no group stands", fontsize=9)
    names = [job.name for group in shown for job in group.jobs]
    colours = {name: colour(at) for at, name in enumerate(names)}
    for axes, group in zip(grid[:, 0], shown, strict=False):
        axes.spines[["top", "right"]].set_visible(False)
        _draw_group(axes, group, found.hosts, colours)
    left_out = len(found.groups) - len(shown)
    more = f"; {count(left_out, 'more group')} not drawn" if left_out else ""
    grid[-1, 0].set_xlabel(f"seconds{more}", fontsize=8)
    save_figure(figure, path)


def _draw_group(
    axes: Axes, group: GroupPrediction, hosts: Sequence[str], colours: Mapping[str, str]
) -> None:
    """Draw the lanes of one group."""
    from matplotlib.patches import Patch

    for step in lane_steps(group, _ITERATIONS):
        _draw_step(axes, group, step, colours)
    for at in range(1, _ITERATIONS):
        axes.axvline(at * group.iteration_s, color="black", linewidth=0.6, linestyle=":")
    axes.set_xlim(0.0, _ITERATIONS * group.iteration_s)
    lanes = [f"CPU {percent(group.use.cpu)}", f"network {percent(group.use.net)}"]
    axes.set_yticks(range(len(LANES)), lanes, fontsize=8)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=7)
    iteration = f"an iteration takes {seconds(group.iteration_s)}, limited by {limit_text(group)}"
    axes.set_title(f"{hosts_text(group.hosts, hosts)}: {iteration}", fontsize=9, loc="left")
    axes.legend(
        handles=[Patch(color=colours[job.name], label=job.name) for job in group.jobs],
        loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False,
        ncols=1 + len(group.jobs) // 8,
    )  # fmt: skip


def _draw_step(
    axes: Axes, group: GroupPrediction, step: LaneStep, colours: Mapping[str, str]
) -> None:
    """Draw a box: a job's step, or idle time."""
    row, took_s = LANES.index(step.lane), step.end_s - step.begin_s
    if step.job is None:
        axes.barh(
            row, took_s, 0.7, step.begin_s, facecolor="none", edgecolor="#c00000", hatch="////",
            linewidth=0.0,
        )  # fmt: skip
        return
    name = group.jobs[step.job].name
    limits = step.lane == group.limit or name == group.job
    axes.barh(
        row, took_s, 0.7, step.begin_s, color=colours[name],
        edgecolor="black" if limits else "white", linewidth=1.6 if limits else 0.4,
        zorder=3 if limits else 2,
    )  # fmt: skip
    if took_s >= _NAMED * _ITERATIONS * group.iteration_s:
        axes.text(
            step.begin_s + took_s / 2, row, name, ha="center", va="center", fontsize=7,
            color="white", clip_on=True, zorder=4,
        )  # fmt: skip
