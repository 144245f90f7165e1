"""Share work among threads where processors would wait: its parts do not depend on each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_T = TypeVar("_T")
HELPERS: Final = 4
"""Most threads that share the work of a process if GPUs compute: processors wait then."""
_WORTH_BYTES: Final = 8 << 20
"""With less the caller is done in about a millisecond."""
_SHARES: Final = 2
"""Shares for each thread, so that a slower thread takes fewer."""


class Helpers:
    """Threads of one process; each part of some work is done by one of them, in one go.

    The result of a part must not depend on the others, and its function must let other threads run:
    functions of torch, of the hash library and ``memmove`` do. ``count`` below two: the caller does
    all of it.
    """

    def __init__(self, count: int) -> None:
        self._count = min(count, len(os.sched_getaffinity(0)))
        self._threads = ThreadPoolExecutor(self._count) if self._count > 1 else None

    def share(self, size_bytes: int) -> bool:
        """Tell whether there are threads, and the work is large enough to share."""
        return self._threads is not None and size_bytes >= _WORTH_BYTES

    def shares(self, sizes: Sequence[int]) -> list[list[int]]:
        """Deal out parts of these sizes, so that shares are about equal; return them by number."""
        order = sorted(range(len(sizes)), key=lambda at: sizes[at])
        count = _SHARES * max(1, self._count)
        return [order[begin::count] for begin in range(count)]

    def each(self, work: Callable[[int], _T], sizes: Sequence[int]) -> list[_T]:
        """Do part 0, 1, ... of some work, of these sizes in bytes; return the result of each."""
        if self._threads is None or not self.share(sum(sizes)):
            return [work(at) for at in range(len(sizes))]
        shares = self.shares(sizes)
        found = self._threads.map(lambda share: [(at, work(at)) for at in share], shares)
        done = dict(pair for pairs in found for pair in pairs)
        return [done[at] for at in range(len(sizes))]


ALONE: Final = Helpers(0)
"""No threads."""
