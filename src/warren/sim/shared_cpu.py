"""Devices that share one machine, where a task's time depends on how many devices are at work.

A device is at work from a task's start to the end of its synchronization: it computes, then
Warren's own processes compute for it, and if its job goes on there the next task starts at once. It
is not at work while its queue waits longer, for other devices at a barrier or for a job to arrive:
then no process computes for it. A task's time follows from the number of devices at work when it
starts. They are counted once all else of that instant is known: which tasks are done, which a
barrier released, which were assigned. So no order among equals decides. Tasks of one round that a
device runs back to back count when the first of them starts.

A task that follows one of another job on its device finds its data in no cache. The extra time was
measured with its row, and is spent before it starts; a copy of a late task pays nothing.

A device that computes a task again (``warren.sim.verified_tasks``) is at work, and begins nothing
else before it is done.

A stretch of several rounds counts in every round, and its devices are at work until it ends. Its
rounds between two changes of the number are alike and are taken in one step: ``warren.sim.lanes``.

*The cost.* A profile row measured alone states T^c, the time a task computes on an idle machine,
and T^s, the time between its end and its job's next round: update out, barrier, next state in. Two
things are not in it. While a device has other work its COMP lane waits for the next task to be
handed over, or, when all cores are busy, for the processor time ``o`` of controller, executors and
servers; and a task computes more slowly when the other cores compute too. For b devices at work on
P cores::

    y    = T^c (1 + (slowdown - 1) (min(b, P) - 1) / (P - 1))
    o    = as measured with the row, or from the constants:
           task + bytes / task_rate + (round + bytes / round_rate) / scale
    x    = max(dispatch, (y + o) b / P - y)   where b >= P, else dispatch
    T^c' = y + x
    T^s' = max(0, T^s - dispatch)

Handing over was part of T^s when the job ran alone, so it is taken out there: with cores to spare a
job alone takes T^c + T^s as measured. The rest of x is not: the time that o takes from tasks on a
full machine comes on top of a barrier's latency. decision 0010 lists the effects that this
leaves out.

*Rings.* A rank receives nothing between rounds, and no server computes for it. So for a ring
``dispatch`` and ``o`` are 0: its tasks are slowed by other cores at work, they share the processors
where these are fewer than the devices at work, and its exchange takes its usual time. Its devices
are at work from when the last of them has come until its stretch ends, exchanges included, and slow
others for that time; they are not while they wait for one another. A round keeps the time it began
with. Second trainers of rings are not timed. No live run has been compared with this yet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.errors import Problem, SpecError
from warren.model.measured import Overheads
from warren.model.run import Run
from warren.model.units import NEVER_NS, NS_PER_S
from warren.sim.task_durations import TaskDurations


def raised_costs(run: Run, costs: CostTable, at_work: int) -> CostTable:
    """Return the costs of a run with measured overheads while ``at_work`` (>= 1) devices are.

    Raises
    ------
    SpecError
        If a job would then take longer than time can count.
    """
    overheads = run.cluster.overheads
    assert overheads is not None, "without them nothing is raised"
    # Ranks go from round to round by themselves, so nothing is handed over to them.
    ranks = replace(overheads, dispatch_ns=0)
    comp_ns_JT, sync_ns_JT = np.array(costs.comp_ns_JT), np.array(costs.sync_ns_JT)
    for job, kind in zip(*np.nonzero(costs.fits_JT), strict=True):
        comp_ns, sync_ns = int(comp_ns_JT[job, kind]), int(sync_ns_JT[job, kind])
        # For a ring ``dispatch`` and ``o`` are 0: no server computes for it.
        if run.workload.jobs[job].sync == "ring":
            raised = raised_ns(ranks, at_work, comp_ns, sync_ns, 0.0)
        else:
            cpu_ns = _cpu_ns(run, costs, overheads, int(job), int(kind))
            raised = raised_ns(overheads, at_work, comp_ns, sync_ns, cpu_ns)
        _check_length(run, int(job), sum(raised))
        comp_ns_JT[job, kind], sync_ns_JT[job, kind] = raised
    return CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=sync_ns_JT,
        fits_JT=costs.fits_JT,
        model_bytes_J=costs.model_bytes_J,
        overhead_ns_JT=costs.overhead_ns_JT,
        build_ns_JT=costs.build_ns_JT,
        step_ns_J=costs.step_ns_J,
    )


def _cpu_ns(run: Run, costs: CostTable, overheads: Overheads, job: int, kind: int) -> float:
    """Return ``o`` as it was measured with the job's row (-1: was not), else by the constants."""
    if costs.overhead_ns_JT is not None and costs.overhead_ns_JT[job, kind] >= 0:
        return float(costs.overhead_ns_JT[job, kind])
    model_bytes = 0 if costs.model_bytes_J is None else int(costs.model_bytes_J[job])
    return processor_ns(overheads, model_bytes, run.workload.jobs[job].scale)


def processor_ns(overheads: Overheads, model_bytes: int, scale: int) -> float:
    """Return ``o``: processor time that Warren's own processes spend on one task, nanoseconds."""
    # o = task + bytes / task_rate + (round + bytes / round_rate) / scale: the work of once a round
    # is shared by its tasks.
    task_s_per_byte = _inverse(overheads.task_cpu_bytes_per_s)
    round_s_per_byte = _inverse(overheads.round_cpu_bytes_per_s)
    task_ns = overheads.task_cpu_ns + model_bytes * task_s_per_byte * NS_PER_S
    round_ns = overheads.round_cpu_ns + model_bytes * round_s_per_byte * NS_PER_S
    return task_ns + round_ns / scale


def raised_ns(
    overheads: Overheads, at_work: int, comp_ns: int, sync_ns: int, cpu_ns: float
) -> tuple[int, int]:
    """Return T^c' and T^s' of a task with this T^c, T^s and ``o``; ``at_work`` is b."""
    cores, dispatch_ns = overheads.cores, overheads.dispatch_ns
    # y = T^c (1 + (slowdown - 1) (min(b, P) - 1) / (P - 1)): from no other core at work to all.
    busy = (min(at_work, cores) - 1) / (cores - 1) if cores > 1 else 1.0
    computing_ns = comp_ns * (1 + (overheads.slowdown - 1) * busy)
    # x = max(dispatch, (y + o) b / P - y) where b >= P: on a full machine one of b devices ends a
    # task every (y + o) b / P, by conservation of processor time. Else x = dispatch.
    added_ns = float(dispatch_ns)
    if at_work >= cores:
        added_ns = max(added_ns, (computing_ns + cpu_ns) * at_work / cores - computing_ns)
    # T^s was measured with the handing over in it, which is in x now.
    return round(computing_ns + added_ns), max(0, round(sync_ns - dispatch_ns))


def _check_length(run: Run, index: int, task_ns: int) -> None:
    """Refuse a job whose tasks one after another would take longer than time can count."""
    job = run.workload.jobs[index]
    if (job.rounds or 1) * job.scale * task_ns + job.arrival_ns >= NEVER_NS:
        message = "with the overheads its tasks one after another would take more than 146 years"
        raise SpecError(Problem(file=run.name, field=f"job {job.name}", message=message))


def _inverse(bytes_per_s: float | None) -> float:
    """Return the seconds a byte takes; 0 where no rate is stated: bytes cost nothing then."""
    return 0.0 if bytes_per_s is None else 1.0 / bytes_per_s


class SharedProcessors:
    """``warren.sim.parts.Durations`` on a machine with measured overheads that emulates nothing.

    It also holds starts of an instant until all of that instant is known.

    Raises
    ------
    SpecError
        If a task would take longer than time can count.
    """

    __slots__ = ("_costs", "_counted", "_durations_of", "_run", "changing", "due", "due_copies")

    def __init__(self, run: Run, costs: CostTable) -> None:
        self._run = run
        self._costs = costs
        self.changing = True
        self._durations_of: dict[int, TaskDurations] = {}
        # The longest times first: a time too long to count is refused before the run.
        self._counted = self._of(len(run.cluster.devices))
        self.due: list[Assignment] = []
        self.due_copies: tuple[Assignment, ...] = ()

    @property
    def noisy(self) -> bool:
        """Tell whether the tasks of one job differ."""
        return self._counted.noisy

    def run_round(
        self, job: int, round_: int, shards: tuple[int, ...], kind: int, start: int, comm_free: int
    ) -> tuple[int, int]:
        """Return the ends of the last COMP and synchronization, ns; see ``Durations``."""
        return self._counted.run_round(job, round_, shards, kind, start, comm_free)

    def count(self, at_work: int) -> bool:
        """Note how many devices are at work from now on; tell whether that changes tasks' times."""
        counted = self._of(max(1, at_work))
        changed = counted is not self._counted
        self._counted = counted
        return changed

    def take_due(self) -> list[Assignment]:
        """Take out and return the assignments that start at this instant."""
        due, self.due = self.due, []
        return due

    def take_due_copies(self) -> tuple[Assignment, ...]:
        """Return the copies that start at this instant, after all else; they are due no more."""
        copies, self.due_copies = self.due_copies, ()
        return copies

    def take_due_of(self, job: int) -> list[Assignment]:
        """Take out and return the due assignments of a job."""
        found = [head for head in self.due if head.job == job]
        self.due = [head for head in self.due if head.job != job]
        return found

    def _of(self, at_work: int) -> TaskDurations:
        """Return the durations while ``at_work`` devices are at work, made once."""
        if at_work not in self._durations_of:
            raised = raised_costs(self._run, self._costs, at_work)
            self._durations_of[at_work] = TaskDurations(self._run, raised)
        return self._durations_of[at_work]
