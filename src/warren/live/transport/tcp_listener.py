"""Connections between hosts: TCP at a host's own address, for those who know the run's secret.

A process that listens writes its address and port to a file of the run's private folder, whose name
is the path of its Unix socket and ``.tcp``. A process that connects sends the token first. Until
all of it has come and is right, nothing else is read from a connection; one with a wrong token is
closed.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import select
import socket
from typing import Final

from warren.live import flow_marks
from warren.live.transport.host_identity import TOKEN_BYTES, HostIdentity

FAR: Final = "tcp:"
"""Prefix of the path of a Unix socket whose hub is on another host."""
_SUFFIX: Final = ".tcp"
_UNPROVEN_MAX: Final = 256
"""So many connections at most have not shown the token; of more, the oldest are closed."""


def dial(path: str, flow_class: int = 0) -> socket.socket | None:
    """Begin to connect to a hub on another host.

    Parameters
    ----------
    path : str
        The path of the hub's Unix socket, without ``FAR``.
    flow_class : int
        The class of what will be sent.

    Returns
    -------
    socket.socket or None
        A connection that may still be in the making; None if the hub does not listen yet.
    """
    try:
        with open(f"{path}{_SUFFIX}") as file:
            address, port = file.read().rsplit(":", 1)
    except FileNotFoundError:
        return None
    end = _socket()
    if flow_class:
        flow_marks.mark(end, flow_class)
    if end.connect_ex((address, int(port))) in (0, errno.EINPROGRESS):
        return end
    end.close()
    return None


def _socket() -> socket.socket:
    """Make a TCP socket that never waits."""
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    end.setblocking(False)
    # Small messages are sent at once: others wait for them.
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


class TcpListener:
    """The listening socket of a hub for other hosts, and its connections without the token so far.

    Parameters
    ----------
    path : str
        The path of the hub's Unix socket, beside which the address is published.
    identity : HostIdentity
        The address to listen at, and the token that is asked for.
    epoll : select.epoll
        What waits for the listening socket and these connections.

    Raises
    ------
    ValueError
        If the identity has no token: anybody could connect.
    OSError
        If this host does not have the identity's address.
    """

    def __init__(self, path: str, identity: HostIdentity, epoll: select.epoll) -> None:
        if len(identity.token) != TOKEN_BYTES:
            raise ValueError(f"a token has {TOKEN_BYTES} bytes, not {len(identity.token)}")
        self._token, self._epoll = identity.token, epoll
        # By file descriptor, the oldest first: a connection, and what it has shown of the token.
        self._unproven: dict[int, tuple[socket.socket, bytearray]] = {}
        self._listener = _socket()
        # Port 0: any that is free.
        self._listener.bind((identity.address, 0))
        self._listener.listen(_UNPROVEN_MAX)
        epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._publish(path)

    def _publish(self, path: str) -> None:
        """Write address and port to the file beside the Unix socket.

        They are written to another file that is then renamed: who finds it can read all of it.
        """
        address, port = self._listener.getsockname()
        with open(f"{path}{_SUFFIX}.part", "w") as file:
            file.write(f"{address}:{port}")
        os.replace(f"{path}{_SUFFIX}.part", f"{path}{_SUFFIX}")

    def hear(self, fd: int) -> socket.socket | None:
        """Read what has come at ``fd``; return the connection if it has shown the token now.

        The epoll does not watch that connection any more. A file descriptor that is not of this
        listener is left alone.
        """
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._unproven:
            return self._read_token(fd)
        return None

    def close(self) -> None:
        """Close the listening socket and all connections that have not shown the token."""
        for fd in list(self._unproven):
            self._forget(fd).close()
        self._listener.close()

    def _accept(self) -> None:
        """Accept all connections that have come; the oldest give way when there are too many."""
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
        """Read on, but never beyond the token: what follows is read only from those who know it.

        Returns the connection when the token is whole and right.
        """
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
        # Compared in constant time: how long it takes must not tell how much was right.
        if hmac.compare_digest(shown, self._token):
            return end
        end.close()
        return None

    def _forget(self, fd: int) -> socket.socket:
        """Stop watching a connection, and return it."""
        end, _ = self._unproven.pop(fd)
        self._epoll.unregister(fd)
        return end
