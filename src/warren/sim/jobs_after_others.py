"""Jobs that arrive only once others have ended: dependencies, of which policies learn nothing.

*What.* ``truth.after`` names, for a job, those that must have ended. It arrives when the last of
them has, but not before its own arrival. Policies see it as they see any arrival.
"""

from __future__ import annotations

from warren.model.events import JobArrived, RoundsDone
from warren.model.run import Run
from warren.sim.lanes import Lanes


class JobsAfterOthers:
    """The part of a simulation in which jobs arrive late; ``late``: which, by index."""

    __slots__ = ("_jobs", "_lanes", "_left", "_others", "late")

    def __init__(self, run: Run, lanes: Lanes) -> None:
        self._lanes, self._jobs = lanes, run.workload.jobs
        index = {job.name: job.index for job in self._jobs}
        # How many others each job waits for, and which jobs wait for each.
        self._left: dict[int, int] = {}
        self._others: dict[int, list[int]] = {}
        for name, others in run.truth.after.items():
            before = dict.fromkeys(index[other] for other in others)
            if before:
                self._left[index[name]] = len(before)
            for one in before:
                self._others.setdefault(one, []).append(index[name])
        self.late = frozenset(self._left)

    def passed(self, event: RoundsDone) -> None:
        """Note a barrier; at the end of a job those arrive that have waited for it last."""
        for job in self._others.pop(event.job, ()) if event.finished else ():
            self._left[job] -= 1
            if not self._left[job]:
                time_ns = max(event.time_ns, self._jobs[job].arrival_ns)
                self._lanes.emit(JobArrived(time_ns, job))
