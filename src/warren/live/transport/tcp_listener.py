"""Connections between hosts: TCP at a host's own address, for those who know the run's secret.

Where a server listens it says in a file of the run's private folder: the path of its Unix socket
and ``.tcp``. Who connects sends the token first. Until all of it has come and is right, nothing
else is read from a connection; a wrong one is closed.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import select
import socket
from typing import Final

from warren.live.transport.host_identity import TOKEN_BYTES, HostIdentity

FAR: Final = "tcp:"
"""Before the path of a Unix socket: its hub is on another host."""
_SUFFIX: Final = ".tcp"
_UNPROVEN_MAX: Final = 256
"""Connections that have not shown the token; of more, the oldest are closed."""


def dial(path: str) -> socket.socket | None:
    """Begin to connect to the hub that would be at ``path`` here; None: it does not listen yet."""
    try:
        with open(f"{path}{_SUFFIX}") as file:
            address, port = file.read().rsplit(":", 1)
    except FileNotFoundError:
        return None
    end = _socket()
    if end.connect_ex((address, int(port))) in (0, errno.EINPROGRESS):
        return end
    end.close()
    return None


def _socket() -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


class TcpListener:
    """The listening socket of a hub for other hosts, and who stands before it.

    Raises
    ------
    ValueError
        If the seat has no token: anybody could come in.
    OSError
        If this host does not have the seat's address.
    """

    def __init__(self, path: str, identity: HostIdentity, epoll: select.epoll) -> None:
        if len(identity.token) != TOKEN_BYTES:
            raise ValueError(f"a token has {TOKEN_BYTES} bytes, not {len(identity.token)}")
        self._token, self._epoll = identity.token, epoll
        self._unproven: dict[int, tuple[socket.socket, bytearray]] = {}
        self._listener = _socket()
        self._listener.bind((identity.address, 0))
        self._listener.listen(_UNPROVEN_MAX)
        epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._publish(path)

    def _publish(self, path: str) -> None:
        """Written beside and renamed: whoever finds the file can read all of it."""
        address, port = self._listener.getsockname()
        with open(f"{path}{_SUFFIX}.part", "w") as file:
            file.write(f"{address}:{port}")
        os.replace(f"{path}{_SUFFIX}.part", f"{path}{_SUFFIX}")

    def hear(self, fd: int) -> socket.socket | None:
        """Something can be read at ``fd``; gives the connection that has shown the token now.

        It is not watched any more. Of others' numbers nothing is known here.
        """
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._unproven:
            return self._read_token(fd)
        return None

    def close(self) -> None:
        """Nobody comes in any more."""
        for fd in list(self._unproven):
            self._forget(fd).close()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                end, _ = self._listener.accept()
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._unproven[end.fileno()] = end, bytearray()
                self._epoll.register(end.fileno(), select.EPOLLIN)
                if len(self._unproven) > _UNPROVEN_MAX:
                    self._forget(next(iter(self._unproven))).close()

    def _read_token(self, fd: int) -> socket.socket | None:
        """Read on, and never beyond the token: what follows is for those who know it."""
        end, shown = self._unproven[fd]
        try:
            data = end.recv(TOKEN_BYTES - len(shown))
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        shown += data
        if data and len(shown) < TOKEN_BYTES:
            return None
        self._forget(fd)
        if hmac.compare_digest(shown, self._token):
            return end
        end.close()
        return None

    def _forget(self, fd: int) -> socket.socket:
        end, _ = self._unproven.pop(fd)
        self._epoll.unregister(fd)
        return end
