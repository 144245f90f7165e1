"""The picture of a job's shapes: its shortest epoch by how many hosts work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warren.cli.views.pictures import new_picture, save_picture
from warren.report.figures.drawing import colour
from warren.runs.studies.job_shape import ShapeAdvice


def draw_shapes(path: Path, shapes: Sequence[ShapeAdvice]) -> None:
    """Draw a line a job, with a mark at its best shape.

    Raises SpecError if the file cannot be written.
    """
    figure, axes = new_picture()
    for at, one in enumerate(shapes):
        counts, epochs_s = list(one.epochs_s), list(one.epochs_s.values())
        axes.plot(counts, epochs_s, color=colour(at), label=one.job)
        axes.plot([len(one.items)], [one.epoch_s], "o", color=colour(at))
    axes.set_xlabel("hosts that work; the others serve")
    axes.set_ylabel("epoch, s")
    # Few workers or few servers take many times the best, which would hide it.
    least, most = (bound(min(one.epochs_s.values()) for one in shapes) for bound in (min, max))
    axes.set_ylim(0.0 if most < 4 * least else 0.8 * least, 4 * most)
    if most >= 4 * least:
        axes.set_yscale("log")
    save_picture(figure, axes, path)
