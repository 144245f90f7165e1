"""Frames over one connected stream socket: a header and raw buffers, in order, whole or not at all.

A frame begins with the number of its parts (4 bytes) and their lengths (8 bytes each), little
endian; the first part is the header. Nothing waits here: bytes that the kernel does not take at
once are kept until it does.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from collections import deque
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise
from typing import Final, TypeAlias

from warren.live import flow_marks
from warren.live.transport.tls import RECORD_BYTES, TlsSocket

Buffer: TypeAlias = bytes | bytearray | memoryview
Frame: TypeAlias = tuple[memoryview, list[memoryview]]
"""A header, and the buffers beside it."""
COPY_BELOW_BYTES: Final = 65536
"""Size in bytes below which a waiting buffer is copied: its other users are not tracked."""
READ_BYTES: Final = 65536
"""Bytes read at a time; the rest of a larger frame is read into memory of its own."""
WAKE_BYTES: Final = 1 << 17
"""Bytes of a large frame, or its rest, that wake a poller, by TCP: a slow link brings the frame in
pieces of some kB, each of which would wake the poller otherwise."""
_COUNT: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = 8
# Beyond these no frame is ever believed: its memory would be reserved before it has come.
_PARTS_MAX: Final = 1 << 16
_FRAME_BYTES_MAX: Final = 1 << 40
_AT_ONCE: Final = 512
"""Buffers of one system call; the kernel's own limit is 1024."""
# Errors that tell of the peer or the way to it, not of this end.
_PEER_GONE_ERRNOS: Final = frozenset(
    {
        errno.EPIPE,
        errno.ECONNRESET,
        errno.ENOTCONN,
        errno.ECONNREFUSED,
        errno.ETIMEDOUT,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
    }
)


class BadFrame(ValueError):
    """Received bytes are no frame: the peer is not one of Warren's processes, or is damaged."""


class Stream:
    """One end of a connection. Once the peer has ended, ``closed`` is true and sends are lost.

    Parameters
    ----------
    end : socket.socket or TlsSocket
        A connection, which may be still in the making: messages wait for it.
    most_bytes : int
        The longest frame in bytes that is accepted.
    """

    def __init__(self, end: socket.socket | TlsSocket, most_bytes: int = _FRAME_BYTES_MAX) -> None:
        self._tls = end if isinstance(end, TlsSocket) else None
        self._socket = end.socket if isinstance(end, TlsSocket) else end
        self._socket.setblocking(False)
        self._end, self._most_bytes = end, most_bytes
        # Bytes still to be sent, in order.
        self._left: deque[memoryview] = deque()
        # The peer reads nothing any more, but its earlier bytes may still be here to be read.
        self._peer_gone = False
        # Bytes that have come and belong to no whole frame yet. A frame larger than one read gets
        # memory of its own instead, of which ``_filled`` bytes have come.
        self._received = bytearray()
        self._large: bytearray | None = None
        self._filled = 0
        # Bytes that must be here before a poller wakes up; None: any, by a Unix socket.
        self._wake_at = 1 if self._socket.family == socket.AF_INET else None
        # The epoll that watches this end, and whether it wakes up for room too.
        self._epoll: select.epoll | None = None
        self._armed = False
        self.closed = False

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._end.fileno()

    @property
    def local_address(self) -> str:
        """Return the address of this end, of a connection between hosts."""
        return str(self._socket.getsockname()[0])

    def watch(self, epoll: select.epoll) -> None:
        """Let an epoll wake up for received bytes, and for room when something has to wait."""
        self._epoll = epoll
        epoll.register(self.fileno(), select.EPOLLIN)
        self._arm()

    def mark(self, flow_class: int) -> None:
        """Mark all bytes sent from now on, also waiting ones; for a connection between hosts."""
        if not self.closed:
            flow_marks.mark(self._socket, flow_class)

    def unwatch(self) -> None:
        """Take this end out of the epoll that watches it, if one does."""
        if self._epoll is not None:
            self._epoll.unregister(self.fileno())
        self._epoll, self._armed = None, False

    def send(self, header: bytes, buffers: tuple[Buffer, ...] = ()) -> None:
        """Send a frame, or keep the rest of it until there is room.

        Raises
        ------
        OSError
            If this end itself does not work; the loss of the peer is no error.
        """
        if self.closed or self._peer_gone:
            return
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        lengths = [len(header), *(view.nbytes for view in views)]
        # Numbers and header are small and go in one buffer; empty buffers are not sent.
        head = struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths) + header
        parts = [memoryview(head), *(view for view in views if view.nbytes)]
        # Behind the waiting bytes, frames stay in order.
        if self._left:
            self._left += map(_until_sent, parts)
            return
        self._left += parts
        self.flush()
        if self._left:
            self._left = deque(map(_until_sent, self._left))

    def flush(self) -> None:
        """Send waiting bytes, as far as there is room."""
        while self._left or self._unsent:
            try:
                some = list(islice(self._left, _AT_ONCE))
                sent = self._end.sendmsg(some, [], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError as error:
                if not self._tells_of_peer(error):
                    raise
                self._peer_gone = True
                self._left.clear()
                break
            # The kernel may have taken some buffers, and a part of the next.
            while sent:
                first = self._left.popleft()
                if first.nbytes > sent:
                    self._left.appendleft(first[sent:])
                sent -= min(sent, first.nbytes)
        self._arm()

    def drain(self) -> Iterator[Frame]:
        """Yield every frame that is here, each in memory of its own.

        Raises
        ------
        BadFrame
            If the received bytes are no frame.
        """
        self.flush()
        while not self.closed:
            count = self._read()
            if count is None:
                break
            if not count:
                self.close()
                return
            yield from self._frames()
            # Fewer bytes than requested: if there are more after all, the next poll will say so;
            # but it does not see bytes that are decrypted already.
            if count < READ_BYTES and self._large is None and self._tls is None:
                return
        # Bytes that had to wait for the end of a handshake, which may have been reached.
        if self._tls is not None:
            self.flush()

    def close(self) -> None:
        """Close this end; bytes not yet sent are dropped."""
        if not self.closed:
            self.unwatch()
            self.closed = True
            self._left.clear()
            self._end.close()

    @property
    def _unsent(self) -> bool:
        """Whether bytes taken from ``_left`` have not been sent."""
        return self._tls is not None and self._tls.unsent and not self._peer_gone

    def _arm(self) -> None:
        """Let the epoll wake up for room exactly while something waits.

        At other times there always is room, so the epoll would never sleep.
        """
        # Bytes that wait for the peer's part of a handshake do not wait for room.
        waits = bool(self._left) if self._tls is None else self._unsent
        if self._epoll is not None and self._armed != waits:
            self._armed = waits
            room = select.EPOLLOUT if self._armed else 0
            self._epoll.modify(self.fileno(), select.EPOLLIN | room)

    def _read(self) -> int | None:
        """Read; return the number of bytes received; 0: the peer is gone; None: none for now."""
        try:
            if self._large is None:
                data = self._end.recv(READ_BYTES)
                self._received += data
                return len(data)
            with memoryview(self._large) as view:
                count = self._end.recv_into(view[self._filled :])
            self._filled += count
            self._wait_for_large()
            return count
        except BlockingIOError:
            return None
        except OSError as error:
            if not self._tells_of_peer(error):
                raise
            return 0

    def _tells_of_peer(self, error: OSError) -> bool:
        """Tell whether an error is the peer's or the way's; between hosts any is."""
        return self._tls is not None or error.errno in _PEER_GONE_ERRNOS

    def _frames(self) -> Iterator[Frame]:
        """Yield the whole frames in the bytes read; a large one is read into its own memory."""
        if self._large is not None:
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                yield _split(frame)
            return
        at = 0
        try:
            while (size := _frame_bytes(self._received, at, self._most_bytes)) is not None:
                if at + size > len(self._received):
                    self._expect(at, size)
                    return
                at += size
                yield _split(self._received[at - size : at])
        # However this ends: yielded frames are gone, even if the caller stops early.
        finally:
            del self._received[:at]

    def _expect(self, at: int, size: int) -> None:
        """Prepare for the rest of the frame at ``at``; a large one gets its own memory."""
        if size > READ_BYTES:
            self._large, self._filled = bytearray(size), len(self._received) - at
            self._large[: self._filled] = self._received[at:]
            del self._received[at:]
            self._wait_for_large()

    def _wait_for_large(self) -> None:
        """Let a poller sleep until much of a large frame is here, or its rest."""
        left = 0 if self._large is None else len(self._large) - self._filled
        # Part of the encrypted bytes may have been read and not be decryptable yet.
        read = 0 if self._tls is None else RECORD_BYTES
        wake_at = max(1, min(left - read, WAKE_BYTES))
        if self._wake_at not in (None, wake_at):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_at)
            self._wake_at = wake_at


def bodies(stream: Stream) -> Iterator[bytes]:
    """Yield the header of every frame that is here, of a peer whose frames have no buffers.

    Raises
    ------
    BadFrame
        If the received bytes are no frame of one part.
    """
    for header, buffers in stream.drain():
        if buffers:
            raise BadFrame("a frame of several parts")
        yield bytes(header)


def _until_sent(view: memoryview) -> memoryview:
    """Return the memory to keep for a waiting buffer: a copy of a small one, else the buffer."""
    return memoryview(bytes(view)) if view.nbytes < COPY_BELOW_BYTES else view


def _head(
    received: bytearray, at: int = 0, most_bytes: int = _FRAME_BYTES_MAX
) -> tuple[int, ...] | None:
    """Return the lengths of the parts of the frame at ``at``; None: they have not come yet.

    Raises
    ------
    BadFrame
        If they cannot be those of a frame.
    """
    if len(received) - at < _COUNT.size:
        return None
    (parts,) = _COUNT.unpack_from(received, at)
    if not 0 < parts <= min(_PARTS_MAX, most_bytes):
        raise BadFrame(f"a frame of {parts} parts")
    if len(received) - at < _COUNT.size + parts * _LENGTH_BYTES:
        return None
    lengths = struct.unpack_from(f"<{parts}Q", received, at + _COUNT.size)
    if sum(lengths) > most_bytes:
        raise BadFrame(f"a frame of {sum(lengths)} bytes")
    return lengths


def _frame_bytes(received: bytearray, at: int, most_bytes: int) -> int | None:
    """Return the bytes of the frame at ``at``, lengths included; None: they have not come."""
    lengths = _head(received, at, most_bytes)
    if lengths is None:
        return None
    return _COUNT.size + len(lengths) * _LENGTH_BYTES + sum(lengths)


def _split(frame: bytearray) -> Frame:
    """Return the parts of a whole frame, as views of it."""
    lengths = _head(frame)
    assert lengths is not None
    begin = _COUNT.size + len(lengths) * _LENGTH_BYTES
    ends = accumulate(lengths, initial=begin)
    header, *buffers = (memoryview(frame)[start:end] for start, end in pairwise(ends))
    return header, buffers
