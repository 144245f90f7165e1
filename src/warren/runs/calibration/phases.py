"""A live run in phases, each a small workload of its own, with the core, a policy and a journal.

The policy hands out one phase at a time: all of it at once or, if ``decided``, each round only when
the one before has ended. Between phases everything comes to rest, so that the processor times of
two phases are separate.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import ClassVar, Final, NamedTuple

from warren.core.loop import Core
from warren.core.state import State
from warren.live.control.local_engine import LivePort
from warren.live.control.startup import WARM_LIMIT
from warren.live.measure.machine import ProcessorTimes, processor_times
from warren.live.measure.task_times import nothing_costs
from warren.model.decision import NOTHING, Assignment, Decision
from warren.model.errors import EngineError
from warren.model.events import (
    AnyEvent,
    Event,
    JobArrived,
    JobFailed,
    RolledBack,
    RoundsDone,
    TasksDone,
    TasksLost,
    Woken,
)
from warren.model.run import Run
from warren.model.view import View
from warren.report.record import LIVE
from warren.store.run_folder import RunFolder

_REST_S: Final = 0.02
"""Seconds for processes to come to rest between two phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPhase:
    """A phase: ``rounds`` of each of ``jobs``, dealt to the first ``devices`` devices in turn.

    ``decided``: whether each round is assigned only when the one before has ended. ``together``:
    number of rounds of a job that are assigned before the next job's turn. ``turning``: with each
    round the tasks of a job move one device on.
    """

    name: str
    jobs: tuple[int, ...]
    devices: int
    rounds: int
    decided: bool = False
    together: int = 1
    turning: bool = False


@dataclass(slots=True, kw_only=True)
class Sample:
    """The tasks and processor times of one phase, and when its first tasks were handed out.

    ``own_ns``: processor time of Warren's own processes; ``trainers_ns``: of trainers.
    """

    phase: CalibrationPhase
    begin_ns: int
    tasks: list[TasksDone] = field(default_factory=list)
    own_ns: int = 0
    trainers_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """The policy's memory: the running phase, and its end.

    ``at``: the phase's position; ``until``: the rounds of its jobs at its end.
    """

    at: int = -1
    until: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhasePolicy:
    """A policy that assigns phases, one after another."""

    phases: tuple[CalibrationPhase, ...]
    name: ClassVar[str] = "phases"
    source: ClassVar[str] = "Warren"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset({JobArrived, RoundsDone, Woken})

    def initial(self, view: View) -> _Memory:
        """Return a memory in which no phase has begun."""
        return _Memory()

    def decide(self, view: View, memory: _Memory) -> tuple[Decision, _Memory]:
        """Begin a phase when woken; ask to be woken when one is over."""
        if any(isinstance(event, Woken) for event in view.changes):
            return self._begin(view, memory.at + 1)
        if self._over(view, memory):
            # Not at once: the watcher of the run lets everything come to rest before the wake-up.
            return Decision(wake_ns=view.now_ns + 1), memory
        if memory.at >= 0 and self.phases[memory.at].decided:
            return Decision(assign=tuple(self._next_round(view, memory))), memory
        return NOTHING, memory

    def explain(self, view: View, memory: _Memory, job: int) -> str:
        """Tell which phase runs."""
        return f"phase {memory.at + 1} of {len(self.phases)} runs"

    def _over(self, view: View, memory: _Memory) -> bool:
        """Tell whether all jobs are there and those of the phase have run their rounds."""
        return bool(view.arrived_J.all()) and all(
            int(view.round_J[job]) >= rounds for job, rounds in memory.until.items()
        )

    def _begin(self, view: View, at: int) -> tuple[Decision, _Memory]:
        """Assign a phase, all of it or its first round; nothing after the last one."""
        if at >= len(self.phases):
            return NOTHING, _Memory(at=at)
        phase = self.phases[at]
        until = {job: int(view.round_J[job]) + phase.rounds for job in phase.jobs}
        memory = _Memory(at=at, until=until)
        if phase.decided:
            return Decision(assign=tuple(self._next_round(view, memory))), memory
        # Turn after turn; in each, every job in order; of each, ``together`` rounds.
        assign = [
            one
            for turn in range(0, phase.rounds, phase.together)
            for place, job in enumerate(phase.jobs)
            for ahead in range(turn, min(turn + phase.together, phase.rounds))
            for one in _round(view, phase, place, int(view.round_J[job]) + ahead)
        ]
        return Decision(assign=tuple(assign)), memory

    def _next_round(self, view: View, memory: _Memory) -> Sequence[Assignment]:
        """Return the next round of each job of the phase that is at a barrier."""
        phase = self.phases[memory.at]
        return [
            one
            for place, job in enumerate(phase.jobs)
            if view.next_round_J[job] == view.round_J[job] < memory.until[job]
            for one in _round(view, phase, place, int(view.round_J[job]))
        ]


def _round(view: View, phase: CalibrationPhase, place: int, round_no: int) -> Sequence[Assignment]:
    """Return the tasks of one round of the phase's job at ``place``, on devices in turn."""
    job = phase.jobs[place]
    scale = int(view.scale_J[job])
    first = place * scale + (round_no if phase.turning else 0)
    return [
        Assignment((first + shard) % phase.devices, job, round_no, 1, (shard,))
        for shard in range(scale)
    ]


class PhaseFailed(EngineError):
    """The error that the job of this index failed, or lost work, for this reason."""

    def __init__(self, job: int, reason: str) -> None:
        super().__init__(f"calibrating failed: {reason}")
        self.job, self.reason = job, reason


class _Done(Exception):
    pass


@dataclass(slots=True)
class _Watch:
    """Collects the samples of each phase; ends the run after the last one."""

    port: LivePort
    phases: tuple[CalibrationPhase, ...]
    progress: Callable[[int], None]
    samples: list[Sample] = field(default_factory=list)
    rounds: int = 0
    first: ProcessorTimes | None = None
    before: ProcessorTimes | None = None

    def __call__(self, state: State, events: tuple[AnyEvent, ...]) -> None:
        """Take the events of a step; phases begin with ``Woken``."""
        for event in events:
            match event:
                case JobFailed() | RolledBack() | TasksLost():
                    raise PhaseFailed(event.job, event.reason)
                case Woken():
                    phase = self.phases[len(self.samples)]
                    self.samples.append(Sample(phase=phase, begin_ns=event.time_ns))
                    self.progress(len(self.samples))
                case TasksDone():
                    self.samples[-1].tasks.append(event)
                case RoundsDone():
                    self.rounds += event.rounds
                case _:
                    pass
        now = self.samples[-1].phase if self.samples else None
        if now is None or self.rounds == now.rounds * len(now.jobs):
            self._rest()

    def _rest(self) -> None:
        """Wait between two phases until all is quiet, then note the processor times."""
        self.rounds = 0
        time.sleep(_REST_S)
        now = processor_times(self.port)
        if self.samples and self.before is not None:
            self.samples[-1].own_ns = now.own_ns - self.before.own_ns
            self.samples[-1].trainers_ns = now.trainers_ns - self.before.trainers_ns
        self.first, self.before = self.first or now, now
        if len(self.samples) == len(self.phases):
            raise _Done


class PhaseResults(NamedTuple):
    """The samples of phases, the numerics class of the run's processes, and their build times.

    ``built_ns``: by job, the mean processor time of its trainers before the first phase.
    """

    samples: list[Sample]
    numerics: str
    built_ns: dict[int, float]


def run_phases(
    run: Run,
    phases: Sequence[CalibrationPhase],
    progress: Callable[[int], None],
    out: str,
    *,
    warm: bool,
) -> PhaseResults:
    """Run all phases on the real engine.

    ``progress`` is called with the number of each phase that begins, from 1. ``out`` is a new
    folder for the run's files. ``warm``: before the first phase each job has a trainer on each
    device, which has rehearsed a task; otherwise trainers come when they are first needed. Raises
    PhaseFailed if a job fails, or a process that works for it is lost.
    """
    costs, limit = nothing_costs(run), WARM_LIMIT if warm else 0
    with (
        RunFolder(out, durable=True) as folder,
        LivePort(run, costs, folder.path, warm_limit=limit, rehearse=warm) as port,
    ):
        watch = _Watch(port, tuple(phases), progress)
        core = Core(
            run=run,
            costs=costs,
            policy=PhasePolicy(tuple(phases)),
            port=port,
            sink=folder.journal,
            world=LIVE,
            observe=watch,
        )
        with contextlib.suppress(_Done):
            core.execute()
        folder.keep()
        assert watch.first is not None, "it rests before the first phase"
        # A job has a trainer on each device; their mean is the job's time.
        of_jobs: dict[int, list[int]] = {}
        for job, took_ns in watch.first.of_trainers_ns:
            of_jobs.setdefault(job, []).append(took_ns)
        built_ns = {job: fmean(times_ns) for job, times_ns in of_jobs.items()}
        return PhaseResults(watch.samples, port.numerics, built_ns)
