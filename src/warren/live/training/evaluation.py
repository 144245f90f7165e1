"""One evaluation of a job, on the side of servers, in a ring and in the plain loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import nn

from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import checked_metrics, refuse
from warren.live.training.isolation.kept_values import GENERATORS, KeptValue, content
from warren.live.training.isolation.outside_state import OutsideState
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.seeding import generator_states, seed_otherwise, set_generator_states
from warren.live.training.tensor_layout import tensors
from warren.model.job import Job

_COUNTING: Final = (bool, int, float, complex, *GENERATORS)
_LOST: Final = (
    "which is lost with the process that keeps it; compute metrics from the model alone, or name "
    "it in scratch where none depends on it"
)
_ALL: Final = 3
_THEN_EVERY: Final = 16


class Evaluation:
    """Calls ``evaluate`` of an app, and looks at what it keeps, the first times and some later.

    A server that is lost forgets what is in no checkpoint, and another one goes on: metrics may
    not depend on numbers and generators that evaluations change, nor on what the first one drew.
    Where an evaluation has left something else, the next is made once more without it, and has to
    give the same.
    ``tasks``: of the same app, run in this process too. Neither sees what the other leaves, as
    where they are processes apart.
    """

    def __init__(self, built: BuiltApp, job: Job, tasks: TaskRules | None = None) -> None:
        self._built, self._job, self._tasks = built, job, tasks
        self._kept = OutsideState(built)
        self._times = 0

    def of(self, model: nn.Module) -> dict[str, float]:
        """The app's metrics of a model, which is in eval mode meanwhile.

        Raises
        ------
        SpecError
            They are no numbers, or depend on what the app keeps.
        """
        if self._tasks is not None:
            self._tasks.kept.hide()
            self._kept.show()
        watched = self._times < _ALL or self._times % _THEN_EVERY == 0
        self._times += 1
        metrics = self._watched(model) if watched else self._call(model)
        if self._tasks is not None:
            self._kept.hide()
            self._tasks.kept.show()
        return checked_metrics(metrics, self._job)

    def rehearse(self, model: nn.Module) -> None:
        """Evaluate a model, and forget what that leaves in the app."""
        kept = OutsideState(self._built)
        kept.begin()
        self._call(model)
        kept.note()
        kept.undo()

    def _call(self, model: nn.Module) -> object:
        model.eval()
        with torch.no_grad():
            metrics = self._built.app.evaluate(model)
        model.train()
        return metrics

    def _watched(self, model: nn.Module) -> object:
        earlier = min(self._kept.left, default="")
        self._kept.begin()
        generators = generator_states()
        metrics = self._call(model)
        changed, found = self._kept.note()
        before = self._kept.first
        for one in changed:
            old = before.get(one.name)
            if old is not None and ((_counts(one) and _counts(old)) or _is_overwritten(one, old)):
                raise refuse(self._job, "evaluate()", f"changes {one.name!r}, {_LOST}")
        new = [one for one in changed if one.name in found and _absent(before.get(one.name))]
        if new and content(generators) != content(generator_states()):
            with _unchanged(model):
                self._draw_again(model, new)
        if earlier:
            with _unchanged(model):
                self._without(model, generators, metrics, earlier)
        return metrics

    def _without(self, model: nn.Module, generators: Any, metrics: object, earlier: str) -> None:
        """Evaluate once more, as if this were the first time: the metrics must be the same.

        Raises
        ------
        SpecError
            They are others, and the same whenever nothing was left: it is not the clock.
        """
        self._kept.hide()
        alone = self._alone(model, generators)
        differs = alone != self._exact(metrics) and alone == self._alone(model, generators)
        self._kept.show()
        if differs:
            message = f"gives metrics that depend on what it keeps in {earlier!r}, {_LOST}"
            raise refuse(self._job, "evaluate()", message)

    def _alone(self, model: nn.Module, generators: Any) -> object:
        set_generator_states(generators)
        self._kept.begin()
        metrics = self._call(model)
        self._kept.note()
        self._kept.undo()
        return self._exact(metrics)

    def _exact(self, metrics: object) -> dict[str, str]:
        """To be compared: NaN is like NaN, and 0.0 is not -0.0."""
        checked = checked_metrics(metrics, self._job)
        return {name: repr(value) for name, value in checked.items()}

    def _draw_again(self, model: nn.Module, new: Sequence[KeptValue]) -> None:
        """Evaluate with other random numbers: what is kept from then on must be the same.

        Raises
        ------
        SpecError
            It is not, so a process that goes on with this job would keep something else.
        """
        found = self._otherwise(model)
        stay = [one for one in new if one.name in found and found[one.name].mark == one.mark]
        self._kept.hide()
        found = self._otherwise(model) if stay else {}
        for one in stay:
            if one.name in found and content(found[one.name].value) != content(one.value):
                message = f"draws what it keeps in {one.name!r} from then on; draw it in dataset()"
                raise refuse(self._job, "evaluate()", message)
        self._kept.undo()
        self._kept.show()

    def _otherwise(self, model: nn.Module) -> Mapping[str, KeptValue]:
        """All that is kept after an evaluation with other random numbers."""
        self._kept.begin()
        seed_otherwise(self._job.seed)
        self._call(model)
        _, found = self._kept.note()
        return found


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Leave a model and the generators as they were."""
    state = {name: value.detach().clone() for name, value in tensors(model).items()}
    generators = generator_states()
    yield
    set_generator_states(generators)
    with torch.no_grad():
        for name, value in tensors(model).items():
            value.copy_(state[name])


def _is_overwritten(kept: KeptValue, old: KeptValue) -> bool:
    """Whether what was in it cannot be put back, so that nobody can tell what it does."""
    return kept.value is old.value and not old.restorable


def _counts(kept: KeptValue) -> bool:
    """Whether it is a number or a generator that the app itself keeps, and no object of its."""
    return isinstance(kept.value, _COUNTING) and kept.name.count(".") < 2


def _absent(kept: KeptValue | None) -> bool:
    return kept is None or kept.value is None
