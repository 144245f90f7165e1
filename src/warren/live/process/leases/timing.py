"""How long a lease stands on either side, by clocks that need not agree."""

from __future__ import annotations

import msgspec


class LeaseTiming(msgspec.Struct, frozen=True):
    """The times of a run's leases.

    An agent counts from when it sent its question, the controller from when it answered, which is
    later; so no agreement of clocks is needed, but that neither is wrong by more than ``drift`` of
    what passes.

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
        """How often it is renewed, and how soon what was not answered is said again."""
        return self.lease_ns // 5

    @property
    def stop_ns(self) -> int:
        """How long an agent may take to end all that runs under it."""
        return self.lease_ns // 10

    @property
    def agent_ns(self) -> int:
        """How long an agent lets things run after it sent the question that was answered."""
        return self.lease_ns - self.stop_ns

    @property
    def controller_ns(self) -> int:
        """How long the controller takes a lease to stand after it answered.

        The agent has ended all ``lease_ns`` after its question by its own clock. Should that be too
        slow, and the controller's too fast, so much passes on the latter.
        """
        return round(self.lease_ns * (1 + self.drift) / (1 - self.drift))
