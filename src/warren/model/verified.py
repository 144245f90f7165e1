"""Which tasks of a live run are computed again: by a rule, so that a simulation knows them too.

See docs/decisions/0029.
"""

from __future__ import annotations

from typing import Final

from warren.model.draws import VERIFIED, draw_bits, stream_key

FIRST: Final = 2
"""So many tasks of a job are computed again whatever the share is."""


def is_drawn(job: int, round_no: int, shard: int, share: float) -> bool:
    """Tell whether a task is of the share: the same ones of a job in every run."""
    return draw_bits(stream_key(0, VERIFIED, job), round_no, shard) < share * 2.0**64


def can_tell(before: int, count: int) -> bool:
    """Tell whether a task can show anything: its trainer had computed ``before`` tasks, the second
    trainer ``count``. Where both are equal, what either keeps may be too."""
    return before != count


def is_taken(job: int, round_no: int, shard: int, count: int, share: float) -> bool:
    """Tell whether a task that can show something is computed again, if ``count`` have been."""
    return count < FIRST or is_drawn(job, round_no, shard, share)
