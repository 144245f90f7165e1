"""One evaluation of a job, on the side of servers, in a ring and in the plain loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import nn

from warren.live.training.built import Built
from warren.live.training.contract import checked_metrics, refuse
from warren.live.training.kept_values import GENERATORS, Kept, content
from warren.live.training.layout import tensors
from warren.live.training.outside import Outside
from warren.live.training.seeding import generator_states, seed_otherwise, set_generator_states
from warren.live.training.task_rules import TaskRules
from warren.model.job import Job

_COUNTING: Final = (bool, int, float, complex, *GENERATORS)
_ALL: Final = 3
_THEN_EVERY: Final = 16


class Evaluation:
    """Calls ``evaluate`` of an app, and looks at what it keeps, the first times and some later.

    A server that is lost forgets what is in no checkpoint, and another one goes on: metrics may
    not depend on numbers and generators that evaluations change, nor on what the first one drew.
    ``tasks``: of the same app, run in this process too. Neither sees what the other leaves, as
    where they are processes apart.
    """

    def __init__(self, built: Built, job: Job, tasks: TaskRules | None = None) -> None:
        self._built, self._job, self._tasks = built, job, tasks
        self._kept = Outside(built, copied=False)
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
        kept = Outside(self._built)
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
        self._kept.begin()
        generators = generator_states()
        metrics = self._call(model)
        changed, found = self._kept.note()
        before = self._kept.first
        for one in changed:
            if one.name in before and _counts(one) and _counts(before[one.name]):
                message = (
                    f"changes {one.name!r}, which is lost with the process that keeps it; compute "
                    "metrics from the model alone, or name it in scratch where none depends on it"
                )
                raise refuse(self._job, "evaluate()", message)
        new = [one for one in changed if one.name in found and _absent(before.get(one.name))]
        if new and content(generators) != content(generator_states()):
            self._draw_again(model, new)
        return metrics

    def _draw_again(self, model: nn.Module, new: Sequence[Kept]) -> None:
        """Evaluate with other random numbers: what is kept from then on must be the same.

        Raises
        ------
        SpecError
            It is not, so a process that goes on with this job would keep something else.
        """
        state = {name: value.detach().clone() for name, value in tensors(model).items()}
        generators = generator_states()
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
        set_generator_states(generators)
        with torch.no_grad():
            for name, value in tensors(model).items():
                value.copy_(state[name])

    def _otherwise(self, model: nn.Module) -> Mapping[str, Kept]:
        """All that is kept after an evaluation with other random numbers."""
        self._kept.begin()
        seed_otherwise(self._job.seed)
        self._call(model)
        _, found = self._kept.note()
        return found


def _counts(kept: Kept) -> bool:
    """Whether it is a number or a generator that the app itself keeps, and no object of its."""
    return isinstance(kept.value, _COUNTING) and kept.name.count(".") < 2


def _absent(kept: Kept | None) -> bool:
    return kept is None or kept.value is None
