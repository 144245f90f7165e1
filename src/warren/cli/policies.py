"""Choosing the place policy: by name, or a class in a file of the user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from warren.model.decision import Decision
from warren.model.errors import Problem, SpecError
from warren.model.run import Run
from warren.model.view import View
from warren.policy.place.registry import build, place_policy
from warren.policy.protocol import AnyPolicy

_NEEDED = ("name", "offline", "needs_rounds", "triggers", "initial", "decide", "explain")


def choose(run: Run) -> AnyPolicy:
    """The place policy of a run, checked against its jobs.

    Raises
    ------
    SpecError
        If it is unknown, cannot be loaded, or needs to know rounds that a job does not state.
    """
    name = run.scheduler.place
    is_file = ".py" in name
    options = run.scheduler.options
    policy = foreign(name, options, run.base) if is_file else place_policy(name, options)
    unknown = [job.name for job in run.workload.jobs if job.rounds is None]
    if policy.needs_rounds and unknown:
        message = (
            f"{policy.name} must know every job's rounds; unknown for {', '.join(unknown[:5])}"
        )
        raise SpecError(Problem(file=run.name, field="scheduler.place", message=message))
    return policy


def foreign(place: str, options: Mapping[str, object], base: str = "") -> AnyPolicy:
    """The policy class ``FILE.py:Class``; the path is relative to here, else to ``base``."""
    path, _, attribute = place.rpartition(":")
    candidates = [Path(path), Path(base) / path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if not path or file is None:
        raise _refused(place, "no such file; a foreign policy is given as FILE.py:Class")
    spec = importlib.util.spec_from_file_location(f"warren_foreign_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _refused(place, f"cannot be imported: {type(error).__name__}: {error}") from None
    cls: Any = getattr(module, attribute, None)
    missing = [name for name in _NEEDED if not hasattr(cls, name)]
    if not isinstance(cls, type) or missing:
        raise _refused(place, f"is not a place policy: it lacks {', '.join(missing) or 'a class'}")
    return build(cls, place, options)


def _refused(place: str, message: str) -> SpecError:
    return SpecError(Problem(file=place, field="place", message=message))


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
        begin = perf_counter()
        try:
            return call(*args)
        finally:
            self.decide_s += perf_counter() - begin
