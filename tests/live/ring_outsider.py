"""A process that belongs to no ring, finds where a rank listens and answers there as gloo does."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
import time
from pathlib import Path

from processes import PATIENCE_S

_SEQUENCE = struct.Struct("<q")
_HEAD = struct.Struct("<6Q")
"""Of a gloo message: bytes, kind, slot, offset, length, offset there."""
_DATA, _WILL_SEND, _CAN_TAKE = 1, 2, 3
_MANY = 4
"""Sequence numbers that are tried; those of a ring of two are among them."""


def port_of(meeting: Path, rank: int, limit_s: float = PATIENCE_S) -> int:
    """Where a rank listens on loopback, from the meeting file; waits until it is there."""
    told = re.compile(rb"cpu//0/%d.{4}.*?\x02\x00(..)\x7f\x00\x00\x01" % rank, re.DOTALL)
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        found = told.search(meeting.read_bytes() if meeting.exists() else b"")
        if found:
            return int.from_bytes(found[1], "big")
        time.sleep(0.002)
    raise TimeoutError(f"rank {rank} does not listen")


class Outsider:
    """Takes every place at a port. ``garbage``: then says this, else what gloo would say.

    ``struck``: a rank has taken it for another rank. ``heard`` is what it was sent then.
    """

    def __init__(self, port: int, garbage: bytes = b"") -> None:
        self.struck, self.heard = False, b""
        self._garbage = garbage
        self._ends = [self._take(port, sequence) for sequence in range(_MANY)]
        self._threads = [threading.Thread(target=self._answer, args=(e,)) for e in self._ends]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Go away."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    @staticmethod
    def _take(port: int, sequence: int) -> socket.socket:
        end = socket.create_connection(("127.0.0.1", port))
        end.sendall(_SEQUENCE.pack(sequence))
        return end

    def _answer(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while head := self._exactly(end, _HEAD.size):
                self.struck = True
                if self._garbage:
                    end.sendall(self._garbage)
                    continue
                _, kind, slot, _, length, _ = _HEAD.unpack(head)
                if kind == _CAN_TAKE:
                    junk = b"\x42" * length
                    end.sendall(_HEAD.pack(_HEAD.size + length, _DATA, slot, 0, length, 0) + junk)
                elif kind == _WILL_SEND:
                    end.sendall(_HEAD.pack(_HEAD.size, _CAN_TAKE, slot, 0, length, 0))
                else:
                    self.heard += self._exactly(end, length)

    @staticmethod
    def _exactly(end: socket.socket, size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = end.recv(size - len(got))
            if not part:
                return b""
            got += part
        return got
