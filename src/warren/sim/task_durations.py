"""The true times of tasks, which no policy sees, and when their device's lanes are done.

A task's time is the profile's time multiplied by two factors. The factor for (job, device type)
stands for a wrong profile; the factor for (job, round, shard) is the same on every device. Factors
are parts per million, drawn by a counter: a hash of their job and task, never a generator whose
state depends on the order of drawing. Only integers are used, so every machine agrees to the bit.

``warren.solve.common.random`` holds the compiled twin of these functions; a test demands equality.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warren.model.costs import CostTable, IntArray
from warren.model.draws import COMP, COMP_JOB, SYNC, SYNC_JOB, draw_bits, more_bits, stream_key
from warren.model.errors import Problem, SpecError
from warren.model.run import Run

PPM: Final = 1_000_000
"""Parts in a factor of one."""
FLOOR_PPM: Final = 50_000
"""No task takes less than 5 % of its profile time."""
_MEAN: Final = 12 * 65535 // 2
"""The mean of a sum of twelve uniform 16-bit numbers."""


def factor_ppm(key: int, first: int, second: int, cv_ppm: int) -> int:
    """Return a factor in parts per million for counters ``first`` and ``second`` of a stream.

    The sum of twelve uniform 16-bit numbers (Irwin-Hall) has mean 6 x 65535 and standard
    deviation 65536 to within 1e-9, so it is close to a normal draw cut at six deviations.
    Cutting at ``FLOOR_PPM`` raises the mean a little where ``cv_ppm`` is above some 300,000.
    """
    # 1 + cv x z, with z in 65536ths: the shift by 16 bits divides by the standard deviation.
    return max(FLOOR_PPM, PPM + (cv_ppm * deviation(key, first, second) >> 16))


def deviation(key: int, first: int, second: int) -> int:
    """Draw a nearly normal number of mean 0, in 65536ths of its standard deviation."""
    drawn = draw_bits(key, first, second)
    total = 0
    # Three outputs of 64 bits are twelve fields of 16.
    for counter in (1, 2, 3):
        bits = more_bits(drawn, counter)
        total += (bits & 65535) + (bits >> 16 & 65535) + (bits >> 32 & 65535) + (bits >> 48)
    return total - _MEAN


def scaled(time_ns: int, ppm: int) -> int:
    """Return ``time_ns * ppm // 10**6``, as the compiled twin computes it without overflow."""
    return time_ns * ppm // PPM


def cv_to_ppm(cv: float) -> int:
    """Return a coefficient of variation as parts per million."""
    return round(cv * PPM)


def true_costs(run: Run, costs: CostTable) -> CostTable:
    """Return the costs of each (job, type) times its hidden factor; task noise comes on top."""
    truth = run.truth
    cv_ppm = cv_to_ppm(truth.job_cv)
    if cv_ppm == 0:
        return costs
    return CostTable(
        comp_ns_JT=_scaled_matrix(costs.comp_ns_JT, costs, truth.seed, COMP_JOB, cv_ppm),
        sync_ns_JT=_scaled_matrix(costs.sync_ns_JT, costs, truth.seed, SYNC_JOB, cv_ppm),
        fits_JT=costs.fits_JT,
    )


def _scaled_matrix(
    time_ns_JT: IntArray, costs: CostTable, seed: int, kind: int, cv_ppm: int
) -> IntArray:
    """Return times multiplied by the factor of each pair that fits."""
    result = np.array(time_ns_JT, dtype=np.int64)
    # Only pairs that fit: NEVER_NS must not change.
    for job, kind_of_device in zip(*np.nonzero(costs.fits_JT), strict=True):
        factor = factor_ppm(stream_key(seed, kind, int(job)), int(kind_of_device), 0, cv_ppm)
        result[job, kind_of_device] = scaled(int(time_ns_JT[job, kind_of_device]), factor)
    return result


def check_simulable(run: Run) -> None:
    """Refuse runs that the simulator cannot run.

    Raises
    ------
    SpecError
        For copies of late tasks where switching is charged (a task that waits for a switch is not
        late), and for each job without a number of rounds.
    """
    problems = []
    if run.cluster.switching is not None and run.scheduler.copies_after is not None:
        message = "not with cluster.switching; allowed: one of the two"
        problems.append(Problem(file=run.name, field="scheduler.copies_after", message=message))
    problems += [
        Problem(
            file=run.name,
            field=f"job {job.name}: rounds",
            message="not stated; a simulated job needs its true number of rounds, 1 or more",
        )
        for job in run.workload.jobs
        if job.rounds is None or job.rounds < 1
    ]
    if problems:
        raise SpecError(problems)


class TaskDurations:
    """``warren.sim.parts.Durations``: the true times of a run, as plain integers."""

    __slots__ = (
        "_comp",
        "_comp_key",
        "_cv_ppm",
        "_is_lane",
        "_sync",
        "_sync_key",
        "changing",
        "noisy",
    )

    def __init__(self, run: Run, costs: CostTable) -> None:
        truth = run.truth
        true = true_costs(run, costs)
        jobs = range(len(run.workload.jobs))
        self._comp: list[list[int]] = true.comp_ns_JT.tolist()
        self._sync: list[list[int]] = true.sync_ns_JT.tolist()
        self._cv_ppm = cv_to_ppm(truth.task_cv)
        self._is_lane = run.cluster.network.model == "lane"
        self.noisy = self._cv_ppm > 0
        self.changing = False
        self._comp_key = [stream_key(truth.seed, COMP, job) for job in jobs] if self.noisy else []
        self._sync_key = [stream_key(truth.seed, SYNC, job) for job in jobs] if self.noisy else []

    def run_round(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        """Return the ends of the last COMP and synchronization, ns; see ``Durations``."""
        if self.noisy:
            return self._run_noisy(job, round_, shards, kind, start, comm_free)
        comp, sync = self._comp[job][kind], self._sync[job][kind]
        count = len(shards)
        comp_end = start + count * comp
        end = comp_end + sync
        if self._is_lane:
            # Task k's sync can start at start + k comp, which is linear in k: the longest wait
            # begins with the first or the last task, or with the earlier load of the lane.
            end = max(end, max(start + comp, comm_free) + count * sync)
        return comp_end, end

    def _run_noisy(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        """Return the same with a factor for each task, so one task after the other."""
        comp, sync = self._comp[job][kind], self._sync[job][kind]
        end = comp_end = start
        for shard in shards:
            comp_end += scaled(comp, factor_ppm(self._comp_key[job], round_, shard, self._cv_ppm))
            sync_ns = scaled(sync, factor_ppm(self._sync_key[job], round_, shard, self._cv_ppm))
            # ``lane``: a synchronization waits for its task and for the one before it. Elsewhere
            # it waits for its task alone, and the longest of all ends last.
            if self._is_lane:
                comm_free = end = max(comm_free, comp_end) + sync_ns
            else:
                end = max(end, comp_end + sync_ns)
        return comp_end, end
