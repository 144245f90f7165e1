"""Sockets of a run: ZeroMQ over ipc in a private folder, typed headers, raw buffers, no pickle.

``Hub`` binds and talks to many peers, ``Link`` connects to one hub. Both are for one thread.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import zmq

from warren.live.messages import DECODER, ENCODER, AnyMessage

Buffer = bytes | bytearray | memoryview
COPY_BELOW_BYTES: Final = 65536
"""Smaller buffers are copied: that costs less than tracking who still holds them."""
_PATH_MAX: Final = 60
"""A Unix socket's path is limited to 107 bytes, the socket's own name included."""


def make_folder() -> Path:
    """A new folder for sockets that only this user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="warren-"))
    if len(str(folder)) > _PATH_MAX:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="warren-", dir="/tmp"))
    return folder


def remove_folder(folder: Path) -> None:
    """Remove it; it may be gone already."""
    shutil.rmtree(folder, ignore_errors=True)


def controller_address(folder: str) -> str:
    """Where the controller listens."""
    return f"ipc://{folder}/c"


def executor_address(folder: str, device: int, life: int) -> str:
    """Where a device's executor listens to its trainers; ``life`` counts its predecessors."""
    return f"ipc://{folder}/e{device}.{life}"


def server_address(folder: str, job: int, era: int, part: int) -> str:
    """Where a server of a job listens; what was meant for one of an earlier era never comes."""
    return f"ipc://{folder}/s{job}.{era}.{part}"


def _prepare(socket: zmq.Socket[bytes]) -> None:
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 0  # what is in flight is bounded by look-ahead, not by count
    socket.setsockopt(zmq.RECONNECT_IVL, 5)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 100)


def _send(socket: zmq.Socket[bytes], message: AnyMessage, buffers: tuple[Buffer, ...]) -> None:
    """The header, then the buffers: small ones copied, large ones shared."""
    header = ENCODER.encode(message)
    if not buffers:
        socket.send(header)
        return
    socket.send(header, zmq.SNDMORE)
    last = len(buffers) - 1
    for at, buffer in enumerate(buffers):
        more = zmq.SNDMORE if at < last else 0
        socket.send(buffer, more, copy=memoryview(buffer).nbytes < COPY_BELOW_BYTES)


def _receive(socket: zmq.Socket[bytes]) -> tuple[AnyMessage, list[memoryview]]:
    """The rest of a message that is here."""
    message = DECODER.decode(socket.recv())
    buffers = []
    while socket.get(zmq.RCVMORE):
        buffers.append(socket.recv(copy=False).buffer)
    return message, buffers


def _is_readable(socket: zmq.Socket[bytes]) -> bool:
    # Trying to read and catching the exception costs three times as much.
    return bool(int(socket.get(zmq.EVENTS)) & zmq.POLLIN)


class Link:
    """The connecting side of one connection."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        _prepare(self.socket)
        self.socket.connect(address)

    def send(self, message: AnyMessage, *buffers: Buffer) -> None:
        """Send; a large buffer is not copied and must not be written before it has arrived."""
        _send(self.socket, message, buffers)

    def drain(self) -> Iterator[tuple[AnyMessage, list[memoryview]]]:
        """All messages that are here, each with its buffers."""
        while _is_readable(self.socket):
            yield _receive(self.socket)

    def close(self) -> None:
        """Close; what was not sent is dropped."""
        self.socket.close()


class Hub:
    """The listening side: one socket, many peers, each known by the id its messages came with."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        _prepare(self.socket)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.bind(address)

    def send(self, peer: bytes, message: AnyMessage, *buffers: Buffer) -> bool:
        """Send to one peer; False if it is gone."""
        try:
            self.socket.send(peer, zmq.SNDMORE)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise
        _send(self.socket, message, buffers)
        return True

    def drain(self) -> Iterator[tuple[bytes, AnyMessage, list[memoryview]]]:
        """All messages that are here."""
        while _is_readable(self.socket):
            peer = self.socket.recv()
            yield peer, *_receive(self.socket)

    def close(self) -> None:
        """Close; what was not sent is dropped."""
        self.socket.close()
