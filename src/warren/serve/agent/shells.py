"""Shells in the allocation of a running job: the runner's side of ``warren attach``.

The client hands over open files for input, output and errors, the end of a terminal or not. So
nothing that is typed or printed goes through the runner. A shell has what the job's command has:
folder, environment, account, devices, cgroup; it dies with the job.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
from typing import Final

import msgspec

from warren.serve.agent.command import CannotStart, Place, spawn
from warren.serve.agent.folders import AttemptFolder

_MOST: Final = 16
"""Most shells of a job at once."""
_REQUEST_BYTES: Final = 1 << 16


class ShellRequest(msgspec.Struct, frozen=True):
    """What a client sends with its three open files; without a command a shell is started."""

    terminal: bool
    term: str = ""
    command: tuple[str, ...] = ()


class ShellEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client gets: the exit code, or one line that says why there is no shell."""

    code: int = 0
    error: str = ""


class Shells:
    """The shells of one attempt.

    Parameters
    ----------
    folder
        The attempt's folder, in which the socket is.
    place
        Where the command of the attempt runs.
    poll
        What the runner waits with; it hands each file that is ready to ``ready``.
    """

    def __init__(self, folder: AttemptFolder, place: Place, poll: select.poll) -> None:
        self._place, self._poll = place, poll
        self._clients: dict[int, socket.socket] = {}
        self._shells: dict[int, int] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        # The path of a socket has 107 bytes at most; by the open folder it always fits.
        opened = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            address = f"/proc/self/fd/{opened}/attach"
            self._listener.bind(address)
            os.chmod(address, 0o600)
            if place.account is not None:
                os.chown(address, place.account.uid, place.account.gid)
        finally:
            os.close(opened)
        self._listener.listen()
        poll.register(self._listener.fileno(), select.POLLIN)

    def ready(self, fd: int) -> None:
        """Take a client, or what it says; nothing if the file is none of these."""
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._clients:
            self._hear(fd)

    def ended(self, pid: int, status: int) -> None:
        """Let a client know that its shell has ended; nothing if the process is no shell."""
        for fd, shell in list(self._shells.items()):
            if shell == pid:
                code = os.waitstatus_to_exitcode(status)
                self._answer(fd, ShellEnd(code if code >= 0 else 128 - code))

    def hang_up(self) -> None:
        """Have all shells end, and let their clients know: the job ends."""
        for fd in list(self._clients):
            self._hang_up(fd)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            client.setblocking(False)
            self._clients[client.fileno()] = client
            if not self._may(client):
                self._answer(client.fileno(), ShellEnd(error="this job is another account's"))
            elif len(self._clients) > _MOST:
                error = f"the job has {_MOST} shells already"
                self._answer(client.fileno(), ShellEnd(error=error))
            else:
                self._poll.register(client.fileno(), select.POLLIN)

    def _may(self, client: socket.socket) -> bool:
        """Tell whether a client is of the job's account, of this process's, or root."""
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        uid = struct.unpack("3i", credentials)[1]
        account = self._place.account
        return uid in (0, os.geteuid(), account.uid if account is not None else 0)

    def _hear(self, fd: int) -> None:
        """Start the shell that a client asks for, or end it when the client has gone."""
        files: list[int] = []
        try:
            flags = socket.MSG_CMSG_CLOEXEC
            data, files, _, _ = socket.recv_fds(self._clients[fd], _REQUEST_BYTES, 3, flags)
            if not data or fd in self._shells:
                self._hang_up(fd)
                return
            request = msgspec.json.decode(data, type=ShellRequest)
            if len(files) != 3:
                raise CannotStart("three open files are needed")
            place = msgspec.structs.replace(
                self._place, environment={**self._place.environment, "TERM": request.term}
            )
            command = request.command or (self._shell(),)
            self._shells[fd] = spawn(
                command, place, (files[0], files[1], files[2]), request.terminal
            )
        except BlockingIOError:
            return
        except (OSError, CannotStart, msgspec.MsgspecError) as error:
            self._answer(fd, ShellEnd(error=str(error)))
        finally:
            for one in files:
                os.close(one)

    def _shell(self) -> str:
        account = self._place.account
        if account is not None:
            return account.shell
        return self._place.environment.get("SHELL", "/bin/sh")

    def _hang_up(self, fd: int) -> None:
        """Forget a client, and have its shell end."""
        pid = self._shells.pop(fd, None)
        if pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGHUP)
        self._close(fd)

    def _answer(self, fd: int, end: ShellEnd) -> None:
        self._shells.pop(fd, None)
        with contextlib.suppress(OSError):
            self._clients[fd].send(msgspec.json.encode(end))
        self._close(fd)

    def _close(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._poll.unregister(fd)
        self._clients.pop(fd).close()
