"""A joint policy in one file, as a template for your own: one order for devices and for links.

    warren policies examples/policies/least_work_first.py:LeastWorkFirst --question flow

Named as ``scheduler: {joint: FILE.py:LeastWorkFirst}`` it answers place and flow at once: the job
with the least work left has the first free device, and its bytes go first. Links tell classes apart
under ``network: {model: fluid}``; elsewhere a run that names it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warren.model.decision import Assignment, Decision, Question
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
class LeastWorkFirst:
    """Its fields are options, set by ``policy: {joint: {levels: 3}}`` in the run file."""

    levels: int = 7
    """How many classes it uses: from 1 for the first job to this for all that come late."""

    name: ClassVar[str] = "least-work-first"
    source: ClassVar[str] = "an example"
    offline: ClassVar[bool] = False
    needs_rounds: ClassVar[bool] = True
    answers: ClassVar[frozenset[Question]] = frozenset({Question.PLACE, Question.FLOW})
    triggers: ClassVar[frozenset[type[Event]]] = frozenset(
        {JobArrived, CompDone, RoundsDone, RolledBack, JobFailed, JobCancelled}
    )

    def initial(self, view: View) -> None:
        """It remembers nothing: the view says it all."""

    def decide(self, view: View, memory: None) -> tuple[Decision, None]:
        """Order the jobs once; hand out free devices and classes in this order."""
        there = (view.arrived_J & ~view.done_J).nonzero()[0].tolist()
        order = sorted(there, key=lambda job: self._left_ns(view, job))
        classes = {job: min(1 + at, self.levels) for at, job in enumerate(order)}
        free = (view.queued_D == 0).nonzero()[0].tolist()
        assign: list[Assignment] = []
        for job in order:
            # Only of the round at hand: its barrier has passed, so a device waits for nothing.
            if not (view.open_J[job] and view.next_round_J[job] == view.round_J[job]):
                continue
            fits = [device for device in free if view.costs.fits_JT[job, view.type_D[device]]]
            left = range(int(view.next_shard_J[job]), int(view.scale_J[job]))
            for shard, device in zip(left, fits, strict=False):
                assign.append(Assignment(device, job, int(view.round_J[job]), 1, (shard,)))
                free.remove(device)
        changed = {job: kind for job, kind in classes.items() if kind != view.class_J[job]}
        return Decision(assign=tuple(assign), classes=changed), None

    def explain(self, view: View, memory: None, job: int) -> str:
        """One sentence: why this job is where it is."""
        return f"{self._left_ns(view, job) / 1e9:.0f} s of work left; the least goes first"

    def _left_ns(self, view: View, job: int) -> int:
        """The time of its tasks that are left, each on the quickest type of device."""
        rounds = int(view.rounds_J[job] - view.round_J[job])
        return rounds * int(view.scale_J[job]) * int(view.costs.comp_ns_JT[job].min())
