"""A shell in the allocation of a job that runs on this machine: the client of ``warren attach``."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from warren.model.errors import WarrenError
from warren.serve.agent.shells import ShellEnd, ShellRequest

_PIECE_BYTES: Final = 1 << 16
_BEGIN_S: Final = 0.5
"""Longest wait for a job that has just begun, in seconds."""
_AGAIN_S: Final = 0.02
"""Time between two tries to connect, in seconds."""
_DRAIN_S: Final = 0.05
"""Silence after which all that an ended shell printed has been shown, in seconds."""


class CannotAttach(WarrenError):
    """There is no shell; the text is one line."""


def attach(folder: Path, command: Sequence[str] = ()) -> int:
    """Run a shell beside the command of a job, and return its exit code.

    Parameters
    ----------
    folder
        Folder of the job's running attempt: ``HOME/agent/attempts/12.1``.
    command
        A command to run instead of a shell.

    Raises
    ------
    CannotAttach
        If the job does not run on this machine, belongs to another account, or has just ended.
    """
    end = _connected(folder)
    with end:
        if os.isatty(0) and os.isatty(1):
            return _with_terminal(end, command)
        _ask(end, ShellRequest(False, os.environ.get("TERM", ""), tuple(command)), (0, 1, 2))
        return _code(end)


def _connected(folder: Path) -> socket.socket:
    deadline = time.monotonic() + _BEGIN_S
    while True:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                end.connect(f"/proc/self/fd/{opened}/attach")
                return end
            finally:
                os.close(opened)
        except OSError as error:
            end.close()
            if isinstance(error, PermissionError):
                raise CannotAttach("this job belongs to another account") from None
            # A job that has just begun takes shells in a moment.
            if not (folder / "record").exists() or time.monotonic() > deadline:
                raise CannotAttach(
                    "this job does not run on this machine; "
                    "attach works only where it does, and while it does"
                ) from None
        time.sleep(_AGAIN_S)


def _ask(end: socket.socket, request: ShellRequest, files: Sequence[int]) -> None:
    socket.send_fds(end, [msgspec.json.encode(request)], list(files))


def _code(end: socket.socket) -> int:
    """Wait for the end of the shell, and return its exit code."""
    with contextlib.suppress(ConnectionResetError):
        data = end.recv(_PIECE_BYTES)
        if data:
            shell = msgspec.json.decode(data, type=ShellEnd)
            if shell.error:
                raise CannotAttach(shell.error)
            return shell.code
    raise CannotAttach("the job has ended, and the shell with it")


def _with_terminal(end: socket.socket, command: Sequence[str]) -> int:
    """Run the shell on a terminal of its own, which shows what this one does."""
    master, slave = pty.openpty()
    _copy_size(master)
    _ask(end, ShellRequest(True, os.environ.get("TERM", ""), tuple(command)), (slave,) * 3)
    os.close(slave)
    before = signal.signal(signal.SIGWINCH, lambda *_: _copy_size(master))
    try:
        with _raw_terminal():
            _pass_on(master, end)
        return _code(end)
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(master)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Hand on each key as it is pressed, until the block ends."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSANOW)  # what was typed before is handed on, too
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def _copy_size(master: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)


def _pass_on(master: int, end: socket.socket) -> None:
    """Pass on what is typed and printed, until the shell has ended and all is shown."""
    watched = [0, master, end.fileno()]
    while master in watched:
        over = end.fileno() not in watched
        ready = select.select(watched, [], [], _DRAIN_S if over else None)[0]
        if over and not ready:
            return
        if end.fileno() in ready:
            watched.remove(end.fileno())
            if 0 in watched:
                watched.remove(0)
        if master in ready and not _copy(master, 1):
            watched.remove(master)
        if 0 in ready and 0 in watched and not _copy(0, master):
            watched.remove(0)


def _copy(source: int, target: int) -> bool:
    """Copy a piece; tell whether there may be more."""
    try:
        data = os.read(source, _PIECE_BYTES)
    except OSError:  # EIO: the other end of the terminal is closed
        return False
    if target == 1:
        sys.stdout.flush()
    while data:
        data = data[os.write(target, data) :]
    return True
