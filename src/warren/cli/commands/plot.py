"""``warren plot``: pictures of the runs in folders."""

from __future__ import annotations

from collections.abc import Sequence

from warren.cli.streams import answers_alone, say
from warren.cli.views.pictures import picture_path
from warren.report.record import Record
from warren.run.results import load_record
from warren.store.files import read_dir


@answers_alone()
def cdf_command(folders: Sequence[str], out: str) -> None:
    """Draw the distribution of JCTs of several runs."""
    from warren.cli.views.run_plots import plot_cdf

    path = picture_path(out)
    plot_cdf([_record(folder) for folder in folders], folders, path)
    say(f"picture: {path}")


@answers_alone()
def gantt_command(folder: str, out: str) -> None:
    """Draw who runs where."""
    from warren.cli.views.run_plots import plot_gantt

    path = picture_path(out)
    plot_gantt(_record(folder), path)
    say(f"picture: {path}")


@answers_alone()
def use_command(folder: str, out: str) -> None:
    """Draw how busy devices are."""
    from warren.cli.views.run_plots import plot_use

    path = picture_path(out)
    plot_use(_record(folder), path)
    say(f"picture: {path}")


def _record(folder: str) -> Record:
    return load_record(folder, read_dir(folder))
