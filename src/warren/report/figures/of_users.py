"""A figure of the users of a run: mean JCT, slow-down and share of device time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.model.errors import Problem, SpecError
from warren.report.fairness.users import UserShare, user_shares
from warren.report.figures.drawing import DARK, GREY, new_figure, set_title, unit_of
from warren.report.number_text import number
from warren.report.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN: Final = 30
"""Most users in a figure: those with the most device time."""


def users_figure(record: Record) -> Figure:
    """Draw mean JCT, mean slow-down and share of device time by user.

    Raises
    ------
    SpecError
        No job has a user.
    """
    users = user_shares(record)
    if not users:
        message = "no job has a user; set user: in the job file"
        raise SpecError(Problem(file=record.run.name, message=message))
    shown = sorted(users, key=lambda one: -one.device_s)[:_SHOWN]
    figure, (jct, slowdown, share) = new_figure(8.0, 1.5 + 0.24 * len(shown), columns=3)
    unit = unit_of(max((one.mean_jct_s or 0.0 for one in shown), default=0.0))
    known = [None if one.mean_jct_s is None else one.mean_jct_s / unit.size_s for one in shown]
    _bars(jct, known, f"Mean JCT, {unit.word}", DARK)
    _bars(slowdown, [one.mean_slowdown for one in shown], "Mean slow-down", DARK)
    _bars(share, [100 * one.device_share for one in shown], "Device time, %", GREY)
    jct.set_yticks(range(len(shown)), [_name(one) for one in shown], fontsize=8)
    slowdown.set_yticks([])
    share.set_yticks([])
    more = f"; the {_SHOWN} of {len(users)} with most device time" if len(users) > _SHOWN else ""
    figure.suptitle(
        f"Users of {record.run.name}, {record.place} (jobs finished/all){more}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return figure


def _bars(axes: Axes, values: list[float | None], title: str, colour: str) -> None:
    """Draw a bar a user, with its value beside it; '–' where it is not known."""
    axes.barh(range(len(values)), [one or 0.0 for one in values], 0.7, color=colour)
    for at, value in enumerate(values):
        text = "–" if value is None else number(round(value, 2))
        axes.annotate(
            text, (value or 0.0, at), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlim(left=0.0)
    set_title(axes, title)


def _name(one: UserShare) -> str:
    """Return a user's name and number of jobs."""
    return f"{one.user or '(no user)'} ({one.finished}/{one.jobs})"
