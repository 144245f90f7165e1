"""Messages once and in order, over a way that may delay, drop, repeat and reorder them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

_AHEAD: Final = 1024
"""Most early messages that are kept until their turn; the sender repeats the others."""


class OrderedChannel:
    """One end of such a channel: it numbers messages, and repeats each until it is received.

    Parameters
    ----------
    again_ns
        Nanoseconds after which a message that was not received is sent again.
    """

    def __init__(self, again_ns: int) -> None:
        self._again_ns = again_ns
        # Messages not yet received: number, and the time to send them (again).
        self._unreceived: deque[tuple[int, bytes]] = deque()
        self._due_ns: dict[int, int] = {}
        self._sent = 0
        self._early: dict[int, bytes] = {}
        self.next = 0
        """All messages of the other end before this one are here."""

    @property
    def wake_ns(self) -> int | None:
        """The time at which a message must be sent again; None: all have been received."""
        return min(self._due_ns.values(), default=None)

    def send(self, body: bytes, now_ns: int) -> None:
        """Take a message; ``due`` has it at once."""
        self._unreceived.append((self._sent, body))
        self._due_ns[self._sent] = now_ns
        self._sent += 1

    def due(self, now_ns: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages to send now, and note that they are sent."""
        for number, body in self._unreceived:
            if self._due_ns[number] <= now_ns:
                self._due_ns[number] = now_ns + self._again_ns
                yield number, body

    def repeat(self, now_ns: int) -> None:
        """Let all that was not received be sent again at once."""
        self._due_ns = dict.fromkeys(self._due_ns, now_ns)

    def hear(self, number: int, body: bytes) -> Iterator[bytes]:
        """Take a message of the other end; yield the messages whose turn has come."""
        if self.next <= number < self.next + _AHEAD:
            self._early[number] = body
        while self.next in self._early:
            self.next += 1
            yield self._early.pop(self.next - 1)

    def received(self, following: int) -> None:
        """Forget the messages that the other end has: all before ``following``."""
        while self._unreceived and self._unreceived[0][0] < following:
            del self._due_ns[self._unreceived.popleft()[0]]
