"""Figures from Python: ``warren.plot_means`` and its like return figures of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from warren.model.errors import Problem, SpecError
from warren.report.record import Record
from warren.runs.api import Result
from warren.runs.comparison.table_file import read_table
from warren.runs.results import load_record
from warren.store.files import read_dir

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    Table: TypeAlias = pandas.DataFrame | Sequence[Mapping[str, Any]] | str | Path

Folder = Result | str | Path
"""A run's result or its folder."""


def plot_means(table: Table, value: str = "mean_jct_s") -> Figure:
    """Draw a value of each policy, with the 95 % interval of its mean over seeds.

    Parameters
    ----------
    table
        What ``warren.compare`` returns, or a file that ``warren compare --csv`` wrote.
    value
        The column to draw: ``mean_jct_s``, ``p95_jct_s``, ``mean_slowdown``, ``makespan_s``,
        ``weighted_jct_s`` or ``gap``.

    Raises
    ------
    SpecError
        If the table is no comparison, or has no such column.
    """
    from warren.report.figures.of_comparisons import means_figure

    return means_figure(_rows(table), value)


def plot_sweep(table: Table, by: str | None = None, value: str = "mean_jct_s") -> Figure:
    """Draw a value over those of a swept key: a line a policy, with 95 % intervals.

    Parameters
    ----------
    table, value
        As for ``plot_means``.
    by
        The swept key; None: the only one.

    Raises
    ------
    SpecError
        If the table is no comparison, or has no such column or key.
    """
    from warren.report.figures.of_comparisons import sweep_figure

    return sweep_figure(_rows(table), by, value)


def plot_users(run: Folder) -> Figure:
    """Draw mean JCT, mean slow-down and share of device time by user of a run with a folder.

    Raises
    ------
    SpecError
        If it has no folder, or no job has a user.
    """
    from warren.report.figures.of_users import users_figure

    return users_figure(_record(run))


def plot_cdf(runs: Folder | Sequence[Folder]) -> Figure:
    """Draw the share of finished jobs by completion time, a line a run with a folder.

    Raises
    ------
    SpecError
        If one has no folder.
    """
    from warren.report.figures.of_runs import cdf_figure

    several = [runs] if isinstance(runs, Result | str | Path) else list(runs)
    return cdf_figure([_record(one) for one in several], [_folder(one) for one in several])


def plot_gantt(run: Folder) -> Figure:
    """Draw which job computes where and when in a run with a folder.

    Raises
    ------
    SpecError
        If it has no folder.
    """
    from warren.report.figures.of_runs import gantt_figure

    return gantt_figure(_record(run))


def plot_use(run: Folder) -> Figure:
    """Draw how busy the devices of each type are in a run with a folder.

    Raises
    ------
    SpecError
        If it has no folder.
    """
    from warren.report.figures.of_runs import use_figure

    return use_figure(_record(run))


def _rows(table: Table) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a comparison, whatever it is given as."""
    if isinstance(table, str | Path):
        return read_table(str(table))
    found: Any = table
    rows: list[dict[str, Any]] = (
        found.to_dict("records") if hasattr(found, "to_dict") else list(found)
    )
    if any("place" not in row or "run" not in row for row in rows):
        message = "is no comparison; give what warren.compare returns"
        raise SpecError(Problem(file="table", message=message))
    return rows


def _folder(run: Folder) -> str:
    """Return the folder of a run."""
    if not isinstance(run, Result):
        return str(run)
    if run.folder is None:
        message = "has no folder; simulate with out= to draw it"
        raise SpecError(Problem(file=str(run.summary.get("run")), message=message))
    return str(run.folder)


def _record(run: Folder) -> Record:
    """Return the record of a run's folder."""
    folder = _folder(run)
    return load_record(folder, read_dir(folder))
