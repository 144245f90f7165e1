"""Events of a service, told in seconds, for tests that need its journal and no process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warren.serve.journal.journal import Journal
from warren.serve.records.events import (
    AnyEvent,
    AttemptBegun,
    AttemptEnded,
    AttemptStarted,
    CancelAsked,
    Drained,
    JobEnded,
    JobHeld,
    JobReleased,
    JobSubmitted,
    MachineJoined,
)
from warren.serve.records.jobs import CommandSpec, JobState
from warren.serve.records.machines import HostDevice, Machine
from warren.serve.replay.past_jobs import past_service
from warren.serve.replay.service_run import ServiceRun, service_run

S = 10**9
BEGIN = 1_780_000_000 * S


class Story:
    """Events of a service, told with seconds since its beginning."""

    def __init__(self, *hosts: tuple[str, str, int]) -> None:
        self.events: list[AnyEvent] = []
        self.attempts: dict[str, int] = {}
        for name, kind, count in hosts or (("m", "H100", 2),):
            devices = tuple(HostDevice(f"{name}-{i}", "gpu", kind) for i in range(count))
            machine = Machine(name, devices, "boot", 8, 10**9, "rlimit", "1")
            self.tell(MachineJoined(time_ns=BEGIN, machine=machine))

    def tell(self, *events: AnyEvent) -> Story:
        self.events += events
        return self

    def submit(self, at: float, job: str, user: str = "ana", **spec: Any) -> Story:
        array = spec.pop("array", None)
        command = CommandSpec(command=("true",), folder="/", **spec)
        return self.tell(
            JobSubmitted(time_ns=at_ns(at), job=job, user=user, spec=command, array=array)
        )

    def start(self, at: float, job: str, *devices: str, host: str = "m") -> Story:
        number = self.attempts[job] = self.attempts.get(job, 0) + 1
        return self.tell(
            AttemptBegun(time_ns=at_ns(at), job=job, attempt=number, host=host, devices=devices),
            AttemptStarted(time_ns=at_ns(at), job=job, attempt=number),
        )

    def end(self, at: float, job: str, state: JobState | None = JobState.FINISHED) -> Story:
        number, cause = self.attempts[job], "exit"
        self.tell(AttemptEnded(time_ns=at_ns(at), job=job, attempt=number, cause=cause))  # type: ignore[arg-type]
        if state is not None:
            self.tell(JobEnded(time_ns=at_ns(at), job=job, state=state))
        return self

    def run(self, since: float | None = None, *, ends_count: bool = True) -> ServiceRun:
        since_ns = 0 if since is None else at_ns(since)
        past = past_service(self.events)
        return service_run(past, "svc", since_ns=since_ns, ends_count=ends_count)

    def home(self, folder: Path) -> str:
        """Write the journal into the home of a service."""
        folder.mkdir()
        with Journal(folder / "queue.db") as journal:
            journal.append(self.events)
        return str(folder)


def at_ns(seconds: float) -> int:
    return BEGIN + round(seconds * S)


def three_jobs() -> Story:
    """A long job of two devices holds up two short jobs, one of which is another user's."""
    return (
        Story()
        .submit(0, "1", devices=2)
        .submit(1, "2", user="bo")
        .submit(2, "3", user="bo")
        .start(0, "1", "m-0", "m-1")
        .end(100, "1")
        .start(100, "2", "m-0")
        .start(100, "3", "m-1")
        .end(110, "2")
        .end(130, "3")
    )


def eventful() -> Story:
    """Jobs that fail, are cancelled, held, tried again, run on, and never run; two types."""
    story = Story(("m", "H100", 2), ("n", "A100", 1))
    story.submit(0, "1").start(0, "1", "m-0").end(10, "1", JobState.FAILED)
    story.submit(1, "2").start(1, "2", "m-1").tell(
        CancelAsked(time_ns=at_ns(20), by="ana", job="2")
    )
    story.end(21, "2", JobState.CANCELLED)
    story.submit(2, "3", held=True).tell(JobHeld(time_ns=at_ns(3), job="3"))
    story.tell(JobReleased(time_ns=at_ns(30), job="3")).start(30, "3", "m-0").end(35, "3")
    story.submit(3, "4", retries=1, device_type="H100").start(40, "4", "m-0").end(45, "4", None)
    story.start(50, "4", "m-1").end(62, "4")
    story.submit(4, "5", host="n").start(5, "5", "n-0", host="n")
    story.submit(6, "6", priority=3, share=True)
    story.tell(JobEnded(time_ns=at_ns(70), job="6", state=JobState.CANCELLED))
    story.submit(70, "7", share=True, priority=1).start(70, "7", "m-0").end(71, "7")
    return story.tell(Drained(time_ns=at_ns(80), host="m"))
