"""The length of a lease on either side, by clocks that need not agree."""

from __future__ import annotations

import msgspec


class LeaseTiming(msgspec.Struct, frozen=True):
    """The times of a run's leases.

    An agent counts from the time when it sent its question, the controller from its answer, which
    is later. So the clocks need not agree; only, neither may be wrong by more than ``drift`` of the
    time that passes.

    Attributes
    ----------
    lease_ns
        How long a lease stands.
    drift
        By how much at most a clock is too fast or too slow.
    """

    lease_ns: int
    drift: float = 1e-3

    @property
    def ask_ns(self) -> int:
        """Nanoseconds between two renewals, and before an unanswered message is repeated."""
        return self.lease_ns // 5

    @property
    def stop_ns(self) -> int:
        """Longest time in nanoseconds in which an agent must end all processes under it."""
        return self.lease_ns // 10

    @property
    def agent_ns(self) -> int:
        """Nanoseconds for which processes may run after the agent sent the answered question."""
        return self.lease_ns - self.stop_ns

    @property
    def controller_ns(self) -> int:
        """Nanoseconds for which the controller takes a lease to stand after its answer.

        The agent has ended all processes ``lease_ns`` after its question by its own clock. If that
        clock is too slow, and the controller's too fast, this much time passes on the controller's
        clock.
        """
        return round(self.lease_ns * (1 + self.drift) / (1 - self.drift))
