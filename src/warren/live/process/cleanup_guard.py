"""The guard of a run: ends what is left when its controller and its zygote are both gone.

It is started as ``python cleanup_guard.py FD MARK FOLDER CGROUPS...`` and imports the standard
library alone, so that it is small. Controller and zygote hold the other end of FD; when the last of
them is gone, every process that has MARK in its environment is killed, and FOLDER removed; so are
cgroups whose path is one of CGROUPS and a process id. After an ordinary end there is nothing left
to do.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

_ROUNDS = 400
"""Tries, 5 ms apart, until what was killed is gone: two seconds."""


def main() -> None:
    """Wait for the end of the pipe, then clean up."""
    fd = int(sys.argv[1])
    mark = sys.argv[2].encode()
    folder = sys.argv[3]
    # What ends the run must not end its guard.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    # Nobody writes: the read returns when no process holds the other end any more.
    while os.read(fd, 1):
        pass
    # Again and again, since a process may fork while others are killed.
    for _ in range(_ROUNDS):
        found = marked(mark)
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break
        time.sleep(0.005)
    for cgroups in sys.argv[4:]:
        end_cgroups(cgroups)
    shutil.rmtree(folder, ignore_errors=True)


def marked(mark: bytes) -> list[int]:
    """Return the processes whose environment, as they were started, has the entry ``mark``."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_cgroups(cgroups: str) -> None:
    """Remove a run's cgroups, and kill what is in them; ``cgroups``: their path but for .PID."""
    home, name = os.path.split(cgroups)
    if not name:
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(home):
            if entry.startswith(f"{name}."):
                end_cgroup(os.path.join(home, entry))


def end_cgroup(cgroup: str) -> None:
    """Kill what is in a cgroup and remove it; it is busy until its last process has gone."""
    for _ in range(_ROUNDS):
        with contextlib.suppress(OSError), open(f"{cgroup}/cgroup.procs") as file:
            for line in file:
                with contextlib.suppress(OSError):
                    os.kill(int(line), signal.SIGKILL)
        try:
            os.rmdir(cgroup)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)


if __name__ == "__main__":
    main()
