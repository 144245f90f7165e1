"""Jobs that Warren did not start are watched, and what they send gets a class each period.

It runs beside the jobs and never in them: where it is late, fails or ends, they go on, with the
classes that stand or with none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warren.live.enforcement import rules
from warren.live.enforcement.client import FlowHelper
from warren.live.enforcement.connections import endpoints_of
from warren.live.enforcement.job_classes import WatchedJob, classes_by_gain
from warren.live.enforcement.requests import (
    Endpoint,
    FlowRequest,
    MarkFlows,
    SetUpQueues,
    UnmarkFlows,
    checked,
    wrong,
)
from warren.live.enforcement.training_log import TrainingLog, compiled
from warren.model.errors import EngineError, SpecError
from warren.predict.curve_kind import UNSTATED, CurveKind, parse_cuts


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFlows:
    """What to watch of one job: its log, and how its flows are told.

    By ``endpoints``, or by the connections of the process ``pid`` and its children as they stand at
    each period.
    """

    name: str
    log: Path
    endpoints: tuple[Endpoint, ...] = ()
    pid: int | None = None


@dataclass(slots=True)
class WatchedState:
    """One job after a period, as it is told."""

    job: WatchedJob
    flows: WatchedFlows
    flow_class: int | None = None
    endpoints: tuple[Endpoint, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class FlowWatch:
    """A watch over jobs. ``ask`` sends a request to the helper, or shows it.

    ``kind``: what is stated of the curves of all jobs.
    """

    label: str
    jobs: Sequence[WatchedFlows]
    pattern: str
    period_s: float
    seed: int
    ask: Callable[[FlowRequest], object]
    kind: CurveKind = UNSTATED
    states: list[WatchedState] = field(default_factory=list)

    def __post_init__(self) -> None:
        pattern = compiled(self.pattern)
        names = [one.name for one in self.jobs]
        if len(set(names)) < len(names):
            raise wrong("--log", "two logs have the same name without its ending")
        for one in self.jobs:
            checked(UnmarkFlows(label=self.label, job=one.name))
            if one.pid is None:
                checked(self._marks(one.name, 0, one.endpoints))
            job = WatchedJob(one.name, TrainingLog(one.log, pattern), kind=self.kind)
            self.states.append(WatchedState(job, one))

    def step(self, elapsed_s: float) -> list[dict[str, Any]]:
        """Look at all logs, order the jobs and set what has changed; return each job's row."""
        for one in self.states:
            one.problem = ""
            try:
                one.job.look(elapsed_s, self.period_s, self.seed)
            except (ValueError, ArithmeticError) as error:
                one.problem, one.job.gain = str(error), None
        classes = classes_by_gain({s.job.name: s.job.gain for s in self.states if not s.job.ended})
        for one in self.states:
            try:
                self._set(one, classes.get(one.job.name))
            except (EngineError, SpecError) as error:
                one.problem = str(error)
        return [_row(one) for one in self.states]

    def _set(self, one: WatchedState, flow_class: int | None) -> None:
        ends = one.flows.endpoints if one.flows.pid is None else endpoints_of(one.flows.pid)
        if (flow_class, ends) == (one.flow_class, one.endpoints):
            return
        if flow_class is None or not ends:
            if one.flow_class is not None:
                self.ask(UnmarkFlows(label=self.label, job=one.job.name))
            flow_class, ends = None, ()
        else:
            self.ask(self._marks(one.job.name, flow_class, ends))
        one.flow_class, one.endpoints = flow_class, ends

    def _marks(self, job: str, flow_class: int, ends: tuple[Endpoint, ...]) -> MarkFlows:
        return MarkFlows(label=self.label, job=job, flow_class=flow_class, endpoints=ends)


def _row(one: WatchedState) -> dict[str, Any]:
    log = one.job.log
    return {
        "job": one.job.name,
        "class": one.flow_class,
        "gain": one.job.gain,
        "step": log.steps[-1] if log.steps else None,
        "value": log.values[-1] if log.values else None,
        "ports": sum(last - first + 1 for end in one.endpoints for first, last in end.ports),
        "state": "ended or silent" if one.job.ended else one.problem or "watched",
    }


def watched(
    watch: FlowWatch, periods: int | None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each period, so many or until interrupted."""
    last_s: float | None = None
    done = 0
    while periods is None or done < periods:
        now_s = time.monotonic()
        yield watch.step(0.0 if last_s is None else now_s - last_s)
        last_s, done = now_s, done + 1
        if periods is None or done < periods:
            sleep(max(0.0, now_s + watch.period_s - time.monotonic()))


def stated_kind(metric: str | None, cuts: str | None) -> CurveKind:
    """Return what ``--metric`` and ``--cuts`` state of the curves that are watched.

    Raises
    ------
    SpecError
        If the cuts are no steps.
    """
    try:
        return CurveKind(metric or None, parse_cuts(cuts))
    except ValueError as error:
        raise wrong("--cuts", str(error)) from None


def shown(request: FlowRequest) -> str:
    """Return the rules that a request becomes, as ``nft`` and ``tc`` would be given them."""
    checked(request)
    if isinstance(request, SetUpQueues):
        lines = "".join(f"{line}\n" for line in rules.queue_lines(request))
        return f"# nft -f -\n{rules.queue_table(request)}# tc -batch -\n{lines}"
    if isinstance(request, MarkFlows):
        return f"# nft -f -\n{rules.marks(request)}"
    if isinstance(request, UnmarkFlows):
        return f"# nft -f -\n{rules.unmarks(request.label, request.job)}"
    raise ValueError("only what makes or removes rules has any")


def helper_for(label: str, sudo: bool, queues: SetUpQueues | None) -> FlowHelper:
    """Start a helper, and set up the queues of a device if asked to."""
    if queues is not None:
        checked(queues)
    helper = FlowHelper(label, sudo)
    try:
        if queues is not None:
            helper.ask(queues)
    except BaseException:
        helper.close()
        raise
    return helper
