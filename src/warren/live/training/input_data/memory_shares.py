"""The memory of a host for each process's input data: one step of hill climbing, no clock.

*Source.* Harmony, 4.3.3: alpha = B_disk / B_total is kept below a bound and moved step by step by
measurements, with as few disk-blocks as the memory allows.

*Symbols.* alpha: 1 - ``held_bytes / data_bytes`` of a row; T_b_proc, T_b_load: ``use_ns`` and
``load_ns``, of a block; load stop time: ``stop_ppm``, of the time between two tasks.

*Differs.* Harmony moves each alpha against pressure of its own process (GC time). Here a budget of
the whole host takes the place of pressure: free memory goes to any process that can use it. If none
is free, processes that never stop for data give to those that do. So a step is of bytes, and its
only state is the table of the host's processes. Model data are not spilled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_WAITS_PPM: Final = 20_000
"""Stops for data, in millionths of the time, below which a process does not wait for memory."""
_CLEARLY: Final = 3
"""Factor by which one process must stop longer than another to get memory from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """One process's use of its host's memory.

    ``fixed_bytes``: all but input data that can be spilled; ``held_bytes`` of its ``data_bytes``
    are in memory. ``wants_bytes``: the bytes that it lacks; ``builds``: to build its app, otherwise
    for data. ``stop_ppm``: the part of the time that its tasks stop for data, in millionths.
    """

    fixed_bytes: int
    data_bytes: int = 0
    held_bytes: int = 0
    wants_bytes: int = 0
    stop_ppm: int = 0
    builds: bool = False

    @property
    def taken_bytes(self) -> int:
        """Return the bytes that it may take now."""
        return self.fixed_bytes + self.held_bytes


def free_bytes(budget_bytes: int, uses: Sequence[MemoryUse]) -> int:
    """Return the bytes that a budget leaves; below 0 if more is taken."""
    return budget_bytes - sum(use.taken_bytes for use in uses)


def alpha_bound(blocks: int, use_ns: float, load_ns: float) -> float:
    """Return the largest share of blocks on disk whose reading does not hold up their use.

    4.3.3: ``T_b_proc (B_total - 1) >= T_b_load (B_disk - 1)``, solved for ``B_disk / B_total``.

    Parameters
    ----------
    blocks : int
        B_total, at least 1.
    use_ns, load_ns : float
        T_b_proc and T_b_load, in ns; a load time of 0: not measured, so there is no bound.
    """
    if load_ns <= 0:
        return 1.0
    disk_blocks = 1 + use_ns * (blocks - 1) / load_ns
    return min(1.0, disk_blocks / blocks)


def next_held_bytes(
    own: MemoryUse,
    others: Sequence[MemoryUse],
    budget_bytes: int,
    step_bytes: int,
    bound: float = 1.0,
    *,
    gives: bool = True,
) -> int:
    """Return the bytes of its data that a process keeps in memory from now on.

    Whatever the table says, all processes that follow the answer one after another stay within the
    budget if they are within it. Otherwise they come back into it as far as data can.

    Parameters
    ----------
    own, others : MemoryUse, sequence of MemoryUse
        The process that asks, and all others of its host.
    budget_bytes : int
        Bytes that all of them may take.
    step_bytes : int
        Bytes of one step between processes.
    bound : float
        ``alpha_bound`` of this process: beyond it gives nothing to processes that stop for data.
    gives : bool
        Whether it may give them anything now: after a step its effect is measured first.
    """
    held, free = own.held_bytes, free_bytes(budget_bytes, [own, *others])
    builders = sum(other.wants_bytes for other in others if other.builds)
    lacking = builders - free
    if lacking > 0:
        # No process keeps more than its share by size of data: all together then fit.
        return min(held, _fair_bytes(own, others, budget_bytes - builders))
    if builders:  # what is free is for them
        return held
    waiting = [other for other in others if other.wants_bytes]
    room = min(free, own.data_bytes - held)
    if room > 0 and (waits(own) or not waiting):
        # At first by sizes; the remainder goes step by step to any process that can use it.
        fair = _fair_bytes(own, others, budget_bytes)
        return held + min(room, max(step_bytes, fair - held))
    # Nothing is free: a process that stops clearly less than another one gives a step.
    worst = max((other.stop_ppm for other in waiting), default=0)
    given = min(step_bytes, held)
    allowed = own.data_bytes - held + given <= bound * own.data_bytes
    needed = worst > _CLEARLY * own.stop_ppm + _WAITS_PPM and free < step_bytes
    if gives and needed and allowed:
        return held - given
    return held


def _fair_bytes(own: MemoryUse, others: Sequence[MemoryUse], budget_bytes: int) -> int:
    """Return a process's part, by size of its data, of the memory that is left for data."""
    uses = [own, *others]
    spare = budget_bytes - sum(use.fixed_bytes for use in uses)
    return max(0, spare) * own.data_bytes // max(1, sum(use.data_bytes for use in uses))


def waits(own: MemoryUse) -> bool:
    """Tell whether a process stops often enough for data on disk to want more of them here."""
    return own.stop_ppm >= _WAITS_PPM and own.held_bytes < own.data_bytes
