"""The guard of a run: it cleans up once the run's controller and zygote are both gone.

It is started as ``python cleanup_guard.py FD MARK FOLDER CGROUPS...`` and imports only the standard
library, to stay small. Controller and zygote hold the other end of FD. When the last of them is
gone, the guard kills every process that has MARK in its environment and removes FOLDER. It also
removes cgroups whose path is one of CGROUPS and a process id. After an ordinary end nothing is left
to do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

_ROUNDS = 400
"""Tries, 5 ms apart, to see the killed processes gone: two seconds."""


def main() -> None:
    """Wait for the end of the pipe, then clean up."""
    fd = int(sys.argv[1])
    mark = sys.argv[2].encode()
    folder = sys.argv[3]
    # A signal that ends the run must not end its guard.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    # No process writes: the read returns when no process holds the other end any more.
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
    # Most runs have removed it, and this module takes longer to load than all others here.
    if os.path.lexists(folder):
        import shutil

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
    """Remove a run's cgroups and kill their processes; ``cgroups``: their path without .PID."""
    home, name = os.path.split(cgroups)
    if not name:
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(home):
            if entry.startswith(f"{name}."):
                end_cgroup(os.path.join(home, entry))


def end_cgroup(cgroup: str) -> None:
    """Kill all processes of a cgroup and remove it; it is busy until the last one has gone."""
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
