"""Which jobs share hosts at a time, since when and until when, and how long their rounds were."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warren.core.journal_reader import History
from warren.model.costs import IntArray
from warren.model.decision import Group
from warren.model.events import RoundsDone


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingGroup:
    """A group of jobs that were there together on these hosts, from ``begin_ns`` to ``end_ns``."""

    group: Group
    begin_ns: int
    end_ns: int


# Without slots: ``cached_property`` keeps its values in ``__dict__``.
@dataclass(frozen=True, kw_only=True)
class GroupHistory:
    """Groups over a history; ``arrival_ns_J``: arrival of each job.

    A job is there from its arrival until it has finished; an unfinished job stays.
    """

    history: History
    arrival_ns_J: IntArray

    def there(self, at_ns: int) -> list[int]:
        """Return the jobs that are there at a time."""
        finish_ns_J = self.history.finish_ns_J
        stays_J = (finish_ns_J < 0) | (finish_ns_J > at_ns)
        jobs: list[int] = np.flatnonzero((self.arrival_ns_J <= at_ns) & stays_J).tolist()
        return jobs

    def busiest_ns(self) -> int:
        """Return the first time at which most jobs are there; 0 if there is none."""
        arrivals_ns = np.unique(self.arrival_ns_J)
        if not len(arrivals_ns):
            return 0
        finish_ns_J = self.history.finish_ns_J
        ends_ns = np.sort(finish_ns_J[finish_ns_J >= 0])
        came = np.searchsorted(np.sort(self.arrival_ns_J), arrivals_ns, side="right")
        gone = np.searchsorted(ends_ns, arrivals_ns, side="right")
        return int(arrivals_ns[np.argmax(came - gone)])

    def groups_at(self, at_ns: int) -> tuple[Group, ...]:
        """Return the groups at a time, with those of their jobs that are there."""
        times_ns, answers = self._answers
        place = bisect_right(times_ns, at_ns) - 1
        if place < 0:
            return ()
        there = set(self.there(at_ns))
        groups = (
            Group(tuple(job for job in one.jobs if job in there), one.hosts)
            for one in answers[place]
        )
        return tuple(one for one in groups if one.jobs)

    def standing(self, at_ns: int) -> list[StandingGroup]:
        """Return the groups at a time, each with how long its jobs and hosts stay the same."""
        changes_ns = self._changes_ns
        now = bisect_right(changes_ns, at_ns) - 1
        found = []
        for group in self.groups_at(at_ns):
            first, last = now, now + 1
            while first > 0 and group in self.groups_at(changes_ns[first - 1]):
                first -= 1
            while last < len(changes_ns) and group in self.groups_at(changes_ns[last]):
                last += 1
            # A group in which a job never finishes may stand to the end of the record.
            end_ns = changes_ns[min(last, len(changes_ns) - 1)]
            found.append(StandingGroup(group=group, begin_ns=changes_ns[first], end_ns=end_ns))
        return found

    def answered(self) -> list[StandingGroup]:
        """Return each group as it was answered, from when to when, in the order of their ends.

        Jobs of it may end meanwhile: until the next answer it is the same group.
        """
        end_ns = int(self.history.finish_ns_J.max(initial=0))
        found: list[StandingGroup] = []
        begun: dict[Group, int] = {}
        times_ns, answers = self._answers
        for at_ns, groups in zip([*times_ns, end_ns], [*answers, ()], strict=True):
            for group in [one for one in begun if one not in groups]:
                begin_ns = begun.pop(group)
                found.append(StandingGroup(group=group, begin_ns=begin_ns, end_ns=at_ns))
            for group in groups:
                begun.setdefault(group, at_ns)
        return found

    def round_ns(self, job: int, begin_ns: int, end_ns: int, skip: int = 0) -> float | None:
        """Compute the mean time between barriers of a job within an interval, both ends included.

        ``skip``: number of barriers left out at the beginning, whose rounds began before or met
        others. None if fewer than two of its other barriers are recorded there.
        """
        job_rounds = self._rounds.get(job, [])
        barriers = [one for one in job_rounds if begin_ns <= one.barrier_ns <= end_ns][skip:]
        rounds = sum(one.rounds for one in barriers[1:])
        if not rounds:
            return None
        return (barriers[-1].barrier_ns - barriers[0].barrier_ns) / rounds

    def runs(self, job: int, begin_ns: int, end_ns: int) -> bool:
        """Tell whether a task of a job is under way within an interval."""
        line = self.history.timeline
        within_R = (line.start_ns_R < end_ns) & (line.end_ns_R > begin_ns)
        return bool((within_R & (line.job_R == job)).any())

    def next_change_ns(self, at_ns: int) -> int:
        """Return when jobs or groups change next after a time, or the time if they never do."""
        place = bisect_right(self._changes_ns, at_ns)
        return self._changes_ns[place] if place < len(self._changes_ns) else at_ns

    @cached_property
    def _answers(self) -> tuple[list[int], list[tuple[Group, ...]]]:
        """Return when groups were answered, and which."""
        answers = self.history.groups_over_time()
        return [at_ns for at_ns, _ in answers], [groups for _, groups in answers]

    @cached_property
    def _rounds(self) -> dict[int, list[RoundsDone]]:
        """Return the barriers of each job: of many jobs, all are looked through once."""
        found: dict[int, list[RoundsDone]] = {}
        for one in self.history.rounds:
            found.setdefault(one.job, []).append(one)
        return found

    @cached_property
    def _changes_ns(self) -> list[int]:
        """Return all times at which a job comes or ends, or groups are answered, in order."""
        finish_ns_J = self.history.finish_ns_J
        ends_ns = finish_ns_J[finish_ns_J >= 0]
        changes_ns = np.concatenate([self.arrival_ns_J, ends_ns, self._answers[0]])
        times_ns: list[int] = np.unique(changes_ns.astype(np.int64)).tolist()
        return times_ns
