"""Choosing the place policy: by name, or as a class in a file of the user's.

What a policy answers is checked in ``warren.core.decision_checks``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, Final

from warren.model.decision import Decision
from warren.model.errors import Problem, SpecError, one_line
from warren.model.events import Event
from warren.model.run import Run
from warren.model.view import View
from warren.policy.protocol import AnyPolicy, plans_rings
from warren.policy.registry import build, place_policy, ring_policies
from warren.store.signals import raise_if_told

_DATA: Final[Mapping[str, type]] = {
    "name": str,
    "source": str,
    "offline": bool,
    "needs_rounds": bool,
    "triggers": frozenset,
}
_METHODS: Final = ("initial", "decide", "explain")


def is_foreign(place: str) -> bool:
    """Tell whether a policy is named as ``FILE.py:Class``."""
    path, _, attribute = place.rpartition(":")
    return (path or attribute).endswith(".py")


def foreign(place: str, options: Mapping[str, object], base: str = "") -> AnyPolicy:
    """Load and make the policy ``FILE.py:Class``; its path is relative to here, else to ``base``.

    Raises
    ------
    SpecError
        If there is no such class, or it is no place policy.
    """
    path, _, attribute = place.rpartition(":")
    candidates = [Path(path), Path(base) / path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if not path or file is None:
        raise _refused(place, "no such file; a policy of your own is given as FILE.py:Class")
    module = _load(place, file)
    cls: Any = getattr(module, attribute, None)
    if not isinstance(cls, type):
        raise _refused(place, f"{file} has no class {attribute!r}; {_classes(module)}")
    wrong = list(_what_is_wrong(cls))
    if wrong:
        raise _refused(place, f"is not a place policy: {'; '.join(wrong)}")
    try:
        return build(cls, place, options)
    except SpecError:
        raise
    except (Exception, SystemExit) as error:
        raise _refused(place, f"cannot be made: {one_line(error)}") from None


def _load(place: str, file: Path) -> ModuleType:
    """Import a file of the user's as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"warren_foreign_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    # A script that was taken for a policy may call ``sys.exit``.
    except (Exception, SystemExit) as error:
        raise _refused(place, f"cannot be imported: {one_line(error)}") from None
    return module


def _classes(module: ModuleType) -> str:
    """Tell the policies of a file; where it has none, all its classes."""
    # Classes that the file imports are not its own.
    own = {
        name: one
        for name, one in vars(module).items()
        if isinstance(one, type) and one.__module__ == module.__name__
    }
    policies = [name for name, one in own.items() if not any(_what_is_wrong(one))]
    return f"it has: {', '.join(policies or own) or 'none'}"


def _what_is_wrong(cls: type) -> Iterator[str]:
    """Yield what a class lacks to be a place policy; empty if it is one."""
    for name, kind in _DATA.items():
        if not isinstance(getattr(cls, name, None), kind):
            yield f"{name} must be a {kind.__name__}"
    for name in _METHODS:
        if not callable(getattr(cls, name, None)):
            yield f"{name} must be a method"
    triggers = getattr(cls, "triggers", ())
    if isinstance(triggers, frozenset) and not all(map(_is_event, triggers)):
        yield "triggers must be event types of warren.model.events"


def _is_event(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Event)


def _refused(place: str, message: str) -> SpecError:
    return SpecError(Problem(file=place, field="place", message=message))


def choose(run: Run) -> AnyPolicy:
    """Make the place policy of a run, checked against its jobs.

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
    _check_rings(run, name, policy)
    return policy


def _check_rings(run: Run, name: str, policy: AnyPolicy) -> None:
    """Refuse rings that the policy does not place whole, or that the cluster is too small for."""
    rings = [job.name for job in run.workload.jobs if job.sync == "ring"]
    if rings and not plans_rings(policy) and not is_foreign(name):
        message = (
            f"{name} does not place rings as a whole, as {', '.join(rings[:5])} need; "
            f"allowed: {', '.join(ring_policies())}, or FILE.py:Class"
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


class TimedPolicy:
    """A policy that counts the seconds its decisions take; all else is passed through.

    ``decide_s``: real seconds in ``initial`` and ``decide`` so far.
    """

    def __init__(self, policy: AnyPolicy) -> None:
        self._policy = policy
        self.name, self.source = policy.name, policy.source
        self.offline, self.needs_rounds = policy.offline, policy.needs_rounds
        self.triggers = policy.triggers
        self.decide_s = 0.0

    def initial(self, view: View) -> Any:
        """Return the policy's first memory."""
        return self._timed(self._policy.initial, view)

    def decide(self, view: View, memory: Any) -> tuple[Decision, Any]:
        """Return the policy's decision and its next memory."""
        answer: tuple[Decision, Any] = self._timed(self._policy.decide, view, memory)
        return answer

    def explain(self, view: View, memory: Any, job: int) -> str:
        """Return the policy's sentence on a job."""
        return self._policy.explain(view, memory, job)

    def _timed(self, call: Any, *args: Any) -> Any:
        """Call a method of the policy and count its time."""
        raise_if_told()  # planning takes long, and an import may have swallowed a signal
        begin = perf_counter()
        try:
            return call(*args)
        # Not an Exception: it would end the command without a word. ``ask`` makes a line of it.
        except SystemExit as error:
            raise RuntimeError(f"it called sys.exit({error})") from error
        finally:
            self.decide_s += perf_counter() - begin
