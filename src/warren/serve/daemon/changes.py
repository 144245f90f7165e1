"""Word of changes: what follows the queue waits here, without looking again and again."""

from __future__ import annotations

import asyncio


class Changes:
    """A count of changes of the queue, and a way to wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()
        self._waking: asyncio.Handle | None = None

    def note(self) -> None:
        """Count a change; all that wait go on in the next turn of the loop."""
        self.count += 1
        if self._waking is None:
            # Many changes of one turn wake the waiting coroutines once.
            self._waking = asyncio.get_running_loop().call_soon(self._wake)

    async def wait(self, seen: int) -> int:
        """Wait until there are more changes than ``seen``, and return their count."""
        while self.count <= seen:
            await self._next.wait()
        return self.count

    def _wake(self) -> None:
        self._waking = None
        self._next.set()
        self._next = asyncio.Event()
