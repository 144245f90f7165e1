"""Where a job is in its life."""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """From arrival to end; nothing leads back."""

    PENDING = 0
    """Not arrived yet."""
    ACTIVE = 1
    """Arrived, rounds left."""
    FINISHED = 2
    FAILED = 3
    CANCELLED = 4

    @property
    def is_terminal(self) -> bool:
        """Nothing more will run."""
        return self >= Phase.FINISHED
