"""Connections between hosts: TCP at a host's own address, for peers that know the run's secret.

A process that listens writes its address and port to a file of the run's private folder, whose name
is the path of its Unix socket and ``.tcp``. Nothing that a peer sends is decoded until it has shown
by TLS that it knows the secret; a peer that does not is closed and counted.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections import Counter
from itertools import islice
from typing import Final

from warren.live import flow_marks
from warren.live.transport.host_identity import HostIdentity
from warren.live.transport.tls import SECRET_BYTES, TlsSocket

FAR: Final = "tcp:"
"""Prefix of the path of a Unix socket whose hub is on another host."""
SUFFIX: Final = ".tcp"
"""End of the name of the file that says where a hub listens."""
_UNPROVEN_MAX: Final = 256
"""Most connections that have not shown the secret. If there are more, one of the oldest is closed:
a silent or slow one, or the oldest of an address that has more than the address of the new one.
Otherwise the new one is closed, and tries again. Many may begin at once, and a begun handshake must
be able to end."""
_PATIENCE_NS: Final = 2_000_000_000
"""Longest handshake in ns if other connections wait."""
_TEN_MINUTES: Final = {
    socket.TCP_KEEPIDLE: 300,
    socket.TCP_KEEPINTVL: 60,
    socket.TCP_KEEPCNT: 5,
    socket.TCP_USER_TIMEOUT: 600_000,
}
"""Limits after which a connection is broken: ten minutes without an answer of the peer."""
_LOOKED_AT: Final = 8
"""Number of the oldest connections that are checked for a first message."""

_ACCEPTED_AT_ONCE: Final = 16
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_STEPS: Final = 8
"""Most steps of handshakes before proven connections are looked at again."""


def dial(path: str, flow_class: int = 0) -> socket.socket | None:
    """Begin to connect to a hub on another host.

    Parameters
    ----------
    path : str
        The path of the hub's Unix socket, without ``FAR``.
    flow_class : int
        The class of the messages that will be sent.

    Returns
    -------
    socket.socket or None
        A connection that may still be in the making; None if the hub does not listen yet.
    """
    try:
        with open(f"{path}{SUFFIX}") as file:
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
    """Make a TCP socket that never waits; accepted sockets inherit that from a listening one."""
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A host that goes without a word leaves connections on which nothing is sent: they end, too.
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TEN_MINUTES.items():
        end.setsockopt(socket.IPPROTO_TCP, option, value)
    end.setblocking(False)
    # Small messages are sent at once: others wait for them.
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


class TcpListener:
    """The listening socket of a hub for other hosts, and its connections that are not proven yet.

    Parameters
    ----------
    path : str
        The path of the hub's Unix socket, beside which the address is published.
    identity : HostIdentity
        The address to listen at, and the secret that peers must show.
    epoll : select.epoll
        The epoll that watches the listening socket and these connections.

    Attributes
    ----------
    refused
        Number of connections that ended without showing the secret, except those that found no
        room.

    Raises
    ------
    ValueError
        If the identity has no secret: anybody could connect.
    OSError
        If this host does not have the identity's address.
    """

    def __init__(self, path: str, identity: HostIdentity, epoll: select.epoll) -> None:
        if len(identity.secret) < SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes, not {len(identity.secret)}")
        self._secret, self._epoll = identity.secret, epoll
        # By file descriptor, the oldest first.
        self._unproven: dict[int, TlsSocket] = {}
        self._since_ns: dict[int, int] = {}
        self._from: dict[int, str] = {}
        self.refused = 0
        self._steps = _STEPS
        self._listener = _socket()
        # Port 0: any that is free.
        self._listener.bind((identity.address, 0))
        self._listener.listen(_UNPROVEN_MAX)
        epoll.register(self._listener.fileno(), select.EPOLLIN)
        self.address, self.port = self._listener.getsockname()
        self._publish(path)

    def _publish(self, path: str) -> None:
        """Write address and port to the file beside the Unix socket.

        They are written to another file that is then renamed: a reader always finds all of it.
        """
        with open(f"{path}{SUFFIX}.part", "w") as file:
            file.write(f"{self.address}:{self.port}")
        os.replace(f"{path}{SUFFIX}.part", f"{path}{SUFFIX}")

    def begin(self) -> None:
        """Allow handshakes to go on once more; connections that had no turn still get theirs."""
        self._steps = _STEPS

    def hear(self, fd: int) -> TlsSocket | None:
        """Go on with the handshake at ``fd``; return the connection if it is proven now.

        The epoll does not watch that connection any more. A file descriptor that is not of this
        listener is left alone.
        """
        if fd == self._listener.fileno():
            self._accept()
            return None
        if (end := self._unproven.get(fd)) is None or not self._steps:
            return None
        self._steps -= 1
        try:
            if not end.handshake():
                return None
        except OSError:
            self._refuse(fd)
            return None
        return self._forget(fd)

    def close(self) -> None:
        """Close the listening socket and all connections that are not proven."""
        for fd in list(self._unproven):
            self._forget(fd).close()
        self._listener.close()

    def _accept(self) -> None:
        """Accept all connections that have come; the oldest give way when there are too many."""
        try:
            for _ in range(_ACCEPTED_AT_ONCE):
                end, (address, _) = self._listener.accept()
                if len(self._unproven) >= _UNPROVEN_MAX and not self._make_room(address):
                    end.close()
                    continue
                self._from[end.fileno()] = address
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._unproven[end.fileno()] = TlsSocket(end, self._secret, True)
                self._since_ns[end.fileno()] = time.monotonic_ns()
                self._epoll.register(end.fileno(), select.EPOLLIN)
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            # The resource is exhausted; connections that wait here give some of it back.
            if self._unproven and not self._make_room(""):
                self._refuse(next(iter(self._unproven)))

    def _make_room(self, address: str) -> bool:
        """Refuse a peer that is silent, too slow, or has more connections than the new one."""
        for fd, end in islice(self._unproven.items(), _LOOKED_AT):
            if not end.met and not _has_said(end.socket):
                self._refuse(fd)
                return True
        held = Counter(self._from.values())
        most, count = held.most_common(1)[0]
        if count > held[address] + 1:
            self._refuse(next(fd for fd in self._unproven if self._from[fd] == most))
            return True
        oldest = next(iter(self._unproven))
        if time.monotonic_ns() - self._since_ns[oldest] < _PATIENCE_NS:
            return False
        self._refuse(oldest)
        return True

    def _refuse(self, fd: int) -> None:
        self._forget(fd).close()
        self.refused += 1

    def _forget(self, fd: int) -> TlsSocket:
        """Stop watching a connection, and return it."""
        self._epoll.unregister(fd)
        del self._since_ns[fd], self._from[fd]
        return self._unproven.pop(fd)


def _has_said(end: socket.socket) -> bool:
    """Tell whether something has come over a connection, or its end, that was not read yet."""
    try:
        end.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
