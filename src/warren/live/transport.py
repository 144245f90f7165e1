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


def _parts(message: AnyMessage, buffers: tuple[Buffer, ...]) -> list[Buffer | zmq.Frame]:
    header: list[Buffer | zmq.Frame] = [ENCODER.encode(message)]
    return header + [
        zmq.Frame(buffer, copy=memoryview(buffer).nbytes < COPY_BELOW_BYTES) for buffer in buffers
    ]


class Link:
    """The connecting side of one connection."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        _prepare(self.socket)
        self.socket.connect(address)

    def send(self, message: AnyMessage, *buffers: Buffer) -> None:
        """Send; a large buffer is not copied and must not be written afterwards."""
        self.socket.send_multipart(_parts(message, buffers), copy=False)

    def receive(self) -> tuple[AnyMessage, list[memoryview]] | None:
        """The next message that is here, with its buffers, or None."""
        try:
            frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        return DECODER.decode(frames[0].buffer), [frame.buffer for frame in frames[1:]]

    def drain(self) -> Iterator[tuple[AnyMessage, list[memoryview]]]:
        """All messages that are here."""
        while (got := self.receive()) is not None:
            yield got

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
            self.socket.send_multipart([peer, *_parts(message, buffers)], copy=False)
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise
        return True

    def drain(self) -> Iterator[tuple[bytes, AnyMessage, list[memoryview]]]:
        """All messages that are here."""
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            peer, header, *rest = frames
            yield peer.bytes, DECODER.decode(header.buffer), [frame.buffer for frame in rest]

    def close(self) -> None:
        """Close; what was not sent is dropped."""
        self.socket.close()


def wait(poller: zmq.Poller, timeout_ns: int | None) -> None:
    """Until something can be read, or the timeout; None waits without limit.

    ZeroMQ counts whole milliseconds, so the caller sleeps the rest (``sleep_until``).
    """
    poller.poll(None if timeout_ns is None else max(0, timeout_ns) // 1_000_000)
