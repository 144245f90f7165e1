"""An executor's reports to the controller, held back while a barrier needs the cores.

The controller decides and journals for longer than a small model's barrier takes. With few cores it
takes the core that a trainer is about to wake up on. So a device whose next task waits for that
barrier reports the last task a moment after the next has begun, or a little later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warren.live import run_clock
from warren.live.device.lanes import LaneTask
from warren.live.transport.messages import AnyMessage, CompEnded
from warren.live.transport.sockets import Link

HELD_NS: Final = 3_000_000
"""Longest delay of a report in real ns: a policy may have an answer for another device."""
SETTLED_NS: Final = 1_000_000
"""This long after its beginning a task has the core that it needs."""


def settled(work: LaneTask) -> bool:
    """Tell whether others may wake up without taking a core from a task that has just begun."""
    # The time of an emulated task is its pad's: it loses nothing if another process has the core.
    return not work.unpadded or run_clock.now_ns() >= work.began_ns + SETTLED_NS


class ReportBuffer:
    """Messages to the controller, in order."""

    def __init__(self, control: Link) -> None:
        self._control = control
        self._waiting: list[AnyMessage] = []
        self._held_ns = 0
        self.due_ns: int | None = None
        """Time at which the held reports must go; None: none are held."""

    def add(self, message: AnyMessage) -> None:
        """Add a message to report at the end of this turn."""
        self._waiting.append(message)

    def add_ended(self, work: LaneTask, end_ns: int) -> None:
        """Add that a task has left COMP."""
        self.add(
            CompEnded(
                seq=work.seq,
                round=work.round,
                shard=work.shard,
                start_ns=work.start_ns,
                end_ns=end_ns,
                overrun=work.overrun,
            )
        )

    def tell(self, comp: LaneTask | None, ahead: Sequence[LaneTask]) -> None:
        """Send all, unless the device had better not: ended tasks alone can wait.

        Parameters
        ----------
        comp, ahead
            The task that computes, and the head of the queue.
        """
        if not self._waiting:
            return
        now_ns = run_clock.now_ns()
        if self.due_ns is None:
            self._held_ns = now_ns
        due_ns = now_ns
        # Losses and failures never wait. Nor does the end of a task that no other follows here: the
        # policy may have one to give.
        if all(isinstance(message, CompEnded) for message in self._waiting):
            if comp is None and any(head.unpadded for head in ahead):
                due_ns = self._held_ns + HELD_NS
            elif comp is not None and comp.unpadded:
                due_ns = min(self._held_ns + HELD_NS, comp.began_ns + SETTLED_NS)
        if now_ns < due_ns:
            self.due_ns = due_ns
            return
        for message in self._waiting:
            self._control.send(message)
        self._waiting.clear()
        self.due_ns = None
