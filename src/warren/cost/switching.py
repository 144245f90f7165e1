"""Task switching: how long a device takes to go from one job's task to another job's.

A switch cleans up after the last job, makes the next one's environment ready and brings its model
from main memory to the device. With S bytes of model over a bus of B bytes a second::

    switch = fixed + exposed * S / B

*Source.* Hare (HPDC'22): section 4 for the three schemes, Table 3 for their mean times of eight
models, 7.1 for B = 15.75 GB/s (PCIe 3 x16).

- ``default`` stops a process and starts another, one step after the other: context, launch,
  allocation, then the whole transfer (exposed = 1). ``fixed`` is Table 3's mean less that of the
  transfers. The table's times follow the model's size only weakly, from 0.65 to 1.8 of the form.
- ``pipeswitch`` keeps contexts ready and sends a model layer by layer while it computes, so that
  part of the transfer is hidden. Both constants are the least squares fit to Table 3 (R2 0.95).
- ``hare`` also frees each layer's memory early and keeps models on the device. Fitted likewise (R2
  0.76). Both are in the means of Table 3, so neither is modeled on its own.

- ``copied`` and ``staged`` are Warren's own, measured on an NVIDIA H200 whose bus copies 55.2 GB/s
  (see the page of reproduction on GPUs). *copied*: the state is copied when its task begins, in
  pieces or whole, whichever is sooner; by the least squares fit to eight models (R2 0.51).
  *staged*: the state was brought there while another job computed; the largest of the eight
  medians, since they do not follow the size.

*Differs.* The sizes are those of the shipped profile, since the paper prints none. The device type
of Table 3 is not stated; here it does not matter, because all types share a bus of the same speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.errors import Problem, SpecError
from warren.model.measured import Switching
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S, seconds_to_ns


@dataclass(frozen=True, slots=True)
class Scheme:
    """Time of a switch in a scheme: ``fixed_s``, and the part ``exposed`` of a transfer.

    The share of the model's transfer that no computation hides, from 0 to 1.
    """

    fixed_s: float
    exposed: float


SCHEMES: Final[Mapping[str, Scheme]] = {
    # Fixed seconds and exposed share, from Table 3 as the head of this file says.
    "default": Scheme(5.866, 1.0),
    "pipeswitch": Scheme(0.00279, 0.391),
    "hare": Scheme(0.00170, 0.159),
    # docs/background/reproduction/gpu.md
    "copied": Scheme(0.000193, 0.275),
    "staged": Scheme(0.000912, 0.0),
}


def switch_s(scheme: str, model_bytes: int, bus_bytes_per_s: float) -> float:
    """Return the time of a switch to a job whose model has ``model_bytes`` bytes, in seconds."""
    # fixed + exposed * S / B, the form at the head of this file.
    form = SCHEMES[scheme]
    return form.fixed_s + form.exposed * model_bytes / bus_bytes_per_s


def with_switching(run: Run, costs: CostTable) -> CostTable:
    """Return the costs with the times of switches, where the run's cluster charges them.

    A job whose bytes are unknown counts as having none.

    Raises
    ------
    SpecError
        If a job that switched before every task would take longer than time can count.
    """
    switching = run.cluster.switching
    if switching is None:
        return costs
    # By a scheme a switch depends on the model alone; else the cluster states a time a type.
    switch_ns_JT = np.zeros(costs.comp_ns_JT.shape, dtype=np.int64)
    if switching.scheme:
        switch_ns_JT += _by_size(switching, costs)[:, None]
    else:
        switch_ns_JT += [switching.time_ns[name] for name in run.cluster.type_names]
    charged = replace(costs, switch_ns_JT=switch_ns_JT)
    _check_lengths(run, charged, switch_ns_JT)
    return charged


def _by_size(switching: Switching, costs: CostTable) -> IntArray:
    """Return the time of a switch to each job by the cluster's scheme, in nanoseconds."""
    jobs, known = len(costs.comp_ns_JT), costs.model_bytes_J
    sizes = [0] * jobs if known is None else known.tolist()
    bus = switching.bus_bytes_per_s
    times_ns = [_whole_ns(switch_s(switching.scheme, size, bus)) for size in sizes]
    return np.array(times_ns, dtype=np.int64)


def _whole_ns(seconds: float) -> int:
    """Return whole nanoseconds; ``NEVER_NS`` for a time that is too long to count."""
    try:
        return seconds_to_ns(seconds)
    except ValueError:
        # Not an error yet: the check of lengths will name the job.
        return NEVER_NS


def _check_lengths(run: Run, costs: CostTable, switch_ns_JT: IntArray) -> None:
    """Refuse a job that would overflow the clock if it switched before each of its tasks."""
    for job in run.workload.jobs:
        fits_T = costs.fits_JT[job.index]
        task_ns_T = costs.comp_ns_JT[job.index] + costs.sync_ns_JT[job.index]
        switch_ns = int(switch_ns_JT[job.index][fits_T].max(initial=0))
        task_ns = int(task_ns_T[fits_T].max(initial=0)) + switch_ns
        # The most that the job can take, as if it switched before each task: it must be countable.
        if (job.rounds or 1) * job.scale * task_ns + job.arrival_ns >= NEVER_NS:
            message = (
                f"{switch_ns / NS_PER_S:g} s before each task of job {job.name} would come to "
            )
            raise SpecError(
                Problem(
                    file=run.name,
                    field="cluster.switching",
                    message=f"{message}more than 146 years",
                )
            )
