"""``warren cancel``, ``preempt``, ``hold``, ``release``, ``priority``, ``extend``."""

from __future__ import annotations

from warren.cli.service.declare import JSON, SERVER, Argument, command
from warren.serve.client import values
from warren.serve.client.client import Client, quoted

TYPE_CHECKING = False  # not from typing, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

IDS: Final = Argument(
    "jobs", "ID...", "Ids of jobs or arrays, or names of jobs of yours.", many=True
)


def _change(server: str | None, jobs: Sequence[str], verb: str, body: Any = None) -> list[str]:
    """Ask for a change of each job; return the answers as they came."""
    with Client(server) as service:
        path = "/v1/jobs/{}/" + verb
        return [
            service.ask_text("POST", path.format(quoted(job)), body).decode() or "null"
            for job in jobs
        ]


def _answer(answers: Sequence[str], json_: bool) -> None:
    """Print the answers as one list, if JSON is asked for."""
    if json_:
        print(f"[{','.join(answers)}]", flush=True)


@command(
    IDS,
    SERVER,
    JSON,
    examples=("warren cancel 12", "warren cancel 12 13 14", "warren cancel train"),
)
def cancel(*, jobs: tuple[str, ...], server: str | None, json_: bool) -> None:
    """Cancel jobs; a running one is stopped.

    Its command gets SIGTERM, and after the grace all its processes are killed. The devices are
    free once none is left.
    """
    _answer(_change(server, jobs, "cancel"), json_)


@command(IDS, SERVER, JSON, examples=("warren preempt 12", "warren preempt train"))
def preempt(*, jobs: tuple[str, ...], server: str | None, json_: bool) -> None:
    """Take the devices of running jobs that can come back.

    The command gets the signal of its job, and time to save; then it waits for devices again, in
    its old place. It must have been submitted with --resume.
    """
    _answer(_change(server, jobs, "preempt"), json_)


@command(IDS, SERVER, JSON, examples=("warren hold 12",))
def hold(*, jobs: tuple[str, ...], server: str | None, json_: bool) -> None:
    """Keep queued jobs from starting.

    They wait until `warren release`.
    """
    _answer(_change(server, jobs, "hold"), json_)


@command(IDS, SERVER, JSON, examples=("warren release 12",))
def release(*, jobs: tuple[str, ...], server: str | None, json_: bool) -> None:
    """Let held jobs start again."""
    _answer(_change(server, jobs, "release"), json_)


@command(
    Argument("job", "ID", "Id of a running job or an array, or the name of a job of yours."),
    Argument("time", "TIME", "For how long, such as 30m or 4h. Default: 2h.", values.seconds,
             required=False),
    SERVER,
    JSON,
    examples=("warren extend 12", "warren extend 12 8h"),
)  # fmt: skip
def extend(*, job: str, time: float | None, server: str | None, json_: bool) -> None:
    """Let a running job do nothing for some time.

    A service with `warren serve --idle` warns of jobs whose devices do nothing, and ends them an
    hour later. An extended job is left alone until its time is over, and is then warned again.
    """
    _answer(_change(server, [job], "extend", {"time_s": time}), json_)


@command(
    Argument("job", "ID", "Id of a job or an array, or the name of a job of yours."),
    Argument("priority", "N", "Priority; jobs of a higher one start first.", values.whole),
    SERVER,
    JSON,
    examples=("warren priority 12 5", "warren priority 12 -5"),
)
def priority(*, job: str, priority: int, server: str | None, json_: bool) -> None:
    """Change the priority of a job.

    It must not have started.
    """
    _answer(_change(server, [job], "priority", {"priority": priority}), json_)
