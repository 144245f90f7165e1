"""The sockets of a run: Unix sockets in a private folder, typed headers, raw buffers, no pickle.

Between hosts tensors go by TLS (``tcp_listener``), and all else too where they have agents; on a
testbed without, all else reaches any host by its path. ``Hub`` listens and talks to many peers,
``Link`` connects to one hub, ``Poller`` waits for any of them. Each is for one thread, and nothing
but ``Poller.poll`` waits.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from warren.live.transport import tcp_listener as tcp_listener
from warren.live.transport.frames import BadFrame, Buffer, Stream
from warren.live.transport.host_identity import NOWHERE, HostIdentity
from warren.live.transport.messages import DECODER, ENCODER, AnyMessage
from warren.live.transport.tcp_listener import TcpListener
from warren.live.transport.tls import TlsSocket

_RETRY_S: Final = 0.005
"""Seconds between two checks of a poller whether a hub listens at a link's address."""
_AGAIN_NS: Final = 200_000_000
"""Nanoseconds before a way to another host that broke early is tried again."""
_WAITING_PEERS: Final = 4096
"""Most connections that may wait to be accepted."""


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it; it may be gone already."""
    shutil.rmtree(folder, ignore_errors=True)


# Names are short, since the path of a Unix socket is limited to 107 bytes. If a process may be
# replaced, its name has a number: a message for the one before it never reaches the next.


def controller_address(folder: str) -> str:
    """Return the address at which the controller listens."""
    return f"{folder}/c"


def executor_address(folder: str, device: int, incarnation: int) -> str:
    """Return the address at which a device's executor listens to its trainers."""
    return f"{folder}/e{device}.{incarnation}"


def server_address(folder: str, job: int, generation: int, part: int) -> str:
    """Return the address at which a server of a job listens, in this generation of the job."""
    return f"{folder}/s{job}.{generation}.{part}"


def gang_address(folder: str, job: int, incarnation: int) -> str:
    """Return the address at which rank 0 of a gang listens to the others."""
    return f"{folder}/g{job}.{incarnation}"


def link_to_server(address: str, home: int, identity: HostIdentity) -> Link:
    """Return a link to a server, by TLS if it is far.

    Parameters
    ----------
    address : str
        Where the server listens: ``server_address``.
    home : int
        The host that it is on.
    identity : HostIdentity
        The host of the process that asks for the link.
    """
    near = home == identity.host
    return Link(address if near else tcp_listener.FAR + address, identity.secret)


def link_to_controller(folder: str, identity: HostIdentity) -> Link:
    """Return a link to the controller, by TLS if it is far."""
    address = controller_address(folder)
    return Link(tcp_listener.FAR + address if identity.control_far else address, identity.secret)


class Link:
    """The connecting side of one connection. Messages wait until the hub listens.

    A way to another host that breaks before the hub there has shown that it knows the secret is
    tried again, with all messages. After the hub's end nothing comes any more, and messages are
    lost: a hub never has a successor at its address. ``far`` says whether the hub is on another
    host, with which no memory is shared.

    Parameters
    ----------
    address : str
        The path of the hub's Unix socket, after ``FAR`` if it is on another host.
    secret : bytes
        The run's secret, which a hub on another host has to know, too.
    """

    def __init__(self, address: str, secret: bytes = b"") -> None:
        self._address, self._secret = address, secret
        self.far = address.startswith(tcp_listener.FAR)
        self._stream: Stream | None = None
        self._secure: TlsSocket | None = None
        # Messages sent before the connection was there; between hosts, before it was proven.
        self._early: list[tuple[bytes, tuple[Buffer, ...]]] = []
        self._closed = False
        self._again_ns = 0
        self._flow_class = 0
        self.connect()

    def connect(self) -> bool:
        """Connect, unless that is done already; False: no hub listens yet."""
        if self._stream is not None or self._closed:
            return True
        if time.monotonic_ns() < self._again_ns:
            return False
        end = (
            tcp_listener.dial(self._address.removeprefix(tcp_listener.FAR), self._flow_class)
            if self.far
            else _connected(self._address)
        )
        if end is None:
            return False
        if self.far:
            self._secure = TlsSocket(end, self._secret, False)
            self._stream = Stream(self._secure)
        else:
            self._stream = Stream(end)
        # In the order in which it was sent.
        for header, buffers in self._early:
            self._stream.send(header, buffers)
        if not self.far:
            self._early.clear()
        return True

    @property
    def proven(self) -> bool:
        """Whether the hub has shown that it knows the secret; within a host it need not."""
        return self._secure is None or self._secure.proven

    @property
    def lost(self) -> bool:
        """Whether the hub has gone, or the way to it has broken."""
        gone = self.proven or (self._secure is not None and self._secure.refused)
        return self._stream is not None and self._stream.closed and gone

    def settle(self) -> bool:
        """Check a connection to another host; False: it broke early, and must be made again."""
        if self.proven or self.lost:
            self._early.clear()
        elif self._stream is not None and self._stream.closed and not self._closed:
            self._stream, self._again_ns = None, time.monotonic_ns() + _AGAIN_NS
            return False
        return True

    def mark(self, flow_class: int) -> None:
        """Set the class on links of messages from now on; within a host there are none."""
        if self.far and flow_class != self._flow_class:
            self._flow_class = flow_class
            if self._stream is not None:
                self._stream.mark(flow_class)

    def watch(self, epoll: select.epoll) -> int:
        """Let an epoll wake up for this link, and return its file descriptor; once connected."""
        assert self._stream is not None
        self._stream.watch(epoll)
        return self._stream.fileno()

    def unwatch(self) -> None:
        """Take this link out of the epoll that watches it, if one does."""
        if self._stream is not None:
            self._stream.unwatch()

    def send(self, message: AnyMessage, *buffers: Buffer) -> None:
        """Send a message; a large buffer is not copied, so it must not change until it arrives."""
        header = ENCODER.encode(message)
        # Messages that wait for a connection are copied: the wait may last for any time.
        waits = not self.connect()
        if waits or not self.proven:
            self._early.append((header, tuple(map(bytes, buffers))))
        if not waits and self._stream is not None:
            self._stream.send(header, buffers)

    def drain(self) -> Iterator[tuple[AnyMessage, list[memoryview]]]:
        """Yield all messages that are here, each with its buffers."""
        if self._stream is not None:
            for header, buffers in self._stream.drain():
                yield DECODER.decode(header), buffers

    def close(self) -> None:
        """Close the connection; messages not yet sent are dropped."""
        self._closed = True
        self._early.clear()
        if self._stream is not None:
            self._stream.close()


def _connected(address: str) -> socket.socket | None:
    """Connect to a Unix socket; None: no process listens there yet, or too many wait."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.setblocking(False)
    try:
        end.connect(address)
    except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
        end.close()
        return None
    return end


class Hub:
    """The listening side of many connections: each peer is known by an id of this hub.

    Parameters
    ----------
    address : str
        The path of its Unix socket, which must not exist.
    identity : HostIdentity
        Its host. Where there are several, it listens by TLS too, at the identity's address.

    Attributes
    ----------
    refused
        How many messages of peers have come that were not to be heard any more.
    """

    def __init__(self, address: str, identity: HostIdentity = NOWHERE) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(address)
        self._listener.listen(_WAITING_PEERS)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._ids = count(1)
        self._streams: dict[bytes, Stream] = {}
        # By file descriptor: the peer's id. Descriptors are used again, ids never are.
        self._id_of: dict[int, bytes] = {}
        self._tcp_listener = (
            TcpListener(address, identity, self._epoll) if identity.address else None
        )
        self._far: dict[bytes, None] = {}
        self._unheard: set[bytes] = set()
        self.refused = 0
        self._flow_class = 0

    def fileno(self) -> int:
        """Return the file descriptor to poll: an epoll's, readable when any connection is."""
        return self._epoll.fileno()

    def is_far(self, peer: bytes) -> bool:
        """Tell whether a peer is on another host, with which no memory is shared."""
        return peer in self._far

    def mark(self, flow_class: int) -> None:
        """Set the class on links of messages to other hosts from now on."""
        self._flow_class = flow_class
        for peer in self._far:
            self._streams[peer].mark(flow_class)

    def send(self, peer: bytes, message: AnyMessage, *buffers: Buffer) -> bool:
        """Send a message to one peer, see ``Link.send``; False if it is gone."""
        stream = self._streams.get(peer)
        if stream is None:
            return False
        stream.send(ENCODER.encode(message), buffers)
        return True

    @property
    def strangers(self) -> int:
        """Number of connections from other hosts that ended without showing the run's secret."""
        return 0 if self._tcp_listener is None else self._tcp_listener.refused

    def refuse(self, peer: bytes) -> None:
        """Hear a peer no more: its messages from now on are only counted."""
        if peer in self._streams:
            self._unheard.add(peer)

    def drain(self) -> Iterator[tuple[bytes, AnyMessage, list[memoryview]]]:
        """Yield all messages that are here: the peer, the message, its buffers.

        The connection of a peer that does not keep to the protocol is closed.
        """
        if self._tcp_listener is not None:
            self._tcp_listener.begin()
        for fd, _ in self._epoll.poll(0):
            # A new peer's first message may be here already: it is read at once.
            if fd == self._listener.fileno():
                for new in self._accept():
                    yield from self._hear(new)
            elif fd in self._id_of:
                yield from self._hear(fd)
            elif (
                self._tcp_listener is not None and (end := self._tcp_listener.hear(fd)) is not None
            ):
                new = self._let_in(end)
                self._far[self._id_of[new]] = None
                if self._flow_class:
                    self._streams[self._id_of[new]].mark(self._flow_class)
                yield from self._hear(new)

    def close(self) -> None:
        """Close all connections; messages not yet sent are dropped."""
        for stream in self._streams.values():
            stream.close()
        if self._tcp_listener is not None:
            self._tcp_listener.close()
        self._epoll.close()
        self._listener.close()

    def _accept(self) -> list[int]:
        """Accept all connections that have come, and return their file descriptors."""
        new = []
        with contextlib.suppress(BlockingIOError):
            while True:
                new.append(self._let_in(self._listener.accept()[0]))
        return new

    def _let_in(self, end: socket.socket | TlsSocket) -> int:
        """Give a new connection an id, watch it, and return its file descriptor."""
        peer, stream = next(self._ids).to_bytes(4, "little"), Stream(end)
        stream.watch(self._epoll)
        self._streams[peer], self._id_of[stream.fileno()] = stream, peer
        return stream.fileno()

    def _hear(self, fd: int) -> Iterator[tuple[bytes, AnyMessage, list[memoryview]]]:
        """Yield the messages of one peer; forget it when its connection has ended."""
        peer = self._id_of[fd]
        stream = self._streams[peer]
        try:
            for header, buffers in stream.drain():
                if peer in self._unheard:
                    self.refused += 1
                else:
                    yield peer, DECODER.decode(header), buffers
        except (BadFrame, msgspec.MsgspecError):
            stream.close()
        if stream.closed:
            del self._streams[peer], self._id_of[fd]
            self._far.pop(peer, None)
            self._unheard.discard(peer)


Pollable: TypeAlias = Link | Hub | int
"""A source to wait for; a number is a file descriptor to be read."""


class Poller:
    """Waits for sources, connects links, and sends waiting messages."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._fd_of: dict[Pollable, int] = {}
        self._source_of: dict[int, Pollable] = {}
        self._unconnected: list[Link] = []
        # Links to other hosts that are not proven: they may have to be made again.
        self._unproven: list[Link] = []

    def register(self, source: Pollable) -> None:
        """Wait for this source too."""
        if isinstance(source, Link):
            self._unconnected.append(source)
            self._connect()
            return
        fd = source if isinstance(source, int) else source.fileno()
        self._epoll.register(fd, select.EPOLLIN)
        self._know(source, fd)

    def unregister(self, source: Pollable) -> None:
        """Stop waiting for a source. To be called before the source is closed."""
        if isinstance(source, Link) and source in self._unproven:
            self._unproven.remove(source)
        if isinstance(source, Link) and source in self._unconnected:
            self._unconnected.remove(source)
            return
        fd = self._fd_of.pop(source)
        # A source that has ended by itself has closed its descriptor, which may be another's now.
        if self._source_of.get(fd) != source:
            return
        del self._source_of[fd]
        if isinstance(source, Link):
            source.unwatch()
        else:
            self._epoll.unregister(fd)

    def poll(self, timeout_ms: float | None = None) -> set[Pollable]:
        """Wait until something can be read, up to the limit; return the sources that can be read.

        Parameters
        ----------
        timeout_ms : float, optional
            The longest wait in milliseconds; 0: none; None: no limit.
        """
        until_ns = None if timeout_ms is None else time.monotonic_ns() + round(timeout_ms * 1e6)
        while True:
            left_s = None if until_ns is None else max(0, until_ns - time.monotonic_ns()) / 1e9
            if self._unproven:
                self._settle()
            # Nothing tells that a hub has begun to listen, so ask again every few milliseconds.
            if self._unconnected:
                self._connect()
                left_s = _RETRY_S if left_s is None else min(left_s, _RETRY_S)
            found = self._epoll.poll(left_s)
            if found or not (self._unconnected and (until_ns is None or left_s)):
                return {self._source_of[fd] for fd, _ in found if fd in self._source_of}

    def close(self) -> None:
        """Close the epoll; the sources stay open."""
        self._epoll.close()

    def _connect(self) -> None:
        """Connect the links whose hubs listen by now, and watch them."""
        for link in [link for link in self._unconnected if link.connect()]:
            self._unconnected.remove(link)
            self._know(link, link.watch(self._epoll))
            if link.far:
                self._unproven.append(link)

    def _settle(self) -> None:
        """Let links that broke before they were proven be made again."""
        for link in list(self._unproven):
            if not link.settle():
                self._unproven.remove(link)
                # The descriptor is closed, and may be that of another link by now.
                if self._source_of.get(fd := self._fd_of.pop(link)) is link:
                    del self._source_of[fd]
                self._unconnected.append(link)
            elif link.proven or link.lost:
                self._unproven.remove(link)

    def _know(self, source: Pollable, fd: int) -> None:
        """Remember which file descriptor is a source's."""
        self._fd_of[source], self._source_of[fd] = fd, source
