"""A command that is hard to end: it ignores SIGTERM, and has a daemon in a session of its own.

``nasty.py PIDS [PORT_FILE]``: writes the processes to PIDS, and the port that its daemon holds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time


def say(path: str, word: object) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{word}\n".encode())
    os.close(fd)


def main() -> None:
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    say(sys.argv[1], os.getpid())
    if os.fork() == 0:  # a child
        say(sys.argv[1], os.getpid())
        if os.fork() == 0:  # whose child becomes a daemon
            os.setsid()
            if os.fork() == 0:
                say(sys.argv[1], os.getpid())
                end = socket.socket()
                end.bind(("127.0.0.1", 0))
                end.listen()
                say(sys.argv[2], end.getsockname()[1])
                time.sleep(1000)
            os._exit(0)
        os.wait()
        time.sleep(1000)
    time.sleep(1000)


if __name__ == "__main__":
    main()
