"""The start of a round that a barrier alone does not begin: a job's first, or a delayed one."""

from __future__ import annotations

from warren.live import run_clock
from warren.live.process.linux import sleep_until
from warren.model.units import NS_PER_MS


class RoundStart:
    """The start of a round: ``at_ns`` by the host's monotonic clock; None: not known, or none.

    Of the first round it is the job's arrival, which the controller tells its servers.
    """

    def __init__(self) -> None:
        self.at_ns: int | None = None

    def timeout_ms(self) -> int | None:
        """Return how long to wait for messages at most, in ms; None: for ever.

        The last millisecond is slept here, since a poller waits for whole ones.
        """
        if self.at_ns is None:
            return None
        left_ns = self.at_ns - run_clock.now_ns()
        if left_ns < NS_PER_MS:
            sleep_until(self.at_ns)
        return max(0, left_ns // NS_PER_MS)

    def since_ns(self) -> int | None:
        """Return when the round has begun, by the host's clock; None: it has not."""
        if self.at_ns is None or run_clock.now_ns() < self.at_ns:
            return None
        return self.at_ns
