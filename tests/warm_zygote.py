"""Zygotes forked from one that is warm: loading PyTorch takes longer than most runs of a test.

Run as ``python warm_zygote.py FD PARENT``, it loads what a zygote loads, and then forks one for
each message that comes from socket FD. The fork gets what a new process would: its arguments, its
environment (also the one that the kernel shows), only its own open files, a session of its own,
and the tests' process as parent. Only that it loads is not tested so: by runs that are started by
the command, in a process of their own, and by tests that ask for ``cold_zygotes``, it is.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from warren.live.process.linux import die_with_parent
from warren.live.process.process_pool import _start_zygote
from warren.live.training.numerics import clean_environment

LIBRARIES = ("numpy", "safetensors.torch", "torch", "sklearn.datasets", "scipy.sparse")
start_cold = _start_zygote
ROOM = "WARREN_ROOM_FOR_ENVIRONMENTS"
MOST_BYTES, MOST_FDS, HIGH_FD = 1 << 16, 64, 500
LIBC = ctypes.CDLL(None)
LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
MADV_COLLAPSE, HUGE_BYTES = 25, 1 << 21  # <linux/mman.h>


class Forked:
    """A child that this process has adopted; what is asked of it is asked as of a ``Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code, once it has ended."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("zygote", timeout)
            time.sleep(0.001)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it has not been waited for."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class WarmZygote:
    """The warm one; ``start`` stands in for ``process_pool._start_zygote``."""

    def __init__(self, folder: Path) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        more = {ROOM: "." * MOST_BYTES, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        self._socket = mine
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            env=clean_environment(os.environ) | more,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes],
        fds: Sequence[int],
    ) -> Forked:
        """Fork a zygote."""
        wanted = {
            "arguments": arguments,
            "environment": dict(environment),
            "folder": os.getcwd(),
            "fds": fds,
            "parent": os.getpid(),
        }
        socket.send_fds(self._socket, [json.dumps(wanted).encode()], [output.fileno(), *fds])
        return Forked(int(self._socket.recv(99)))

    def close(self) -> None:
        """End it; those that it forked stay."""
        self._socket.close()
        self._process.wait(10)


def main() -> None:
    """Fork until the other end of the socket closes."""
    from warren.live.process import zygote

    orders = socket.socket(fileno=int(sys.argv[1]))
    die_with_parent(int(sys.argv[2]))
    zygote._warm_up(LIBRARIES)
    if len(zygote._threads()) != 1:  # what is forked from it would hide that
        sys.exit(f"threads after warming up: {zygote._threads()}")
    use_huge_pages()
    while True:
        data, fds, *_ = socket.recv_fds(orders, MOST_BYTES, MOST_FDS)
        if not data:
            return
        wanted = json.loads(data)
        read, write = os.pipe()
        between = os.fork()
        if not between:  # it leaves at once, so that the tests' process adopts what it forks
            pid = os.fork()
            if not pid:
                become_zygote(wanted, fds)
            os.write(write, str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        pid_text = os.read(read, 99)
        for fd in (*fds, read, write):
            os.close(fd)
        orders.send(pid_text)


def use_huge_pages() -> None:
    """Put the memory of this process into pages of 2 MB, where the kernel can.

    It takes half a second of a core. A fork then copies a table of pages that is so much shorter,
    and takes, with the end of what it made, 8 ms of a core and not 18.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, _, _, inode, *_ = line.split()
        start, end = (int(one, 16) for one in span.split("-"))
        if rights == "rw-p" and inode == "0" and end - start >= HUGE_BYTES:
            LIBC.madvise(start, end - start, MADV_COLLAPSE)  # where it fails, all stays as it is


def become_zygote(wanted: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    """Be what ``python -m warren.live.process.zygote`` would be."""
    from warren.live.process import zygote

    code = 1
    try:
        os.setsid()
        os.chdir(wanted["folder"])
        take_files(fds, wanted["fds"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        show_environment(wanted["environment"])
        while os.getppid() != wanted["parent"]:
            time.sleep(0.0005)
        sys.argv = ["warren.live.process.zygote", *wanted["arguments"]]
        zygote.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def take_files(fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Let the first be both outputs and the others have these numbers; closes all else."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, HIGH_FD) for fd in fds]
    os.closerange(3, HIGH_FD)
    for fd, number in zip((high[0], *high), (1, 2, *numbers), strict=True):
        os.dup2(fd, number)
    os.closerange(HIGH_FD, HIGH_FD + MOST_FDS)


def show_environment(environment: Mapping[str, str]) -> None:
    """Write it where the kernel reads what a process was started with: a run is found by that."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    text = b"".join(f"{key}={value}\0".encode() for key, value in environment.items())
    assert len(text) < end - start
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


if __name__ == "__main__":
    main()
