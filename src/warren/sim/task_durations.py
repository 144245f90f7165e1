"""One device during one round of one job: when its COMP lane and its COMM lane are done."""

from __future__ import annotations

from warren.model.costs import CostTable
from warren.model.draws import COMP, SYNC, stream_key
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.sim.truth import cv_to_ppm, factor_ppm, scaled, true_costs


def check_simulable(run: Run) -> None:
    """Refuse what the simulator cannot run.

    Raises
    ------
    SpecError
        For copies of late tasks where switching is charged (a task that waits for a switch is not
        late) or jobs are rings, for overheads where jobs are rings, and for each job without a
        number of rounds.
    """
    problems = []
    rings = any(job.sync == "ring" for job in run.workload.jobs)
    if run.cluster.switching is not None and run.scheduler.copies_after is not None:
        message = "not with cluster.switching; allowed: one of the two"
        problems.append(Problem(file=run.name, field="scheduler.copies_after", message=message))
    if rings and run.scheduler.copies_after is not None:
        message = "not with jobs of sync: ring, whose tasks wait for each other"
        problems.append(Problem(file=run.name, field="scheduler.copies_after", message=message))
    if rings and run.cluster.raises_times:
        message = (
            "says nothing of tasks of sync: ring; allowed with them: null, or only cores and ring_*"
        )
        problems.append(Problem(file=run.name, field="cluster.overheads", message=message))
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


class Lanes:
    """True times of a run, as plain integers. ``noisy``: tasks of one job differ."""

    __slots__ = ("_comp", "_comp_key", "_cv_ppm", "_is_lane", "_sync", "_sync_key", "noisy")

    def __init__(self, run: Run, costs: CostTable) -> None:
        truth = run.truth
        true = true_costs(run, costs)
        jobs = range(len(run.workload.jobs))
        self._comp: list[list[int]] = true.comp_ns_JT.tolist()
        self._sync: list[list[int]] = true.sync_ns_JT.tolist()
        self._cv_ppm = cv_to_ppm(truth.task_cv)
        self._is_lane = run.cluster.network.model == "lane"
        self.noisy = self._cv_ppm > 0
        self._comp_key = [stream_key(truth.seed, COMP, job) for job in jobs] if self.noisy else []
        self._sync_key = [stream_key(truth.seed, SYNC, job) for job in jobs] if self.noisy else []

    def run_round(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        """End of the last COMP and of the last synchronisation, ns.

        The tasks ``shards`` run back to back from ``start`` on a device of type ``kind`` whose
        COMM lane is free from ``comm_free`` on.
        """
        if self.noisy:
            return self._run_noisy(job, round_, shards, kind, start, comm_free)
        comp, sync = self._comp[job][kind], self._sync[job][kind]
        count = len(shards)
        comp_end = start + count * comp
        end = comp_end + sync
        if self._is_lane:
            # Task k's sync can start at start + k comp, which is linear in k: the longest wait
            # begins with the first or the last task, or with what the lane still carries.
            end = max(end, max(start + comp, comm_free) + count * sync)
        return comp_end, end

    def _run_noisy(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        comp, sync = self._comp[job][kind], self._sync[job][kind]
        end = comp_end = start
        for shard in shards:
            comp_end += scaled(comp, factor_ppm(self._comp_key[job], round_, shard, self._cv_ppm))
            sync_ns = scaled(sync, factor_ppm(self._sync_key[job], round_, shard, self._cv_ppm))
            if self._is_lane:
                comm_free = end = max(comm_free, comp_end) + sync_ns
            else:
                end = max(end, comp_end + sync_ns)
        return comp_end, end
