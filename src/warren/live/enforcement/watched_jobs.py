"""The jobs whose logs are on this host: read, predicted, and their traffic given classes.

``watch`` does this alone, an agent by its coordinator's orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from warren.live.enforcement.connections import endpoints_of
from warren.live.enforcement.job_classes import WatchedJob
from warren.live.enforcement.requests import (
    CodePoints,
    Endpoint,
    FlowRequest,
    MarkFlows,
    PeerClass,
    UnmarkFlows,
    checked,
    wrong,
)
from warren.live.enforcement.training_log import TrainingLog, compiled
from warren.live.flow_marks import CODE_POINTS
from warren.model.errors import EngineError, SpecError
from warren.predict.curve_kind import UNSTATED, CurveKind, parse_cuts


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFlows:
    """The settings for one job: its log, and how its flows are found.

    By ``endpoints``, or by the connections of the process ``pid`` and its children at each period.
    """

    name: str
    log: Path
    endpoints: tuple[Endpoint, ...] = ()
    pid: int | None = None

    def ends(self) -> tuple[Endpoint, ...]:
        """Return the ends of its flows on this host now."""
        return self.endpoints if self.pid is None else endpoints_of(self.pid)


@dataclass(slots=True)
class WatchedState:
    """The report on one job after a period."""

    job: WatchedJob
    flows: WatchedFlows
    marked: MarkFlows | None = None
    problem: str = ""
    warned: bool = False

    @property
    def flow_class(self) -> int | None:
        """Its class; None: its flows are not marked."""
        return None if self.marked is None else self.marked.flow_class


class WatchedJobs:
    """The jobs of one label. ``ask`` sends a request to the helper, or shows it.

    Parameters
    ----------
    label
        The label of their rules.
    jobs
        The jobs to watch.
    pattern
        The pattern that finds steps and values in lines of all logs.
    kind
        Stated facts of the curves of all jobs.
    code_points
        The DSCP of each class.

    Raises
    ------
    SpecError
        If the pattern, a name or an endpoint is none, or two jobs have one name.
    """

    def __init__(
        self,
        label: str,
        jobs: Sequence[WatchedFlows],
        pattern: str,
        kind: CurveKind = UNSTATED,
        ask: Callable[[FlowRequest], object] = lambda _: None,
        code_points: CodePoints = CODE_POINTS,
    ) -> None:
        self.label, self.ask, self._points = label, ask, code_points
        self.states: list[WatchedState] = []
        lines = compiled(pattern)
        names = [one.name for one in jobs]
        if len(set(names)) < len(names):
            raise wrong("--log", "two logs have the same name without its ending")
        for one in jobs:
            checked(UnmarkFlows(label=label, job=one.name))
            if one.pid is None:
                checked(self._marks(one.name, 0, one.endpoints))
            job = WatchedJob(one.name, TrainingLog(one.log, lines), kind=kind)
            self.states.append(WatchedState(job, one))

    def read(self, elapsed_s: float) -> None:
        """Read all logs; ``elapsed_s``: since the last time, 0 at the first."""
        for one in self.states:
            one.problem = ""
            one.job.read(elapsed_s)

    def warn(self, period_s: float, say: Callable[[str], None]) -> None:
        """Warn once for each job whose log has fewer lines than there are periods."""
        for one in self.states:
            if not one.warned and one.job.comes_rarely(period_s):
                one.warned = True
                say(
                    f"{one.job.name}: its log has a line every {one.job.gap_s:.3g} s, and the "
                    f"period is {period_s:g} s: its gain is as old as its last line. Log more "
                    "often, or take a longer --period"
                )

    def predict(self, one: WatchedState, period_s: float, seed: int) -> None:
        """Predict the gain of a job's next period; if that is impossible it is not known."""
        try:
            one.job.predict(period_s, seed)
        except (ValueError, ArithmeticError) as error:
            one.problem, one.job.gain = str(error), None

    def set_classes(
        self,
        classes: Mapping[str, int],
        queues: Mapping[str, int] = MappingProxyType({}),
        peers: Mapping[str, tuple[PeerClass, ...]] = MappingProxyType({}),
    ) -> None:
        """Set changed classes; a job that is not named is marked no more.

        ``queues`` and ``peers``: as ``MarkFlows`` has them, by job.
        """
        for one in self.states:
            name = one.job.name
            try:
                if name in classes:
                    marks = self._marks(name, classes[name], one.flows.ends())
                    marks = replace(marks, queue=queues.get(name, -1), peers=peers.get(name, ()))
                    self._set(one, marks)
                else:
                    self._set(one, None)
            except (EngineError, SpecError) as error:
                one.problem = str(error)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each job."""
        return [_row(one) for one in self.states]

    def _set(self, one: WatchedState, wanted: MarkFlows | None) -> None:
        if wanted is not None and not wanted.endpoints:
            wanted = None
        if wanted == one.marked:
            return
        self.ask(wanted or UnmarkFlows(label=self.label, job=one.job.name))
        one.marked = wanted

    def _marks(self, job: str, flow_class: int, ends: tuple[Endpoint, ...]) -> MarkFlows:
        return MarkFlows(
            label=self.label,
            job=job,
            flow_class=flow_class,
            endpoints=ends,
            code_points=self._points,
        )


def _row(one: WatchedState) -> dict[str, Any]:
    log, ends = one.job.log, () if one.marked is None else one.marked.endpoints
    return {
        "job": one.job.name,
        "class": one.flow_class,
        "gain": one.job.gain,
        "step": log.steps[-1] if log.steps else None,
        "value": log.values[-1] if log.values else None,
        "ports": sum(last - first + 1 for end in ends for first, last in end.ports),
        "state": one.problem or ("silent" if one.job.silent else "watched"),
    }


def stated_kind(metric: str | None, cuts: str | None) -> CurveKind:
    """Return the facts in ``--metric`` and ``--cuts`` about the watched curves.

    Raises
    ------
    SpecError
        If the cuts are no steps.
    """
    try:
        return CurveKind(metric or None, parse_cuts(cuts))
    except ValueError as error:
        raise wrong("--cuts", str(error)) from None
