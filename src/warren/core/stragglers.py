"""Stragglers: which task that is late is started once more, and where.

A task is *late* when it has been under way for ``copies_after`` times its expected T^c + T^s on its
device. It is under way while it is on COMP, and while only a run that has lost keeps it from there.
The rest of its time is unknown; it is expected to take as long again as it has so far. So a copy is
expected to help on a device where the task's T^c + T^s is no more than the time it has taken so
far. The quickest such device with nothing to do before the task's barrier takes it; each task once.

Tasks of a ring are never copied: a rank that is late holds up the exchange of all, so they are late
together, and a copy of one would have to take its place in the middle of the gang.
"""

from __future__ import annotations

from collections.abc import Iterator

from warren.core.scheduling_rules import is_ring, may_take
from warren.core.speculative_runs import task_of
from warren.core.state import State
from warren.model.decision import Assignment


class StragglerCopier:
    """Decides which late tasks are started once more, asked after every step of the core.

    ``after`` is the run's ``copies_after``. Assignments of several tasks are never copied.
    """

    def __init__(self, after: float, state: State) -> None:
        self._after = after
        self._spans: list[list[int]] = []
        self._fits: list[list[bool]] = []
        self._type_D: list[int] = state.type_D.tolist()
        self._rings: set[int] = set()
        self.add(state)
        self._heads: list[Assignment | None] = [None for _ in self._type_D]
        self._since_D = [0 for _ in self._type_D]
        # The wake-up that was asked for last; -1: none yet.
        self._wake_ns = -1

    def add(self, state: State) -> None:
        """Take in the jobs that the state has come to know since the last time."""
        known, costs = len(self._spans), state.costs
        self._spans += (costs.comp_ns_JT[known:] + costs.sync_ns_JT[known:]).tolist()
        self._fits += costs.fits_JT[known:].tolist()
        new = state.run.workload.jobs[known:]
        self._rings |= {job.index for job in new if is_ring(state, job.index)}

    def look(self, state: State) -> tuple[tuple[Assignment, ...], int | None]:
        """Return the copies to start now, and when to look again if nothing happens until then."""
        self._note_begun(state)
        now_ns, copies = state.now_ns, list[Assignment]()
        soonest_ns: int | None = None
        taken: set[int] = set()
        # The task that is late first chooses first; a device takes one copy at a step.
        for late_ns, device, first in sorted(self._alone(state)):
            chances = [one for one in self._chances(state, first, late_ns) if one[-1] not in taken]
            ready = [one[1:] for one in chances if one[0] <= now_ns]
            # Chances sort by (time of the task there, goes before others, device) once they help.
            if ready:
                *_, device = min(ready)
                taken.add(device)
                copies.append(Assignment(device, first.job, first.round, 1, first.shards))
            elif chances:
                at_ns = min(chances)[0]
                soonest_ns = at_ns if soonest_ns is None else min(at_ns, soonest_ns)
        return tuple(copies), self._wake(now_ns, soonest_ns)

    def _wake(self, now_ns: int, soonest_ns: int | None) -> int | None:
        """Return when to be woken; None if a wake-up that was asked for comes early enough."""
        if soonest_ns is None or now_ns < self._wake_ns <= soonest_ns:
            return None
        self._wake_ns = soonest_ns
        return soonest_ns

    def _note_begun(self, state: State) -> None:
        """Note since when each device has its task under way.

        A task is under way when it is first on its device and the barrier before it has passed.
        """
        for device, queue in enumerate(state.queues):
            head = state.races.head(queue)
            if head is not None and not (
                state.round_J[head.job] == head.round and state.arrived_J[head.job]
            ):
                head = None
            # By identity: an equal assignment after a roll-back is another run of the task.
            if head is not self._heads[device]:
                self._heads[device], self._since_D[device] = head, state.now_ns

    def _alone(self, state: State) -> Iterator[tuple[int, int, Assignment]]:
        """Yield tasks under way that have no copy: when each is late, its device, and itself."""
        for device, head in enumerate(self._heads):
            task = None if head is None else task_of(head)
            if head is None or task is None or head.job in self._rings:
                continue
            if task not in state.races.pairs:
                span_ns = self._spans[head.job][self._type_D[device]]
                yield self._since_D[device] + int(self._after * span_ns), device, head

    def _chances(
        self, state: State, first: Assignment, late_ns: int
    ) -> Iterator[tuple[int, int, bool, int]]:
        """Yield, for each device that may take a copy, when it helps and how good it is.

        The tuple is (time from which a copy helps, its T^c + T^s there, whether it goes before
        others, device), so that the least one is the best.
        """
        for device, kind in enumerate(self._type_D):
            fits = self._fits[first.job][kind] and state.answers.allows(first.job, device)
            if fits and may_take(state, device, first):
                span_ns = self._spans[first.job][kind]
                # A task is expected to take as long again as it has so far, so a copy that takes
                # ``span_ns`` is expected to be first once the task has been under way that long.
                helps_ns = max(late_ns, self._since_D[first.device] + span_ns)
                yield helps_ns, span_ns, bool(state.queues[device]), device
