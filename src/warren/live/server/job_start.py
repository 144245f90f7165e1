"""When a job's first round begins: at its arrival, which the controller tells its servers."""

from __future__ import annotations

import time
from typing import Final

from warren.live.process.linux import sleep_until

_MS: Final = 1_000_000


class JobStart:
    """``at_ns`` is the arrival, by the host's clock; None: it is not known yet."""

    def __init__(self) -> None:
        self.at_ns: int | None = None

    def timeout_ms(self) -> int | None:
        """How long to wait for messages, at most; the last millisecond is slept here."""
        if self.at_ns is None:
            return None
        left_ns = self.at_ns - time.monotonic_ns()
        if left_ns < _MS:
            sleep_until(self.at_ns)
        return max(0, left_ns // _MS)

    def since_ns(self) -> int | None:
        """When the first round has begun; None: it has not."""
        if self.at_ns is None or time.monotonic_ns() < self.at_ns:
            return None
        return self.at_ns
