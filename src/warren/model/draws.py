"""Draws without a generator: a hash of integers, so that no order of drawing matters.

A draw belongs to (seed, kind, job, two counters) and to nothing else. Only integers are used, so
every machine agrees to the bit (decision 0006).

Which tasks of a live run are computed again: by a rule, so that a simulation knows them too.

See decision 0029.
"""

from __future__ import annotations

from typing import Final

# The numbers enter the hash: a kind may be added at the end, and none may move.
COMP, SYNC, COMP_JOB, SYNC_JOB, JITTER, LOSS, LOSS_NOISE, VERIFIED, RESAMPLED = range(9)
"""Purposes of draws; each has its own stream."""
_MASK: Final = 2**64 - 1


def mix(value: int) -> int:
    """Return one step of splitmix64 (Steele, Lea and Flood 2014) of an unsigned 64-bit number."""
    # The constants are the published ones: the golden ratio times 2**64, then the two multipliers
    # of the finalizer. Python's integers do not overflow, so each product is cut to 64 bits.
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def stream_key(seed: int, kind: int, job: int) -> int:
    """Return the start of the stream of one job and kind, from which ``draw_bits`` goes on."""
    return mix((mix((mix(seed & _MASK) + kind) & _MASK) + job) & _MASK)


def draw_bits(key: int, first: int, second: int) -> int:
    """Return the 64 bits that belong to counters ``first`` and ``second`` of a stream."""
    return mix((mix((key + first) & _MASK) + second) & _MASK)


def more_bits(bits: int, counter: int) -> int:
    """Return another 64 bits of the same draw, for ``counter`` 1, 2, ..."""
    return mix((bits + counter) & _MASK)


FIRST: Final = 2
"""Tasks of a job that are computed again whatever the share is."""


def is_drawn(job: int, round_no: int, shard: int, share: float) -> bool:
    """Tell whether a task belongs to the share: the same tasks of a job in every run."""
    # Seed 0, not the run's: so the same tasks are drawn in every run.
    return draw_bits(stream_key(0, VERIFIED, job), round_no, shard) < share * 2.0**64


def can_tell(before: int, count: int) -> bool:
    """Tell whether a task can show anything when it is computed again.

    Its trainer had computed ``before`` tasks, the second trainer ``count``.
    """
    # If both are equal, values that either process keeps (a counter, a generator) may be equal too.
    return before != count


def is_taken(job: int, round_no: int, shard: int, count: int, share: float) -> bool:
    """Tell whether a task that can show something is computed again, if ``count`` have been."""
    return count < FIRST or is_drawn(job, round_no, shard, share)
