"""How far each job of a live run is: rounds, last loss, and when it ends or is expected to."""

from __future__ import annotations

from collections.abc import Mapping

from warren.core.phase import Phase
from warren.core.state import State
from warren.model.events import RoundsDone
from warren.model.run import Run
from warren.model.units import ns_to_seconds


class JobProgress:
    """Remembers the last loss and the end of each job; says what the state is it is asked about.

    ``predicted``: when jobs end by a simulation of the run, by index.
    """

    def __init__(self, run: Run, predicted: Mapping[int, int]) -> None:
        self._run, self._predicted = run, predicted
        self._loss: dict[int, float] = {}
        self._end_ns: dict[int, int] = {}

    @property
    def how(self) -> str:
        """By what ends are expected, in words."""
        return "as simulated before" if self._predicted else "at its pace so far"

    def note(self, event: RoundsDone) -> None:
        """Take the loss and the end of a job from one event."""
        if event.loss is not None:
            self._loss[event.job] = event.loss
        if event.finished:
            self._end_ns[event.job] = event.time_ns

    def rounds(self, state: State, job: int) -> str:
        """Rounds done, of how many."""
        return f"{state.round_J[job]}/{self._run.workload.jobs[job].rounds or '?'}"

    def loss(self, job: int) -> str:
        """The last one known; empty before the first."""
        return f"{self._loss[job]:.4g}" if job in self._loss else ""

    def finish(self, state: State, job: int) -> str:
        """When it ended or is expected to: as predicted, else at its pace so far."""
        phase = Phase(state.phase_J[job])
        if phase is Phase.FINISHED:
            return f"{ns_to_seconds(self._end_ns.get(job, state.now_ns)):.0f} s"
        if job in self._predicted and not phase.is_terminal:
            return f"~{ns_to_seconds(self._predicted[job]):.0f} s"
        done, total = int(state.round_J[job]), self._run.workload.jobs[job].rounds
        if phase is not Phase.ACTIVE or done <= 0 or total is None:
            return ""
        since_ns = state.now_ns - int(state.arrival_ns_J[job])
        return f"~{ns_to_seconds(state.now_ns + since_ns * (total - done) // done):.0f} s"

    def line(self, state: State, job: int) -> str:
        """One line: ``digits-mlp: 34/120 rounds, loss 0.312, ends ~25 s``."""
        loss, finish = self.loss(job), self.finish(state, job)
        parts = [f"{self.rounds(state, job)} rounds"]
        parts += [f"loss {loss}"] if loss else []
        parts += [f"ends {finish}"] if finish else []
        return f"{self._run.workload.jobs[job].name}: {', '.join(parts)}"
