"""Pictures by matplotlib, and how they get into a file."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.report.figures.drawing import add_legend, new_figure
from warren.store.files import refused, write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS: Final = (".png", ".svg", ".pdf")
"""Ends of the names of picture files."""


def picture_path(name: str) -> Path:
    """Return the file of this name, if a picture can be drawn into it.

    Raises SpecError if its kind is none of ``KINDS``, or it has no folder to be in.
    """
    path = Path(name)
    if path.suffix not in KINDS:
        raise refused(path, f"is no picture; allowed: names that end in {', '.join(KINDS)}")
    if not path.absolute().parent.is_dir():
        raise refused(path.parent, "no such folder; make it first")
    return path


def pyplot() -> Any:
    """Load the drawing library."""
    # Imported here: matplotlib takes long to load, and few commands draw.
    import matplotlib

    matplotlib.use("agg")  # draws without a screen
    from matplotlib import pyplot as found

    return found


def new_picture(width: float = 7.0, height: float = 3.6) -> tuple[Figure, Axes]:
    """Return an empty picture of ``width`` by ``height`` inches, with one pair of axes."""
    figure, (axes,) = new_figure(width, height)
    return figure, axes


def save_picture(figure: Figure, axes: Axes, path: Path, **legend: Any) -> None:
    """Write a picture with a legend of labeled items, above it unless ``legend`` gives a place.

    Raises SpecError if the file cannot be written.
    """
    add_legend(figure, axes, **legend)
    save_figure(figure, path)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture without changes.

    Raises SpecError if the file cannot be written.
    """
    content = BytesIO()
    # Without the date of its making, which SVG and PDF would hold.
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind = path.suffix[1:]
    # A fixed salt gives the parts of an SVG the same ids each time: one picture is one file.
    with pyplot().rc_context({"svg.hashsalt": "warren"}):
        figure.savefig(content, format=kind, dpi=144, metadata=dates.get(kind))
    pyplot().close(figure)
    write_atomic(path, content.getvalue())
