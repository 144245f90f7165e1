"""The connection between controller and zygote: messages over a stream socket.

Each message is its length, in four bytes, and its msgpack.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from warren.live.process.specs import ZYGOTE_DECODER, ZygoteMessage
from warren.live.transport.messages import ENCODER

_LENGTH: Final = struct.Struct("<I")


class Pipe:
    """One end of the connection. The stream of messages ends when the peer ends, in any way."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._end.fileno()

    def give_up_after(self, wait_s: float) -> None:
        """Limit the wait of ``send`` for room, in seconds; then the peer counts as gone."""
        spared = struct.pack("ll", int(wait_s), int(wait_s % 1 * 1e6))
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, spared)

    def send(self, message: ZygoteMessage) -> bool:
        """Send a message, waiting for room; False if the peer is gone."""
        payload = ENCODER.encode(message)
        try:
            self._end.sendall(_LENGTH.pack(len(payload)) + payload)
        except OSError:
            return False
        return True

    def receive(self) -> ZygoteMessage | None:
        """Wait for the next message; None when the peer is gone."""
        head = self._exactly(_LENGTH.size)
        payload = None if head is None else self._exactly(_LENGTH.unpack(head)[0])
        return None if payload is None else ZYGOTE_DECODER.decode(payload)

    def close(self) -> None:
        """Close this end; the peer reads the end of the stream."""
        self._end.close()

    def _exactly(self, size: int) -> bytes | None:
        """Read ``size`` bytes; None if the stream ends before that."""
        # A stream knows no messages: one read may bring less than one.
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._end.recv(size - len(parts))
            except ConnectionError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)
