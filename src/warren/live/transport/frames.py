"""Frames over one connected stream socket: a header and raw buffers, in order, whole or not at all.

A frame begins with the number of its parts and their lengths; the first part is the header. Nothing
waits here: what the kernel does not take at once is kept until it does.
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

Buffer: TypeAlias = bytes | bytearray | memoryview
Frame: TypeAlias = tuple[memoryview, list[memoryview]]
"""A header, and the buffers beside it."""
COPY_BELOW_BYTES: Final = 65536
"""Buffers that have to wait are copied if they are smaller: nobody tracks who still needs them."""
READ_BYTES: Final = 65536
_COUNT: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = 8
_PARTS_MAX: Final = 1 << 16
_FRAME_BYTES_MAX: Final = 1 << 40
_AT_ONCE: Final = 512
"""Buffers of one system call; the kernel's own limit is 1024."""
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
    """What came is no frame: the peer is not one of Warren's processes, or out of its mind."""


class Stream:
    """One end. After the peer's end, however it came, ``closed`` is true and sends are lost.

    ``first`` goes before all frames. The connection may be in the making: what is sent waits.
    """

    def __init__(self, end: socket.socket, first: bytes = b"") -> None:
        end.setblocking(False)
        self._end = end
        self._left: deque[memoryview] = deque([memoryview(first)] if first else [])
        self._peer_gone = False
        self._received = bytearray()
        self._large: bytearray | None = None
        self._filled = 0
        self._epoll: select.epoll | None = None
        self._armed = False
        self.closed = False

    def fileno(self) -> int:
        """For polling."""
        return self._end.fileno()

    def watch(self, epoll: select.epoll) -> None:
        """This epoll is to wake up for what comes, and for room when something has to wait."""
        self._epoll = epoll
        epoll.register(self.fileno(), select.EPOLLIN)
        self._arm()

    def unwatch(self) -> None:
        """Wake nobody up any more."""
        if self._epoll is not None:
            self._epoll.unregister(self.fileno())
        self._epoll, self._armed = None, False

    def send(self, header: bytes, buffers: tuple[Buffer, ...] = ()) -> None:
        """Send a frame, or keep the rest of it until there is room.

        Raises
        ------
        OSError
            If this end itself does not work; a peer that is gone is no error.
        """
        if self.closed or self._peer_gone:
            return
        views = [memoryview(buffer).cast("B") for buffer in buffers]
        lengths = [len(header), *(view.nbytes for view in views)]
        head = struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths) + header
        parts = [memoryview(head), *(view for view in views if view.nbytes)]
        if self._left:
            self._left += map(_until_sent, parts)
            return
        self._left += parts
        self.flush()
        if self._left:
            self._left = deque(map(_until_sent, self._left))

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._left:
            try:
                some = list(islice(self._left, _AT_ONCE))
                sent = self._end.sendmsg(some, [], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in _PEER_GONE_ERRNOS:
                    raise
                self._peer_gone = True
                self._left.clear()
                break
            while sent:
                first = self._left.popleft()
                if first.nbytes > sent:
                    self._left.appendleft(first[sent:])
                sent -= min(sent, first.nbytes)
        self._arm()

    def drain(self) -> Iterator[Frame]:
        """Every frame that is here, each in memory of its own.

        Raises
        ------
        BadFrame
            If what comes is no frame.
        """
        self.flush()
        while not self.closed:
            count = self._read()
            if count is None:
                return
            if not count:
                self.close()
                return
            yield from self._frames()
            if count < READ_BYTES and self._large is None:
                return  # should there be more after all, the next poll will say so

    def close(self) -> None:
        """Close; what was not sent is dropped."""
        if not self.closed:
            self.unwatch()
            self.closed = True
            self._left.clear()
            self._end.close()

    def _arm(self) -> None:
        """Be woken up for room exactly while something waits."""
        if self._epoll is not None and self._armed != bool(self._left):
            self._armed = bool(self._left)
            room = select.EPOLLOUT if self._armed else 0
            self._epoll.modify(self.fileno(), select.EPOLLIN | room)

    def _read(self) -> int | None:
        """Bytes that have come; 0: the peer is gone; None: nothing for now."""
        try:
            if self._large is None:
                data = self._end.recv(READ_BYTES)
                self._received += data
                return len(data)
            with memoryview(self._large) as view:
                count = self._end.recv_into(view[self._filled :])
            self._filled += count
            return count
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _PEER_GONE_ERRNOS:
                raise
            return 0

    def _frames(self) -> Iterator[Frame]:
        """Take whole frames off what has been read; a large one is read into its own memory."""
        if self._large is not None:
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                yield _split(frame)
            return
        at = 0
        try:
            while (size := _frame_bytes(self._received, at)) is not None:
                if at + size > len(self._received):
                    self._expect(at, size)
                    return
                at += size
                yield _split(self._received[at - size : at])
        finally:
            del self._received[:at]

    def _expect(self, at: int, size: int) -> None:
        """The frame that begins at ``at`` is not all here; a large one gets its own memory."""
        if size > READ_BYTES:
            self._large, self._filled = bytearray(size), len(self._received) - at
            self._large[: self._filled] = self._received[at:]
            del self._received[at:]


def _until_sent(view: memoryview) -> memoryview:
    """A buffer that has to wait; a small one may be written meanwhile."""
    return memoryview(bytes(view)) if view.nbytes < COPY_BELOW_BYTES else view


def _head(received: bytearray, at: int = 0) -> tuple[int, ...] | None:
    """The lengths of the parts of the frame at ``at``; None: they have not come yet."""
    if len(received) - at < _COUNT.size:
        return None
    (parts,) = _COUNT.unpack_from(received, at)
    if not 0 < parts <= _PARTS_MAX:
        raise BadFrame(f"a frame of {parts} parts")
    if len(received) - at < _COUNT.size + parts * _LENGTH_BYTES:
        return None
    lengths = struct.unpack_from(f"<{parts}Q", received, at + _COUNT.size)
    if sum(lengths) > _FRAME_BYTES_MAX:
        raise BadFrame(f"a frame of {sum(lengths)} bytes")
    return lengths


def _frame_bytes(received: bytearray, at: int) -> int | None:
    """How long the frame at ``at`` is, its head included; None: that has not come yet."""
    lengths = _head(received, at)
    if lengths is None:
        return None
    return _COUNT.size + len(lengths) * _LENGTH_BYTES + sum(lengths)


def _split(frame: bytearray) -> Frame:
    """The parts of a whole frame, where they lie."""
    lengths = _head(frame)
    assert lengths is not None
    begin = _COUNT.size + len(lengths) * _LENGTH_BYTES
    ends = accumulate(lengths, initial=begin)
    header, *buffers = (memoryview(frame)[start:end] for start, end in pairwise(ends))
    return header, buffers
