"""The last one out: ends what a run has left when its controller and its zygote are both gone.

Started as ``python guard.py FD MARK FOLDER CGROUPS...`` and nothing else, so that it is small.
Controller and zygote hold the other end of FD; when the last of them is gone, every process that
has MARK in its environment is killed, and FOLDER removed; so are cgroups whose path is one of
CGROUPS and a process id. After an ordinary end there is nothing left to do.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

_ROUNDS = 400


def main() -> None:
    """Wait for the end of the pipe, then clean up."""
    fd, mark, folder = int(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    while os.read(fd, 1):
        pass
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
    """Processes whose environment, as they were started, has the entry ``mark``."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_cgroups(cgroups: str) -> None:
    """Remove all of a run, with what is still in there; ``cgroups`` is their path but for .PID."""
    home, name = os.path.split(cgroups)
    if not name:
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(home):
            if entry.startswith(f"{name}."):
                end_cgroup(os.path.join(home, entry))


def end_cgroup(cgroup: str) -> None:
    """Kill what is in one and remove it; it is busy until the last process has let go."""
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
