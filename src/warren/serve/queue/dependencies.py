"""Which jobs wait for which: for a job, or for an array as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy

from warren.serve.records.events import JobEnded
from warren.serve.records.jobs import JobState, ServiceJob


class ArrayState:
    """The jobs of an array or sweep, how many have not ended, and the first that did not finish."""

    __slots__ = ("failed", "ids", "unended")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.unended = 0
        self.failed: str | None = None


class Dependencies:
    """Dependencies that do not hold yet, and the arrays that they may name.

    Attributes
    ----------
    arrays
        The arrays, by id.
    unmet
        Job to what it still waits for: the id of a job or array, with ``ok`` or ``any``.
    """

    def __init__(self, jobs: Mapping[str, ServiceJob]) -> None:
        self._jobs = jobs
        self.arrays: dict[str, ArrayState] = {}
        self.unmet: dict[str, dict[str, str]] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def copied(self, jobs: Mapping[str, ServiceJob]) -> Dependencies:
        """Return the same dependencies, of these copies of the jobs that have not ended."""
        other = Dependencies(jobs)
        other.arrays = {name: copy(one) for name, one in self.arrays.items() if one.unended}
        other.unmet = {job: dict(unmet) for job, unmet in self.unmet.items()}
        other._dependents = {target: dict(ids) for target, ids in self._dependents.items()}
        return other

    def drop(self, job: str) -> None:
        """Let a job wait for no other, as if its dependencies held."""
        for target in self.unmet.pop(job, {}):
            self._dependents[target].pop(job, None)
            if not self._dependents[target]:
                del self._dependents[target]

    def add(self, job: ServiceJob) -> None:
        """Take over a job that has come."""
        if job.array is not None:
            array = self.arrays.get(job.array)
            if array is None:
                array = self.arrays[job.array] = ArrayState()
            array.ids.append(job.id)
            array.unended += 1
        for dependency in job.spec.after:
            target, when = dependency.job, dependency.when
            if self._holds(target, when):
                continue
            unmet = self.unmet.setdefault(job.id, {})
            if unmet.get(target) != "ok":
                unmet[target] = when
            self._dependents.setdefault(target, {})[job.id] = None

    def end(self, job: ServiceJob) -> list[str]:
        """Take over that a job has ended; return the jobs that wait for no other now."""
        self.drop(job.id)
        if job.array is not None:
            array = self.arrays[job.array]
            array.unended -= 1
            if job.state is not JobState.FINISHED and array.failed is None:
                array.failed = job.id
        free = []
        for target in _units(job):
            for dependent in list(self._dependents.get(target, ())):
                unmet = self.unmet.get(dependent, {})
                if target in unmet and self._holds(target, unmet[target]):
                    del unmet[target]
                    del self._dependents[target][dependent]
                    if not unmet:
                        del self.unmet[dependent]
                        free.append(dependent)
            if target in self._dependents and not self._dependents[target]:
                del self._dependents[target]
        return free

    def failed(self, target: str) -> str | None:
        """Return why a job or array can no longer finish; None if it has, or still can."""
        job = self.arrays[target].failed if target in self.arrays else target
        if job is None:
            return None
        state = self._jobs[job].state
        return f"dependency: job {job} {_ENDS[state]}" if state in _ENDS else None

    def failures(self, first: Iterable[JobEnded]) -> Iterator[JobEnded]:
        """Yield these ends, and those of all jobs whose dependencies can no longer hold then."""
        todo = list(first)
        ended = {end.job for end in todo}
        for end in todo:
            yield end
            if end.state is JobState.FINISHED:
                continue
            for target in _units(self._jobs[end.job]):
                for dependent in self._dependents.get(target, ()):
                    if dependent not in ended and self.unmet[dependent][target] == "ok":
                        ended.add(dependent)
                        reason = f"dependency: job {end.job} {_ENDS[end.state]}"
                        todo.append(
                            JobEnded(
                                time_ns=end.time_ns,
                                job=dependent,
                                state=JobState.FAILED,
                                reason=reason,
                            )
                        )

    def ended(self, target: str) -> bool:
        """Tell whether a job has ended, or all jobs of an array."""
        if target in self.arrays:
            return not self.arrays[target].unended
        return self._jobs[target].state.ended

    def _holds(self, target: str, when: str) -> bool:
        return self.ended(target) and (when == "any" or self.failed(target) is None)


_ENDS = {JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled"}


def _units(job: ServiceJob) -> tuple[str, ...]:
    """Return the ids that a dependency on a job may name: its own, and its array's."""
    return (job.id,) if job.array is None else (job.id, job.array)
