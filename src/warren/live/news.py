"""What an executor has to tell the controller, and when: not while a barrier needs the cores.

The controller decides and journals for longer than a small model's barrier takes. A device whose
next task waits for that barrier tells of the last one when the next has begun, or a little later.
"""

from __future__ import annotations

import time
from typing import Final

from warren.live.messages import AnyMessage, CompEnded
from warren.live.transport import Link

HELD_NS: Final = 3_000_000
"""News waits at most so long: a policy may have an answer for another device."""


class News:
    """Messages to the controller, in order."""

    def __init__(self, control: Link) -> None:
        self._control = control
        self._waiting: list[AnyMessage] = []
        self.due_ns: int | None = None
        """When what was held back has to go; None: nothing is."""

    def add(self, message: AnyMessage) -> None:
        """To be told at the end of this turn."""
        self._waiting.append(message)

    def tell(self, *, hold: bool) -> None:
        """Send all; ``hold``: ended tasks can wait, if nothing else is to be told."""
        if not self._waiting:
            return
        if hold and all(isinstance(message, CompEnded) for message in self._waiting):
            now_ns = time.monotonic_ns()
            if self.due_ns is None:
                self.due_ns = now_ns + HELD_NS
            if now_ns < self.due_ns:
                return
        for message in self._waiting:
            self._control.send(message)
        self._waiting.clear()
        self.due_ns = None
