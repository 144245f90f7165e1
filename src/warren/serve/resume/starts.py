"""Commands that stop and come back: what they are given again, and whether they have saved."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from warren.serve.agent.command import CannotStart, Place
from warren.serve.agent.folders import AttemptFolder
from warren.serve.resume.checkpoints import complete_checkpoints, latest

_CLOCK_S: Final = 0.05
"""Time by which a file system's clock may be behind, in seconds."""
_PORTS: Final = range(20_000, 29_000)
"""Ports that no system hands out by itself."""

_SCONTROL: Final = """\
#!/bin/sh
# Stands in for Slurm's scontrol in a job of Warren: `requeue` and `show hostnames`, no more.
case "$1 $2" in
requeue\\ *)
    case "$2" in
    "$SLURM_JOB_ID" | "$WARREN_JOB_ID" | "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID") ;;
    *) echo "scontrol: job $2 is not this job, $SLURM_JOB_ID" >&2; exit 1 ;;
    esac
    echo requeue >>"$WARREN_ATTEMPT_DIR/requeue"
    ;;
"show hostnames")
    echo "${3:-$SLURM_JOB_NODELIST}"
    ;;
*)
    echo "scontrol: in a job of Warren there are \\`requeue\\` and \\`show hostnames\\` alone" >&2
    exit 1
    ;;
esac
"""


class SaveMeasured(NamedTuple):
    """Whether a command saved after a signal: how long after it, or what is lost, in seconds."""

    saved: bool
    save_s: float | None
    lost_s: float | None


def measured(folder: str, started_s: float, signalled_s: float, ended_s: float) -> SaveMeasured:
    """Return whether a complete checkpoint came between a signal and the end of a command.

    Parameters
    ----------
    folder
        The folder of the job's checkpoints.
    started_s, signalled_s, ended_s
        When the command began, got the signal and ended, in seconds since 1970.
    """
    newest_s = max((one.written for one in complete_checkpoints(folder)), default=0.0)
    if newest_s >= signalled_s - _CLOCK_S:
        return SaveMeasured(True, max(0.0, newest_s - signalled_s), None)
    return SaveMeasured(False, None, max(0.0, ended_s - max(newest_s, started_s)))


def again(command: Sequence[str], template: str, folder: str) -> tuple[tuple[str, ...], str]:
    """Return a command as it is started again, and the checkpoint that it goes on from.

    The words of the template are appended if the folder has a complete checkpoint; a line for the
    shell gets them at its end.
    """
    checkpoint = latest(complete_checkpoints(folder)) if template else None
    if checkpoint is None:
        return tuple(command), ""
    words = [word.replace("{latest}", checkpoint) for word in shlex.split(template)]
    if len(command) == 3 and tuple(command[:2]) == ("sh", "-c"):
        return ("sh", "-c", f"{command[2]} {shlex.join(words)}"), checkpoint
    return (*command, *words), checkpoint


def with_libraries(place: Place, attempt: str) -> Place:
    """Return a place whose libraries compile once for a job, and find a free port of their own."""
    caches = f"{place.environment['WARREN_CHECKPOINT_DIR']}/.cache"
    given = {
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "TRITON_CACHE_DIR": f"{caches}/triton",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port(attempt)),
    }
    return msgspec.structs.replace(place, environment={**given, **place.environment})


def _free_port(attempt: str) -> int:
    """Return a port that is free now, most often the same for an attempt."""
    first = zlib.crc32(attempt.encode())
    for step in range(100):
        port = _PORTS[(first + step) % len(_PORTS)]
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("", port))
            return port
    return _PORTS[0]


def _content(path: str) -> str:
    with contextlib.suppress(OSError), open(path) as file:
        return file.read()
    return ""


def with_slurm(place: Place, home: str, folder: AttemptFolder) -> Place:
    """Return a place in which ``scontrol requeue`` marks the attempt.

    Raises CannotStart if the program or the mark cannot be written.
    """
    programs = f"{home}/slurm"
    try:
        if _content(f"{programs}/scontrol") != _SCONTROL:
            os.makedirs(programs, mode=0o755, exist_ok=True)
            part = f"{programs}/{folder.name}.part"
            with open(part, "w") as file:
                file.write(_SCONTROL)
            os.chmod(part, 0o755)  # noqa: S103 - accounts of jobs run it
            os.rename(part, f"{programs}/scontrol")
        # Made here, so that the account of the job can write it in a folder that is not its own.
        mark = os.open(folder.file("requeue"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if place.account is not None:
            os.fchown(mark, place.account.uid, place.account.gid)
        os.close(mark)
    except OSError as error:
        raise CannotStart(f"scontrol cannot be made: {error.strerror or error}") from None
    path = f"{programs}:{place.environment['PATH']}"
    return msgspec.structs.replace(place, environment={**place.environment, "PATH": path})
