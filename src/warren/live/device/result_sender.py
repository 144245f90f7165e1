"""Send the results of a trainer: at once, or from a thread that brings them out of a device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from warren.live.transport.messages import AnyMessage
from warren.live.transport.sockets import Link


class ResultSender:
    """Sends a trainer's messages, and calls what is left of a task once its gradients are there.

    ``behind``: that is done by a thread, in the order of the tasks, while the next one computes.
    """

    def __init__(self, link: Link, *, behind: bool) -> None:
        self._link = link
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, "results") if behind else None
        self._last: Future[None] | None = None

    def send(self, message: AnyMessage) -> None:
        """Send a message now."""
        with self._lock:
            self._link.send(message)

    def send_result(self, rest: Callable[[], AnyMessage]) -> None:
        """Do what is left of a task, and send what it returns."""
        if self._thread is None:
            self.send(rest())
        else:
            self._last = self._thread.submit(lambda: self.send(rest()))

    def wait(self) -> None:
        """Wait until all results have been sent."""
        if self._last is not None:
            self._last.result()
