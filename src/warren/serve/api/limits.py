"""Limits to how often something may happen, for callers that fail again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

KEYS_MAX: Final = 10_000
"""Most keys remembered; the oldest is forgotten first."""

_NS_PER_S: Final = 1_000_000_000


class RateLimit:
    """Counts events by key over the last ``window_s`` seconds.

    Parameters
    ----------
    most
        Most events of a key within the window.
    window_s
        Length of the window in seconds.
    now_ns
        The clock, in nanoseconds.
    """

    def __init__(self, most: int, window_s: float, now_ns: Callable[[], int]) -> None:
        self.most = most
        self.window_s = window_s
        self._now_ns = now_ns
        self._times: dict[str, deque[int]] = {}

    def wait_s(self, key: str) -> float:
        """Return the seconds until another event of this key is allowed; 0 if it is now."""
        times = self._recent(key)
        if len(times) < self.most:
            return 0.0
        return max(0.001, self.window_s - (self._now_ns() - times[0]) / _NS_PER_S)

    def add(self, key: str) -> bool:
        """Count an event; return whether it was within the limit."""
        times = self._recent(key)
        if len(times) >= self.most:
            return False
        if key not in self._times and len(self._times) >= KEYS_MAX:
            del self._times[next(iter(self._times))]
        times.append(self._now_ns())
        self._times[key] = times
        return True

    def _recent(self, key: str) -> deque[int]:
        times = self._times.get(key)
        if times is None:
            return deque()
        oldest = self._now_ns() - int(self.window_s * _NS_PER_S)
        while times and times[0] <= oldest:
            times.popleft()
        if not times:
            del self._times[key]
        return times
