"""``warren attach``: a shell with the devices of a running job."""

from __future__ import annotations

from pathlib import Path

from warren.cli.service.declare import SERVER, Argument, command
from warren.serve.client.address import refused
from warren.serve.client.client import Client


@command(
    Argument("job", "ID", "Id of a running job of yours on this machine."),
    Argument("words", "-- COMMAND", "Command to run. Default: a shell.", many=True, required=False),
    SERVER,
    examples=("warren attach 12", "warren attach 12 -- nvidia-smi"),
)
def attach(*, job: str, words: tuple[str, ...], server: str | None) -> int:
    """Open a shell with the devices of a running job.

    It has the folder, the variables and the devices of the job, and ends with it. The exit code is
    that of the shell.
    """
    with Client(server) as service:
        shown = service.show(job)
    if shown["state"] != "running" or not shown["log"]:
        raise refused(f"job {job} is {shown['state']}; attach needs a running job", "conflict")
    from warren.serve.agent.attach import attach as attach_to

    # The log is in the folder of the attempt, and so is the door to it.
    return attach_to(Path(shown["log"]).parent, words)
