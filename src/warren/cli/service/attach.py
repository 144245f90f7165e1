"""``warren attach``: a shell with the devices of a running job."""

from __future__ import annotations

import os
from pathlib import Path

from warren.cli.service.declare import SERVER, Argument, Option, command
from warren.serve.client.address import AGENT_HOME, refused
from warren.serve.client.client import Client


@command(
    Argument("job", "ID", "Id of a running job of yours on this machine."),
    Argument("words", "-- COMMAND", "Command to run. Default: a shell.", many=True, required=False),
    Option(
        "--home",
        f"Folder of the agent, on a machine of `warren agent`. Default: {AGENT_HOME}.",
        "DIR",
        str,
    ),
    SERVER,
    examples=("warren attach 12", "warren attach 12 -- nvidia-smi"),
)
def attach(*, job: str, words: tuple[str, ...], home: str | None, server: str | None) -> int:
    """Open a shell with the devices of a running job.

    It has the folder, the variables and the devices of the job, and ends with it. The exit code is
    that of the shell.
    """
    with Client(server) as service:
        shown = service.show(job)
    if shown["state"] != "running" or not shown["log"]:
        raise refused(f"job {job} is {shown['state']}; attach needs a running job", "conflict")
    from warren.serve.agent.attach import attach as attach_to

    # The socket for shells is in the folder of the attempt, as the log is. Of other machines the
    # service knows only the name of the attempt.
    log = Path(shown["log"])
    here = log.is_absolute()
    folder = Path(os.path.expanduser(home or AGENT_HOME)) / "attempts"
    name = f"{shown['id']}.{shown['attempt']}"
    if not here and not (folder / name).exists():
        raise refused(f"job {job} runs on {shown['host']}: type this there", "conflict")
    return attach_to(log.parent if here else folder / name, words)
