"""The rest of a server's work on a passed barrier, once trainers have the new state."""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.live import run_clock
from warren.live.device.report_buffer import SETTLED_NS
from warren.live.training.task_hashes import RoundOutcome
from warren.live.transport.message import TaskStamp
from warren.live.transport.server_messages import RoundReport
from warren.live.transport.sockets import Link


@dataclass(frozen=True, slots=True)
class DeferredReport:
    """A barrier that has passed and is not reported yet.

    Without emulation the report follows a moment later, or when the next update is here. With few
    cores the controller, which gets the report, would take the core that a trainer is about to wake
    up on. ``since_ns`` is when the new state was ready.
    """

    job: int
    generation: int
    outcome: RoundOutcome
    barrier_ns: int
    stamps: tuple[TaskStamp, ...]
    since_ns: int = field(default_factory=lambda: run_clock.now_ns())

    @property
    def due(self) -> bool:
        """Tell whether trainers have had their moment to begin, so that the report may be sent."""
        return run_clock.now_ns() >= self.since_ns + SETTLED_NS

    def report(self, control: Link, saved: int, sha256: str) -> None:
        """Send the controller the report.

        Parameters
        ----------
        control
            The link to the controller.
        saved
            The round of the newest checkpoint.
        sha256
            The hash of the trained parameters; empty while the job goes on.
        """
        outcome = self.outcome
        metrics = None if outcome.metrics is None else dict(outcome.metrics)
        control.send(
            RoundReport(
                job=self.job,
                generation=self.generation,
                round=outcome.round,
                loss=outcome.loss,
                metrics=metrics,
                finished=outcome.finished,
                at_ns=self.barrier_ns,
                stamps=self.stamps,
                saved=saved,
                sha256=sha256,
            )
        )
