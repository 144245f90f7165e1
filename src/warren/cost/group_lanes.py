"""Lanes of a job group, step by step: which job computes and which communicates when.

A group has two lanes, CPU and network; a lane does one step at a time, in the order in which steps
were queued. A job's COMP is queued when its last COMM is over. Its COMM is queued after a delay
from the beginning of its COMP, chosen so that a job alone takes ``alone_s_J`` for an iteration:
when the COMP is over, where that is the sum of both, as (4.1) has it; before, where a job sends
while it computes; later, where its tasks are whole and its machines wait for the last one.

*Source.* Harmony (dissertation 2020), 4.3.1 and Fig. 4.7. Fig. 4.6 has a secondary COMM on the
network beside the primary one; here, as in (4.1), one COMM has all of it.

With constant times each job's iteration takes the time of (4.1), once the first few are over, if no
job waits for a last task. If one does, others may have two turns meanwhile, and iterations can be
longer or shorter than (4.1).

*Symbols.* Axes J: jobs; I: iterations.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from warren.model.costs import FloatArray

_COMP_END, _COMM_DUE, _COMM_END = range(3)
"""Events on lanes; those of one instant happen in this order."""
_ROUNDING: Final = 1e-9
"""Largest part by which a job alone may be quicker than its COMP, or its COMM: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLanes:
    """When the steps of each job begin, in seconds from the start of the first: (I,) a job."""

    comp_begin_s_I: tuple[FloatArray, ...]
    comm_begin_s_I: tuple[FloatArray, ...]


def group_lanes(
    comp_s_J: FloatArray, comm_s_J: FloatArray, alone_s_J: FloatArray, iterations: int
) -> GroupLanes:
    """Compute when steps begin, until each job has begun ``iterations`` of each; all queued at 0.

    A job that has more turns than others has more steps.

    Raises
    ------
    ValueError
        If a time is negative, or a job alone is quicker than its COMP or its COMM.
    """
    least_J = np.maximum(comp_s_J, comm_s_J)
    if min(comp_s_J.min(initial=0), comm_s_J.min(initial=0)) < 0:
        raise ValueError("a COMP or a COMM is negative")
    if (alone_s_J < least_J * (1 - _ROUNDING)).any():
        raise ValueError("a job alone is quicker than one of its steps")
    comp, comm = comp_s_J.tolist(), comm_s_J.tolist()
    due = np.maximum(alone_s_J - comm_s_J, 0.0).tolist()
    begins: tuple[list[list[float]], list[list[float]]] = ([[] for _ in comp], [[] for _ in comp])
    cpu, network = deque(range(len(comp))), deque[int]()
    computes = sends = False
    events: list[tuple[float, int, int]] = []
    now, left = 0.0, len(comp) if iterations > 0 else 0
    while left:
        if cpu and not computes:
            job, computes = cpu.popleft(), True
            begins[0][job].append(now)
            heappush(events, (now + comp[job], _COMP_END, job))
            heappush(events, (now + due[job], _COMM_DUE, job))
        if network and not sends:
            job, sends = network.popleft(), True
            begins[1][job].append(now)
            left -= len(begins[1][job]) == iterations
            heappush(events, (now + comm[job], _COMM_END, job))
        now, what, job = heappop(events)
        if what == _COMP_END:
            computes = False
        elif what == _COMM_DUE:
            network.append(job)
        else:
            sends = False
            cpu.append(job)
    return GroupLanes(
        comp_begin_s_I=tuple(np.array(one, dtype=float) for one in begins[0]),
        comm_begin_s_I=tuple(np.array(one, dtype=float) for one in begins[1]),
    )
