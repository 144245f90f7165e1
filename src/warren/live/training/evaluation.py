"""Evaluate a job's model, on the side of servers, in a ring and in the plain loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import torch
from torch import nn

from warren.live.gpu.mixed_devices import meeting
from warren.live.training.app.app_calls import BuiltApp
from warren.live.training.app.app_contract import checked_metrics, refuse
from warren.live.training.checkpoints.barrier_objects import parts_of_data
from warren.live.training.checkpoints.data_changes import FIXED_DATA
from warren.live.training.isolation.kept_values import GENERATORS, KeptValue, content, is_a
from warren.live.training.isolation.outside_state import OutsideState
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.seeding import generator_states, seed_otherwise, set_generator_states
from warren.live.training.tensor_layout import device_of, tensors
from warren.live.training.weight_average import averaged
from warren.model.job import Job

_COUNTING: Final = (bool, int, float, complex, *GENERATORS)
_LOST: Final = (
    "which is lost with the process that keeps it; compute metrics from the model alone, or name "
    "it in scratch where none depends on it"
)
# The first three evaluations are watched, then every sixteenth: watching calls the app again.
_ALL: Final = 3
_THEN_EVERY: Final = 16


class Evaluation:
    """Calls ``evaluate`` of an app; the first times and some later it checks the app's kept values.

    A server that is lost forgets every value that is in no checkpoint, and another one goes on. So
    metrics may not depend on numbers and generators that evaluations change, nor on the random
    numbers of the first one. If an evaluation has left another value, the next is made once more
    without it, and has to give the same. ``tasks`` are the rules of tasks of the same app that run
    in this process too. Evaluations and tasks do not see each other's values, just as if they were
    in separate processes.
    """

    def __init__(self, built: BuiltApp, job: Job, tasks: TaskRules | None = None) -> None:
        # An evaluation is given no batch: the data are not searched, unless the app keeps them.
        self._built = replace(built, dataset=None)
        self._job = job
        self._tasks = tasks
        self._kept = OutsideState(self._built)
        self._data = self._kept.holders & set(map(id, _dicts_of_data(built)))
        self._times = 0

    @property
    def left(self) -> Iterable[KeptValue]:
        """Return the values that evaluations have left in the app."""
        return self._kept.left.values()

    def of(self, model: nn.Module) -> dict[str, float]:
        """Return the app's metrics of a model, which is in eval mode meanwhile.

        Meanwhile its weights are their averages, where the app keeps any.

        Raises
        ------
        SpecError
            They are no numbers, or depend on values that the app keeps.
        """
        if self._tasks is not None:
            # Servers apart from trainers do not see values that tasks leave in the app: hide them
            # here too.
            self._tasks.kept.hide()
            self._kept.show()
        watched = self._times < _ALL or self._times % _THEN_EVERY == 0
        self._times += 1
        with averaged(model, self._built.averages):
            metrics = self._watched(model) if watched else self._call(model)
        if self._tasks is not None:
            self._kept.hide()
            self._tasks.kept.show()
        return checked_metrics(metrics, self._job)

    def rehearse(self, model: nn.Module) -> None:
        """Evaluate a model, and forget the values left in the app."""
        kept = OutsideState(self._built)
        kept.begin()
        self._call(model)
        kept.note()
        kept.undo()

    def _call(self, model: nn.Module) -> object:
        model.eval()
        with torch.no_grad(), meeting(device_of(model)):
            metrics = self._built.app.evaluate(model)
        model.train()
        return metrics

    def _watched(self, model: nn.Module) -> object:
        """Evaluate, refuse forbidden values of the app, and evaluate again if that may matter."""
        left = set(self._kept.left)
        earlier = min(left, default="")
        self._kept.begin()
        generators = generator_states()
        metrics = self._call(model)
        changed, found = self._kept.note()
        before = self._kept.first
        # Counters and generators that evaluations change would be lost with this process.
        for one in changed:
            old = before.get(one.name)
            if old is not None and ((_counts(one) and _counts(old)) or _is_overwritten(one, old)):
                raise refuse(self._job, "evaluate()", f"changes {one.name!r}, {_LOST}")
            # An epoch; what is set once, such as whether a file is open, is none.
            if one.name in left and id(one.holder) in self._data and is_a(one.value, *_COUNTING):
                raise refuse(self._job, "evaluate()", f"changes {one.name!r}, {FIXED_DATA}")
        # Something is kept for the first time, and numbers were drawn: it may depend on them.
        new = [one for one in changed if one.name in found and _absent(before.get(one.name))]
        if new and content(generators) != content(generator_states()):
            with _unchanged(model):
                self._draw_again(model, new)
        # Values left by earlier evaluations must not change the metrics.
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
        # Metrics such as elapsed time differ at each call; they are no proof of kept state.
        differs = alone != self._exact(metrics) and alone == self._alone(model, generators)
        self._kept.show()
        if differs:
            message = f"gives metrics that depend on what it keeps in {earlier!r}, {_LOST}"
            raise refuse(self._job, "evaluate()", message)

    def _alone(self, model: nn.Module, generators: Any) -> object:
        """Return the metrics from the same random numbers, and undo the call's changes."""
        set_generator_states(generators)
        self._kept.begin()
        metrics = self._call(model)
        self._kept.note()
        self._kept.undo()
        return self._exact(metrics)

    def _exact(self, metrics: object) -> dict[str, str]:
        """Return metrics as text to be compared: NaN equals NaN, and 0.0 differs from -0.0."""
        checked = checked_metrics(metrics, self._job)
        return {name: repr(value) for name, value in checked.items()}

    def _draw_again(self, model: nn.Module, new: Sequence[KeptValue]) -> None:
        """Evaluate with other random numbers: the values kept from then on must be the same.

        Raises
        ------
        SpecError
            They differ, so a process that goes on with this job would keep other values.
        """
        found = self._otherwise(model)
        # Values that the second call left untouched are kept from the first one on.
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
        """Return all that is kept after an evaluation with other random numbers."""
        self._kept.begin()
        seed_otherwise(self._job.seed)
        self._call(model)
        _, found = self._kept.note()
        return found


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Put a model and the generators back as they were before the block."""
    state = {name: value.detach().clone() for name, value in tensors(model).items()}
    generators = generator_states()
    yield
    set_generator_states(generators)
    with torch.no_grad():
        for name, value in tensors(model).items():
            value.copy_(state[name])


def _dicts_of_data(built: BuiltApp) -> Iterator[dict[str, Any]]:
    """Yield the attributes of a data set and of its parts."""
    parts = parts_of_data(built.dataset, {id(built.app), *map(id, built.model.modules())})
    yield from (vars(one) for one in parts if hasattr(one, "__dict__") and not is_a(one, type))


def _is_overwritten(kept: KeptValue, old: KeptValue) -> bool:
    """Tell whether a value was written in place and its old content cannot be put back."""
    return kept.value is old.value and not old.restorable


def _counts(kept: KeptValue) -> bool:
    """Tell whether it is a number or generator kept by the app itself, not by an object of it."""
    return is_a(kept.value, *_COUNTING) and kept.name.count(".") < 2


def _absent(kept: KeptValue | None) -> bool:
    return kept is None or kept.value is None
