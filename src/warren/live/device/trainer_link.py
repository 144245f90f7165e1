"""The link of a trainer to its executor, which a thread uses too that brings results out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from warren.live.transport.messages import AnyMessage
from warren.live.transport.sockets import Link, Poller

_T = TypeVar("_T")


class TrainerLink:
    """Sends a trainer's messages, and runs the rest of a task once its gradients are there.

    ``behind``: a thread runs the rests, in the order of the tasks, while the next task computes.
    """

    def __init__(self, address: str, *, behind: bool) -> None:
        self._link = Link(address)
        # A link keeps bytes that the socket does not take at once: only one thread at a time may
        # use it.
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "results") if behind else None
        self._last: Future[None] | None = None

    def watch(self, poller: Poller) -> None:
        """Let a poller wake up for messages."""
        poller.register(self._link)

    def receive(self) -> list[AnyMessage]:
        """Return all messages that are here."""
        with self._lock:
            return [message for message, _ in self._link.drain()]

    def send(self, message: AnyMessage) -> None:
        """Send a message now."""
        with self._lock:
            self._link.send(message)

    def send_result(self, rest: Callable[[], AnyMessage | None]) -> None:
        """Run the rest of a task, and send the message that it returns; None: there is none."""
        if self._thread is None:
            self._send_rest(rest)
        else:
            self._last = self._thread.submit(lambda: self._send_rest(rest))

    def _send_rest(self, rest: Callable[[], AnyMessage | None]) -> None:
        message = rest()
        if message is not None:
            self.send(message)

    def behind(self, work: Callable[[], _T]) -> Future[_T]:
        """Let the thread do some work after all that it was given before."""
        assert self._thread is not None
        return self._thread.submit(work)

    def wait(self) -> None:
        """Wait until all results have been sent."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Send the results still to be sent, and then nothing more."""
        if self._thread is not None:
            self._thread.shutdown()
        self._link.close()
