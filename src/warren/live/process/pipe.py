"""Messages over a stream socket between controller and zygote: length, then msgpack."""

from __future__ import annotations

import socket
import struct
from typing import Final

from warren.live.process.specs import ZYGOTE_DECODER, ZygoteMessage
from warren.live.transport.messages import ENCODER

_LENGTH: Final = struct.Struct("<I")


class Pipe:
    """One end. A peer that ends, however it does, is read as the end of the stream."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """For polling."""
        return self._end.fileno()

    def send(self, message: ZygoteMessage) -> bool:
        """Send; False if the peer is gone."""
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
        """Close; the peer reads the end of the stream."""
        self._end.close()

    def _exactly(self, size: int) -> bytes | None:
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
