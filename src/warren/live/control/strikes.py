"""How often a job may lose its process before it counts as the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

LIMIT: Final = 3
RING_BROKE: Final = "it broke"
"""What a rank says that has lost the others, of whom none is known to have ended."""
FROM_OUTSIDE: Final = ("killed by SIGKILL", "killed by SIGTERM", RING_BROKE)


class Strikes:
    """Counts losses by job, and by what a lost process was doing for it.

    A process that ends by itself (an exit, SIGSEGV, SIGABRT) counts against its job for good. One
    that was killed may have had bad luck, and many may be killed at once: that counts against what
    it was doing (a task, a barrier), until the job passes a barrier that it has not passed before.
    """

    def __init__(self, passed: Callable[[int], int]) -> None:
        self._passed = passed
        self._own: Counter[int] = Counter()
        self._here: dict[int, Counter[tuple[int, ...]]] = {}
        self._furthest: dict[int, int] = {}

    def out(self, job: int, what: tuple[int, ...], how: str) -> bool:
        """Note one loss; True if it is one too many. ``what`` tells apart what processes do."""
        passed = self._passed(job)
        if passed > self._furthest.get(job, -1):
            self._furthest[job] = passed
            self._here[job] = Counter()
        self._here[job][what] += 1
        if how not in FROM_OUTSIDE:
            self._own[job] += 1
        return max(self._own[job], self._here[job][what]) >= LIMIT
