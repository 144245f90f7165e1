"""The last one out: ends what a run has left when its controller and its zygote are both gone.

Started as ``python guard.py FD MARK FOLDER`` and nothing else, so that it is small. Controller and
zygote hold the other end of FD; when the last of them is gone, every process that has MARK in its
environment is killed and FOLDER removed. After an ordinary end there is nothing left to do.
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


if __name__ == "__main__":
    main()
