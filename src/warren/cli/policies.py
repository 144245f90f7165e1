"""Choosing the place policy: by name, or a class in a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from warren.cli.foreign import foreign, is_foreign
from warren.cli.signals import raise_if_told
from warren.model.decision import Decision
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.model.view import View
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import RINGS, place_policy


def choose(run: Run) -> AnyPolicy:
    """The place policy of a run, checked against its jobs.

    Raises
    ------
    SpecError
        If it is unknown, cannot be loaded, or needs to know rounds that a job does not state,
        or if jobs are rings, which it does not place, or which are larger than the cluster.
    """
    name, options = run.scheduler.place, run.scheduler.options
    policy = _policy(name, options, run.base)
    unknown = [job.name for job in run.workload.jobs if job.rounds is None]
    if policy.needs_rounds and unknown:
        message = (
            f"{policy.name} must know every job's rounds; unknown for {', '.join(unknown[:5])}"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))
    _check_rings(run, name)
    return policy


def _check_rings(run: Run, name: str) -> None:
    """Rings are placed whole, by policies that do so, on as many devices as they have tasks."""
    rings = [job.name for job in run.workload.jobs if job.sync == "ring"]
    if rings and name not in RINGS and not is_foreign(name):
        message = (
            f"{name} does not place rings as a whole, as {', '.join(rings[:5])} need; "
            f"allowed: {', '.join(sorted(RINGS))}, or FILE.py:Class"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))
    devices = len(run.cluster.devices)
    large = [job for job in run.workload.jobs if job.sync == "ring" and job.scale > devices]
    if large:
        job = large[0]
        message = (
            f"a ring of {job.scale} needs as many devices, and the cluster has {devices}; "
            f"allowed: 1 to {devices}, or sync: ps"
        )
        place = job.source or run.name
        raise SpecError(Problem(file=place, field=f"job {job.name}: scale", message=message))


def _policy(name: str, options: Mapping[str, object], base: str) -> AnyPolicy:
    if is_foreign(name):
        return foreign(name, options, base)
    return place_policy(name, options)


class Timed:
    """A policy that counts the seconds its decisions take; all else is passed through."""

    def __init__(self, policy: AnyPolicy) -> None:
        self._policy = policy
        self.name, self.source = policy.name, policy.source
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.triggers = policy.triggers
        self.decide_s = 0.0

    def initial(self, view: View) -> Any:
        """The policy's first memory."""
        return self._timed(self._policy.initial, view)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        """The policy's decision."""
        answer: tuple[Decision, Any] = self._timed(self._policy.decide, view, memory)
        return answer

    def explain(self, view: View, memory: Any, job: int) -> str:
        """The policy's sentence."""
        return self._policy.explain(view, memory, job)

    def _timed(self, call: Any, *args: Any) -> Any:
        raise_if_told()  # planning takes long, and an import may have swallowed a signal
        begin = perf_counter()
        try:
            return call(*args)
        except SystemExit as error:
            raise RuntimeError(f"it called sys.exit({error})") from error
        finally:
            self.decide_s += perf_counter() - begin
