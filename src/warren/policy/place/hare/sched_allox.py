"""Sched_Allox: whole jobs matched to GPUs and places in their queues, each job on one GPU.

What
    Whenever a job arrives or ends and a device is free, the waiting jobs are matched to (device,
    place from the end of its queue) at least cost: place times the job's run time there, plus
    the time until the device is free. That is the least total completion time of the waiting
    jobs. Jobs matched first on a free device start and stay to their end. All tasks of a job run
    one after the other on its one device.
Source
    Hare (HPDC'22), section 7.1, "Sched_Allox"; Le, Sun, Chowdhury and Liu, AlloX, EuroSys'20.
Differs
    Hare gives one sentence: heterogeneity in full, no parallelism within a job. A round is
    therefore scale times T^c, then T^s. The matching is that of AlloX, solved again at arrivals
    and ends, which is how AlloX takes jobs that come later; running jobs are not moved. AlloX's
    sharing between users is left out: it looks at all waiting jobs (its alpha = 1), which gives
    its least mean JCT. It minimizes the unweighted sum; ``weighted`` puts the jobs of each device
    in order of run time by weight (Smith's rule) after the matching, which is ours. At most
    ``window`` waiting jobs are matched at a time, those with the shortest run time on their best
    device; the others could mostly come only behind them. 256 jobs on four types of devices take
    about 0.1 s, 64 take 2 ms; where all devices are alike to these jobs, nothing is solved, since
    the shortest job on the device that is free first is best.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.decision import Decision, Reason
from warren.model.events import Event, JobArrived, JobCancelled, JobFailed
from warren.model.view import View
from warren.policy.common.gang_holding import GangHolder, Holdings
from warren.policy.common.round_times import ROUND_TRIGGERS


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedAlloxMemory:
    """The waiting jobs, and the job that each device runs.

    ``waiting``: jobs in order of arrival, each with its run time in ns on its best device (divided
    by the weight, if ``weighted``); ``job_D`` the last job of each device, ``end_ns_D`` its end, as
    it was expected when the job started.
    """

    waiting: tuple[tuple[int, float], ...]
    holdings: Holdings
    job_D: IntArray
    end_ns_D: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedAllox:
    """Match waiting jobs, each on one device, for the least total completion time.

    ``window``: most waiting jobs that are matched at a time. ``weighted``: after the matching, the
    jobs of each device go in order of run time by weight.
    """

    window: int = 256
    weighted: bool = False

    name: ClassVar[str] = "sched-allox"
    source: ClassVar[str] = "Hare (HPDC'22) 7.1; AlloX (EuroSys'20)"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    holds_devices: ClassVar[bool] = True
    triggers: ClassVar[frozenset[type[Event]]] = ROUND_TRIGGERS

    def __post_init__(self) -> None:
        if not isinstance(self.window, int) or isinstance(self.window, bool) or self.window < 1:
            raise ValueError("window is a count of waiting jobs, 1 or more")
        if not isinstance(self.weighted, bool):
            raise ValueError("weighted is true or false")

    def initial(self, view: View) -> SchedAlloxMemory:
        """Return the memory before the first job: none waits, no device is held."""
        return SchedAlloxMemory(
            waiting=(),
            holdings=Holdings.none(view),
            job_D=np.full(len(view.type_D), -1, dtype=np.int64),
            end_ns_D=np.zeros(len(view.type_D), dtype=np.int64),
        )

    def rounds(self, view: View, jobs: IntArray) -> IntArray:
        """Return how many rounds jobs have, as far as this policy knows."""
        return view.rounds_J[jobs]

    def best_ns(self, view: View, job: int) -> float:
        """Return the run time in ns on the best device that there is; infinite if none fits.

        Divided by the job's weight, if ``weighted``.
        """
        jobs = np.array([job])
        here_T = np.bincount(view.type_D, minlength=view.costs.fits_JT.shape[1]) > 0
        run_ns_JT = np.where(here_T, _run_ns_JT(self, view, jobs), np.inf)
        weight = view.weight_J.item(job) if self.weighted else 1.0
        return float(run_ns_JT.min()) / weight

    def decide(self, view: View, memory: SchedAlloxMemory) -> tuple[Decision, SchedAlloxMemory]:
        """Keep running jobs; match again if a job came or went and a device is free."""
        holder = GangHolder(view, memory.holdings)
        released = holder.release_ended()
        holder.go_on()
        step = _Step(self, view, memory, holder)
        # The matching changes only when a job came, went or ended (AlloX); else nothing is solved.
        if not step.queue_up() and not released:
            return Decision(assign=tuple(holder.assign)), memory
        step.match()
        return Decision(assign=tuple(holder.assign), reasons=step.reasons()), step.memory()

    def explain(self, view: View, memory: SchedAlloxMemory, job: int) -> str:
        """Say in one sentence why this job is where it is."""
        if job in memory.holdings.by_job:
            return f"runs on {memory.holdings.names(view, job)} alone until it ends"
        if not view.arrived_J[job]:
            return "has not arrived yet"
        best_ns = dict(memory.waiting).get(job, np.inf)
        shorter = sum(1 for _, other_ns in memory.waiting if other_ns < best_ns)
        free = int(np.count_nonzero(~memory.holdings.held_D))
        return (
            f"waits for a device that suits it: {shorter} of {len(memory.waiting)} waiting jobs "
            f"are shorter, {free} devices are free"
        )


@dataclass(slots=True)
class _Step:
    """One decision in the making."""

    policy: SchedAllox
    view: View
    before: SchedAlloxMemory
    holder: GangHolder
    waiting: list[tuple[int, float]] = field(init=False)
    job_D: IntArray = field(init=False)
    end_ns_D: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = list(self.before.waiting)
        self.job_D, self.end_ns_D = self.before.job_D, self.before.end_ns_D

    def memory(self) -> SchedAlloxMemory:
        return replace(
            self.before,
            waiting=tuple(self.waiting),
            holdings=self.holder.after(),
            job_D=self.job_D,
            end_ns_D=self.end_ns_D,
        )

    def queue_up(self) -> bool:
        """Admit arrivals to the waiting jobs and remove ended ones; tell whether any changed."""
        changed = False
        for event in self.view.changes:
            if isinstance(event, JobArrived):
                best_ns = self.policy.best_ns(self.view, event.job)
                if np.isfinite(best_ns):
                    self.waiting.append((event.job, best_ns))
                    changed = True
            elif isinstance(event, JobFailed | JobCancelled):
                left = [one for one in self.waiting if one[0] != event.job]
                changed |= len(left) < len(self.waiting)
                self.waiting = left
        return changed

    def match(self) -> None:
        """Start the jobs that the matching puts first on free devices."""
        if not self.waiting or self.holder.held_D.all():
            return
        # scipy loads only when used.
        from warren.solve.assignment.bipartite import least_total_completion, queue_places

        # AlloX's bipartite graph: (device, place from the end of its queue) at the cost of place
        # times run time, plus the time until the device is free.
        view, jobs = self.view, self._shortest()
        run_ns_JT = _run_ns_JT(self.policy, view, jobs)
        found = least_total_completion(run_ns_JT, view.type_D, self._delay_ns_D())
        ahead_J = found.ahead_J
        # Ours: Smith's rule among the jobs of each device; which device has which stays.
        if self.policy.weighted:
            time_J = run_ns_JT[np.arange(len(jobs)), view.type_D[found.device_J]]
            ahead_J = queue_places(found.device_J, time_J / view.weight_J[jobs])
        # Only jobs that are first on a free device start; the others are matched again next time.
        first = (ahead_J == 0) & ~self.holder.held_D[found.device_J]
        self._start(jobs[first], found.device_J[first])

    def _shortest(self) -> IntArray:
        """Return the waiting jobs to match, the shortest ones, in order of arrival."""
        jobs = np.array([job for job, _ in self.waiting], dtype=np.int64)
        if len(jobs) <= self.policy.window:
            return jobs
        best_ns = np.array([best_ns for _, best_ns in self.waiting])
        nearest = np.argsort(best_ns, kind="stable")[: self.policy.window]
        return jobs[np.sort(nearest)]

    def _delay_ns_D(self) -> FloatArray:
        """Return the time until each device is expected to be free, in nanoseconds, 0 if it is.

        A job that is late is expected to take a round more.
        """
        view, held = self.view, np.flatnonzero(self.holder.held_D)
        jobs = self.job_D[held]
        round_ns = _round_ns(view, jobs, view.type_D[held])
        left_ns = self.end_ns_D[held] - view.now_ns
        left_ns = np.where(left_ns > 0, left_ns, round_ns)
        if self.policy.needs_rounds:
            left_ns = np.minimum(left_ns, (view.rounds_J[jobs] - view.round_J[jobs]) * round_ns)
        # At least 1 ns, since 0 would say that a held device is free.
        delay_ns_D = np.zeros(len(view.type_D))
        delay_ns_D[held] = np.maximum(left_ns, 1)
        return delay_ns_D

    def _start(self, jobs: IntArray, devices: IntArray) -> None:
        """Start jobs, each on one device, and note when each is expected to end."""
        view = self.view
        round_ns = _round_ns(view, jobs, view.type_D[devices])
        for job, device, turn in zip(
            jobs.tolist(), devices.tolist(), round_ns.tolist(), strict=True
        ):
            self.holder.start(job, [device], turn)
        self.job_D, self.end_ns_D = self.job_D.copy(), self.end_ns_D.copy()
        self.job_D[devices] = jobs
        self.end_ns_D[devices] = view.now_ns + self.policy.rounds(view, jobs) * round_ns
        started = set(jobs.tolist())
        self.waiting = [one for one in self.waiting if one[0] not in started]

    def reasons(self) -> dict[int, Reason]:
        """Give a reason for each arrival that waits."""
        came = {event.job for event in self.view.changes if isinstance(event, JobArrived)}
        return {job: Reason.WAITING_FOR_DEVICES for job, _ in self.waiting if job in came}


def _round_ns(view: View, jobs: IntArray, kinds: IntArray) -> IntArray:
    """Return the time of a round of each job alone on a device of this type, which fits it, in ns.

    All tasks one after the other, then one synchronization: scale T^c + T^s.
    """
    comp_ns, sync_ns = view.costs.comp_ns_JT[jobs, kinds], view.costs.sync_ns_JT[jobs, kinds]
    return view.scale_J[jobs] * comp_ns + sync_ns


def _run_ns_JT(policy: SchedAllox, view: View, jobs: IntArray) -> FloatArray:
    """Return the run time of these jobs alone on a device of each type, in ns.

    Infinite where they do not fit.
    """
    fits_JT = view.costs.fits_JT[jobs]
    comp_ns_JT, sync_ns_JT = (
        np.where(fits_JT, time_JT[jobs], 0)
        for time_JT in (view.costs.comp_ns_JT, view.costs.sync_ns_JT)
    )
    round_ns_JT = view.scale_J[jobs, None] * comp_ns_JT + sync_ns_JT
    run_ns_JT = (policy.rounds(view, jobs)[:, None] * round_ns_JT).astype(np.float64)
    return np.where(fits_JT, np.maximum(run_ns_JT, 1.0), np.inf)
