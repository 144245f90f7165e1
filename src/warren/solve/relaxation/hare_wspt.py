"""Stand in for Hare's relaxation (9) on instances that are too large for its linear programs.

Algorithm 1 takes only an order from the relaxation: that of the middle times H. With one GPU, no
rounds and (9) for every subset, the relaxation is solved by preemptive WSPT (Goemans 1996), whose
mean busy times are the H of the jobs. The stand-in does this with the whole cluster as one fast
machine (``machine_load``: speeds of the types from the area linear program), and spreads each job's
rounds evenly about its mean busy time. A step is the machine's time for a round or the round's
least time q (``round_time``), whichever is longer. No round is before the job's arrival, as (4) has
it. So (7) holds between rounds. All tasks of a round have one H.

Two things are lost: the assignment y, and how rounds of one job give way to those of another. It
has no objective that could be compared with the relaxation's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warren.solve.bounds.columns import bound_jobs
from warren.solve.bounds.machine_load import area_speeds, volumes
from warren.solve.bounds.mean_busy_time import mean_busy_delays
from warren.solve.common.arrays import FloatArray, IntArray


def stand_in_middles(**columns: Any) -> tuple[IntArray, IntArray, FloatArray]:
    """Return job, round and H of all rounds, jobs in order.

    H is in float seconds since the first arrival. ``columns`` are those of ``bounds.lower_bounds``;
    every job has rounds and fits somewhere. Raises ValueError if a job has no rounds or fits
    nowhere.
    """
    jobs = bound_jobs(**columns)
    if jobs is None or len(jobs.rounds_J) != len(columns["rounds_J"]):
        raise ValueError("a job has no rounds or fits no device")
    volume_J = volumes(jobs, area_speeds(jobs))
    # Mean busy times under preemptive WSPT (Goemans 1996), the cluster being one machine.
    delay_J = mean_busy_delays(jobs.arrival_ns_J, jobs.weight_J, volume_J)
    # Rounds are evenly spread: each takes its part of the machine's time, but at least q.
    step_J = np.maximum(volume_J, jobs.path_s_J) / jobs.rounds_J
    # The rounds lie evenly about the mean busy time. By (4) none begins before the arrival: the
    # first one's H is half a step behind it, or half the delay where that is shorter.
    first_J = jobs.arrival_s_J + np.maximum(
        delay_J - (jobs.rounds_J - 1) / 2 * step_J, np.minimum(step_J, delay_J) / 2
    )
    rounds_J = columns["rounds_J"]
    job_G = np.repeat(np.arange(len(rounds_J)), rounds_J)
    round_G = np.arange(len(job_G)) - np.repeat(np.cumsum(rounds_J) - rounds_J, rounds_J)
    return job_G, round_G, first_J[job_G] + round_G * step_J[job_G]
