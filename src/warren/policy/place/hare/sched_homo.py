"""Sched_Homo: gangs in order of weight per GPU time, blind to the kind of GPU.

What
    Waiting jobs are ranked by gang size times expected run time, divided by weight, least first.
    The first takes as many free devices as its scale, whatever their type, and keeps them to its
    end; no later job passes it.
Source
    Hare (HPDC'22), section 7.1, "Sched_Homo"; after Zhang, Zhou, Wu, Jiao and Li, "Online
    scheduling of heterogeneous distributed machine learning jobs", MobiHoc'20.
Differs
    Hare gives two sentences: made for homogeneous GPUs, weighted completion time through
    parallelism between and within jobs, no preemption of jobs. Read into them: (1) Zhang et al.
    gather waiting jobs into batches and fill each with the most weight that fits. Here each job
    is a batch of its own and the order is that of their greedy choice, weight per GPU time. A
    batch that must end before the next begins would leave GPUs idle, and Hare's Fig. 16 has
    Sched_Homo close to Hare on equal GPUs. (2) Their number of workers is a choice; a job's scale
    is fixed here. (3) A round takes on every GPU the mean of its times over the cluster's devices
    that fit it. (4) GPUs are drawn from the free ones by the run's seed and the job's index, since
    the lowest index would favor the type that a cluster file names first. A job of more tasks
    than fitting devices takes all of them. It is asked at arrivals and ends, as an online
    algorithm is, and knows nothing of jobs to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from warren.model.view import View
from warren.policy.common.gangs_in_line import GangsInLine
from warren.policy.common.round_times import gang_size


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedHomo(GangsInLine):
    """Start the job of most weight for its GPU time first, as a gang on drawn devices."""

    name: ClassVar[str] = "sched-homo"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; Zhang et al. (MobiHoc'20)"
    first_are: ClassVar[str] = "have more weight for their GPU time"
    needs_rounds: ClassVar[bool] = True

    def rank(self, view: View, job: int) -> float:
        """Return gang size times run time, by weight: the least starts first."""
        # The inverse of weight per GPU time, by which Zhang et al. fill their batches: reading (1).
        gang = gang_size(view, job)
        rounds = view.rounds_J.item(job)
        return gang * rounds * blind_round_ns(view, job, gang) / view.weight_J.item(job)


def blind_round_ns(view: View, job: int, gang: int) -> float:
    """Return the time of one round of a job if all its devices were alike, in ns: the mean of them.

    Each member of the gang runs its share of the tasks, then one synchronization.
    """
    # Our reading (3): the mean over the devices that fit, since the algorithm knows one GPU type.
    fits_T = view.costs.fits_JT[job]
    count_T = fits_T * np.bincount(view.type_D, minlength=len(fits_T))
    devices = max(int(count_T.sum()), 1)
    comp_ns, sync_ns = (
        float((np.where(fits_T, time_JT[job], 0) * count_T).sum()) / devices
        for time_JT in (view.costs.comp_ns_JT, view.costs.sync_ns_JT)
    )
    return -(-view.scale_J.item(job) // max(gang, 1)) * comp_ns + sync_ns
