"""Inputs of a report: the run, its history, its costs, and the caller's measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from warren.core.journal_reader import History
from warren.model.costs import CostTable
from warren.model.measured import PhaseTimes
from warren.model.run import Run

LIVE = "live"
"""``Header.world`` of a run on real processes; every other world is a simulated one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Lower bounds in cluster seconds, valid for every schedule of the exact problem.

    ``weighted_jct_s`` bounds the sum of w_n (C_n - a_n), ``makespan_s`` the last end minus the
    first arrival; ``*_by`` name the bound that binds. None: not known, and ``reason`` says why.
    """

    weighted_jct_s: float | None
    makespan_s: float | None
    weighted_jct_by: str = ""
    makespan_by: str = ""
    reason: str = ""


# Without slots: ``cached_property`` keeps its values in ``__dict__``.
@dataclass(frozen=True, kw_only=True)
class Record:
    """One run, ready to be reported on.

    ``costs`` are the T^c and T^s that the schedule was made with. ``extra`` holds what only the
    caller could measure: ``decide_s`` and ``wall_s`` in real seconds, ``overruns`` a count, and
    whatever else belongs into ``summary.json``. ``phases``: where the time of tasks went, by job.
    """

    run: Run
    history: History
    costs: CostTable
    extra: Mapping[str, float] = field(default_factory=dict)
    bound: Bound | None = None
    phases: Mapping[int, PhaseTimes] = field(default_factory=dict)

    @cached_property
    def live(self) -> bool:
        """Tell whether real processes executed the run."""
        return self.history.header.world == LIVE

    @cached_property
    def place(self) -> str:
        """Return the name of the place policy that scheduled the run.

        The plain engine ignores the policy that the run file names.
        """
        return self.run.live_place if self.live else self.run.scheduler.place
