"""The progress of each job of a live run: rounds, last loss, and its end or expected end."""

from __future__ import annotations

from collections.abc import Mapping

from warren.core.state import Phase, State
from warren.model.events import RoundsDone
from warren.model.run import Run
from warren.model.units import ns_to_seconds


class JobProgress:
    """The last loss and the end of each job, and how far a job is in words.

    ``predicted``: when jobs end by a simulation of the run, in ns by index. A job that is past that
    end, or is not in it, is expected to go on at its pace since its first round was seen.
    """

    def __init__(self, run: Run, predicted: Mapping[int, int]) -> None:
        self._run = run
        self._predicted = predicted
        self._loss: dict[int, float] = {}
        self._end_ns: dict[int, int] = {}
        # Of the first event of a job: its time, and the rounds that were done by then.
        self._first: dict[int, tuple[int, int]] = {}

    @property
    def how(self) -> str:
        """Say by what the ends of jobs are expected, in words."""
        return "as simulated before" if self._predicted else "at its pace so far"

    def note(self, event: RoundsDone) -> None:
        """Take the loss and the end of a job from one event."""
        if event.loss is not None:
            self._loss[event.job] = event.loss
        self._first.setdefault(event.job, (event.time_ns, event.round + event.rounds))
        if event.finished:
            self._end_ns[event.job] = event.time_ns

    def rounds(self, state: State, job: int) -> str:
        """Return the number of rounds of a job that are done, and of all: ``34/120``."""
        return f"{state.round_J[job]}/{self._run.workload.jobs[job].rounds or '?'}"

    def loss(self, job: int) -> str:
        """Return the last loss of a job that is known; empty before the first."""
        return f"{self._loss[job]:.4g}" if job in self._loss else ""

    def finish(self, state: State, job: int) -> str:
        """Return when a job ended, or with ``~`` is expected to; empty where nothing tells that."""
        phase = Phase(state.phase_J[job])
        if phase is Phase.FINISHED:
            return f"{ns_to_seconds(self._end_ns.get(job, state.now_ns)):.0f} s"
        if phase.is_terminal:
            return ""
        # A prediction that has passed is of no use any more: then the pace so far counts.
        if self._predicted.get(job, -1) > state.now_ns:
            return f"~{ns_to_seconds(self._predicted[job]):.0f} s"
        since_ns, had = self._first.get(job, (0, 0))
        done, total = int(state.round_J[job]), self._run.workload.jobs[job].rounds
        if job not in self._first or done <= had or total is None:
            return ""
        # The rounds that are left, at the mean time of those since the first event; in whole
        # numbers, since ns times rounds have more digits than a float.
        left_ns = (state.now_ns - since_ns) * (total - done) // (done - had)
        return f"~{ns_to_seconds(state.now_ns + left_ns):.0f} s"

    def line(self, state: State, job: int) -> str:
        """Return one line on a job: ``digits-mlp: 34/120 rounds, loss 0.312, ends ~25 s``."""
        loss, finish = self.loss(job), self.finish(state, job)
        parts = [f"{self.rounds(state, job)} rounds"]
        parts += [f"loss {loss}"] if loss else []
        parts += [f"ends {finish}"] if finish else []
        return f"{self._run.workload.jobs[job].name}: {', '.join(parts)}"
