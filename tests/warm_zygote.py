"""Zygotes forked from one that is warm: loading PyTorch takes longer than most runs of a test.

Run as ``python warm_zygote.py ZYGOTES LARGE PROGRAMS PARENT``, it loads what a zygote loads, and
then forks one for each message that comes from socket ZYGOTES. The fork gets what a new process
would: its arguments, its environment (also the one that the kernel shows), only its own open files,
a session of its own, and the tests' process as parent. Only that it loads is not tested so: by
tests that ask for ``cold_zygotes``, and by ``cold`` commands in processes of their own, it is.
Messages from LARGE are for zygotes that load more than most do, those from PROGRAMS for
``warm_program``.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, ClassVar, NoReturn

from processes import PATIENCE_S

from warren.live.process.linux import die_with_parent
from warren.live.process.process_pool import _start_zygote
from warren.live.training.numerics import clean_environment, numerics_class, pin

# Few apps mention the second ones, and a fork of a process without them takes half as long.
LIBRARIES = ("numpy", "safetensors.torch", "torch")
MORE_LIBRARIES = ("sklearn.datasets", "scipy.sparse")
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

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Its exit code, once it has ended."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("zygote", timeout)
            time.sleep(0.001)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, signum: signal.Signals) -> None:
        """Send it a signal, if it has not been waited for."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """Kill it, if it has not been waited for."""
        self.send_signal(signal.SIGKILL)


class WarmZygote:
    """The warm one; ``start`` stands in for ``process_pool._start_zygote``.

    ``warm_program`` starts controllers through it, too.
    """

    here: ClassVar[WarmZygote | None] = None
    """That of this process."""

    def __init__(self, folder: Path) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in "zlp"]
        self._zygotes, self._large, self._programs = (mine for mine, _ in pairs)
        theirs = [end.fileno() for _, end in pairs]
        more = {ROOM: "." * MOST_BYTES, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        self._process = subprocess.Popen(
            [sys.executable, __file__, *map(str, theirs), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            env=clean_environment(os.environ) | more,
            pass_fds=theirs,
            start_new_session=True,
        )
        for _, end in pairs:
            end.close()
        # All processes are there before a test begins, which would be told to have left them.
        assert self._zygotes.recv(99) == b"ready"
        WarmZygote.here = self

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: IO[bytes],
        fds: Sequence[int],
    ) -> Forked:
        """Fork a zygote."""
        wanted = {"arguments": arguments, "environment": dict(environment), "fds": fds}
        large = not {*MORE_LIBRARIES}.isdisjoint(arguments)
        return _ask(self._large if large else self._zygotes, wanted, [output.fileno(), *fds])

    def start_program(self, wanted: dict[str, Any], fds: Sequence[int]) -> Forked:
        """Fork what ``warm_program.become`` describes."""
        return _ask(self._programs, wanted, fds)

    def close(self) -> None:
        """End it; those that it forked stay."""
        WarmZygote.here = None
        for orders in (self._zygotes, self._large, self._programs):
            orders.close()
        self._process.wait(PATIENCE_S)


def _ask(orders: socket.socket, wanted: dict[str, Any], fds: Sequence[int]) -> Forked:
    """Let the other side fork."""
    wanted |= {"folder": os.getcwd(), "parent": os.getpid()}
    socket.send_fds(orders, [json.dumps(wanted).encode()], fds)
    return Forked(int(orders.recv(99)))


def main() -> None:
    """Fork until the other ends of the sockets close: each kind from a process of its own."""
    sockets = [socket.socket(fileno=int(one)) for one in sys.argv[1:4]]
    die_with_parent(int(sys.argv[4]))
    load(LIBRARIES)
    here, at = os.getpid(), 0
    for other in (1, 2):
        if not os.fork():
            die_with_parent(here)
            at = other
            break
    orders = sockets.pop(at)
    for one in sockets:
        one.close()
    if at == 0:
        orders.send(b"ready")
        serve(orders, become_zygote)
        os.wait()
        os.wait()
    elif at == 1:
        serve(orders, become_zygote, lambda wanted: load_more())
    else:
        import warm_program

        serve(orders, warm_program.become, warm_program.load)


def load(libraries: Sequence[str]) -> None:
    """Load what a zygote loads."""
    from warren.live.process import zygote

    zygote._warm_up(libraries)
    if len(zygote.thread_names()) != 1:  # what is forked from it would hide that
        sys.exit(f"threads after warming up: {zygote.thread_names()}")
    use_huge_pages()


@cache
def load_more() -> None:
    """Load what few zygotes load, before the first of them is forked."""
    load(MORE_LIBRARIES)


def serve(
    orders: socket.socket,
    become: Callable[[dict[str, Any], Sequence[int]], NoReturn],
    load: Callable[[dict[str, Any]], object] = lambda wanted: None,
) -> None:
    """Fork one for each message, after ``load``."""
    while True:
        data, fds, *_ = socket.recv_fds(orders, MOST_BYTES, MOST_FDS)
        if not data:
            return
        wanted = json.loads(data)
        load(wanted)
        read, write = os.pipe()
        between = os.fork()
        if not between:  # it leaves at once, so that the tests' process adopts what it forks
            pid = os.fork()
            if not pid:
                become(wanted, fds)
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
        be_alone(wanted, fds, wanted["fds"])
        if sys.modules.keys() >= {*wanted["arguments"][5:]}:
            zygote._warm_up = stay_warm
        sys.argv = ["warren.live.process.zygote", *wanted["arguments"]]
        zygote.main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def stay_warm(_: Sequence[str]) -> str:
    """Stand in for ``zygote._warm_up`` in the fork of a process that has warmed up."""
    pin()
    gc.freeze()
    return numerics_class()


def be_alone(wanted: dict[str, Any], fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Have a session, folder, files and environment of its own, and the tests' process above."""
    os.setsid()
    os.chdir(wanted["folder"])
    take_files(fds, numbers)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    show_environment(wanted["environment"])
    while os.getppid() != wanted["parent"]:
        # Whoever asked may be dead by now, and what ends the processes of its run may have looked
        # for them before this one showed whose it is. This fails once that is so.
        os.kill(wanted["parent"], 0)
        time.sleep(0.0005)


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
