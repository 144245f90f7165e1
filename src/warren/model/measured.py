"""Times of the live engine of one machine beside tasks, and of a device between jobs. Immutable.

Where the time of a job's rounds goes, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import astuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Measured constants of a machine, in real time (decision 0010).

    ``cores``: of the machine. ``dispatch_ns``: from a task's end to the next one's start on a
    device that has work. ``task_cpu_ns`` and ``round_cpu_ns``: processor time of controller,
    executors and servers for a task and for a barrier, of a model of no bytes; each byte of the
    model adds 1 / ``task_cpu_bytes_per_s`` and 1 / ``round_cpu_bytes_per_s`` seconds (None:
    nothing). ``slowdown``: how much longer a task computes when all cores compute.

    A gang, the processes of a ring, starts in ``ring_start_ns`` and the processor time of its
    ranks, ``ring_rank_ns`` each; a gang for which other devices must be left takes ``ring_move_ns``
    more.
    """

    cores: int
    dispatch_ns: int = 0
    task_cpu_ns: int = 0
    round_cpu_ns: int = 0
    task_cpu_bytes_per_s: float | None = None
    round_cpu_bytes_per_s: float | None = None
    slowdown: float = 1.0
    ring_start_ns: int = 0
    ring_rank_ns: int = 0
    ring_move_ns: int = 0

    @property
    def of_gangs(self) -> bool:
        """Tell whether gangs take time to start."""
        return self.ring_start_ns + self.ring_rank_ns + self.ring_move_ns > 0

    @property
    def of_tasks(self) -> bool:
        """Tell whether constants of tasks are stated: a file may state constants of gangs alone."""
        # Without figures of gangs all that is stated is of tasks, even if it is zero everywhere.
        times_ns = self.dispatch_ns + self.task_cpu_ns + self.round_cpu_ns
        rates = self.task_cpu_bytes_per_s, self.round_cpu_bytes_per_s
        return bool(not self.of_gangs or times_ns or any(rates) or self.slowdown != 1.0)


SCHEMES: Final = ("default", "pipeswitch", "hare", "copied", "staged")
"""The ways to switch that ``warren.cost.switching`` has a closed form for."""
PCIE3_X16_BYTES_PER_S: Final = 15.75e9
"""The rate between main memory and every device of Hare's testbed (HPDC'22, section 7.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """Times of a switch in a simulation: by a scheme, else by ``time_ns`` of each device type.

    ``scheme`` is one of ``SCHEMES`` or empty; ``bus_bytes_per_s`` is the rate at which it loads a
    model.
    """

    scheme: str = ""
    bus_bytes_per_s: float = PCIE3_X16_BYTES_PER_S
    time_ns: Mapping[str, int] = field(default_factory=dict)


class PhaseTimes(msgspec.Struct, frozen=True, array_like=True):
    """Times of a job's rounds by phase, in real nanoseconds; 0: nothing was measured.

    ``computing_ns``: tasks compute gradients. ``data_ns``: they wait for their batches.
    ``copying_ns``: states and updates go from one memory to another. ``adding_ns``: updates are
    added. ``stepping_ns``: the optimizer steps. ``controller_ns``: the device has nothing to do
    until the controller's next decision. Phases that overlap count once, for what is waited for.
    """

    computing_ns: int = 0
    data_ns: int = 0
    copying_ns: int = 0
    adding_ns: int = 0
    stepping_ns: int = 0
    controller_ns: int = 0

    @property
    def total_ns(self) -> int:
        """The time of all phases."""
        return sum(astuple(self))

    def shares(self) -> dict[str, float]:
        """Return the share of each phase in the time of all, 0 to 1; empty if there is no time."""
        total_ns = self.total_ns
        names = (name.removesuffix("_ns") for name in self.__struct_fields__)
        times_ns = astuple(self)
        return {n: t / total_ns for n, t in zip(names, times_ns, strict=True) if total_ns}


def added(times: Iterable[PhaseTimes]) -> PhaseTimes:
    """Return the sums of times, phase by phase."""
    return PhaseTimes(*map(sum, zip(*map(astuple, times), strict=True)))
