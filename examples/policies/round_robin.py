"""A place policy in one file, as a template for your own: jobs take turns, a round each.

    warren simulate examples/quickstart/run.yaml --place examples/policies/round_robin.py:RoundRobin

At ``grain: 1`` the next ready job gives the tasks of its round to free devices; those that find
none wait. At a coarser grain a job waits for as many devices as it has tasks, nobody passes it, and
it keeps them for as many rounds as the grain says: at ``grain: 1 h`` those of an hour. So a long
trace is scheduled in few steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import ENDLESS, Assignment, Decision
from warren.model.events import (
    CompDone,
    Event,
    JobArrived,
    JobCancelled,
    JobFailed,
    RolledBack,
    RoundsDone,
)
from warren.model.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRobin:
    """Its fields are options, set by ``policy: {skip_slow: true}`` in the run file."""

    skip_slow: bool = False
    """Leave a device free that takes more than twice as long as the job's best."""

    name: ClassVar[str] = "round-robin"
    source: ClassVar[str] = "an example"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = False
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> int:
        """The memory: which job has its turn."""
        return 0

    def decide(self, view: View, memory: int) -> tuple[Decision, int]:
        """Hand out free devices; never change the view, return the new memory."""
        assign: list[Assignment] = []
        free = (view.queued_D == 0).nonzero()[0].tolist()
        ready = (view.open_J & (view.next_round_J == view.round_J)).nonzero()[0].tolist()
        for job in sorted(ready, key=lambda job: (job - memory) % len(view.jobs)):
            round_, first = int(view.next_round_J[job]), int(view.next_shard_J[job])
            shards = range(first, int(view.scale_J[job]))
            usable = [device for device in free if self._suits(view, job, device)][: len(shards)]
            # Several rounds at once need all of their tasks placed, from the first on.
            whole = first == 0 and len(usable) == len(shards)
            if not whole and first == 0 and self._may_be_whole(view, job):
                break
            rounds = self._rounds(view, job, usable) if whole else 1
            for shard, device in zip(shards, usable, strict=False):
                assign.append(Assignment(device, job, round_, rounds, (shard,)))
                free.remove(device)
                memory = job + 1
        return Decision(assign=tuple(assign)), memory

    def explain(self, view: View, memory: int, job: int) -> str:
        """One sentence: why this job is where it is."""
        return f"waits for its turn; job {memory % len(view.jobs)} is next"

    def _rounds(self, view: View, job: int, devices: list[int]) -> int:
        """As many as the grain says of rounds that last as long as on the slowest device.

        How many the job has in all is not known here; what is too many is cut off at its end.
        """
        costs, kinds = view.costs, [view.type_D[device] for device in devices]
        task_ns = [costs.comp_ns_JT[job, kind] + costs.sync_ns_JT[job, kind] for kind in kinds]
        return view.grain.rounds_for(int(max(task_ns)), ENDLESS)

    def _may_be_whole(self, view: View, job: int) -> bool:
        """Whether it is worth to wait for more devices: the cluster has enough, the grain is long.

        A job that is wider than the cluster gets its tasks one after the other.
        """
        suiting = sum(self._suits(view, job, device) for device in range(len(view.type_D)))
        return view.grain.rounds != 1 and int(view.scale_J[job]) <= suiting

    def _suits(self, view: View, job: int, device: int) -> bool:
        comp_ns_T, kind = view.costs.comp_ns_JT[job], view.type_D[device]
        quick = comp_ns_T[kind] <= 2 * comp_ns_T.min() or not self.skip_slow
        return bool(view.costs.fits_JT[job, kind] and quick)
