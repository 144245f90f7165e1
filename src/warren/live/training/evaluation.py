"""One evaluation of a job, on the side of servers, in a ring and in the plain loop."""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

from warren.live.training.built import Built
from warren.live.training.contract import checked_metrics, refuse
from warren.live.training.kept_values import GENERATORS, Kept
from warren.live.training.outside import Outside
from warren.live.training.task_rules import TaskRules
from warren.model.job import Job

_COUNTING: Final = (bool, int, float, complex, *GENERATORS)


class Evaluation:
    """Calls ``evaluate`` of an app, and looks at what it keeps.

    A server that is lost forgets what is in no checkpoint, and another one goes on: metrics may
    not depend on numbers and generators that evaluations change. ``tasks``: of the same app, run
    in this process too. Neither sees what the other leaves, as where they are processes apart.
    """

    def __init__(self, built: Built, job: Job, tasks: TaskRules | None = None) -> None:
        self._built, self._job, self._tasks = built, job, tasks
        self._kept = Outside(built, copied=False)

    def of(self, model: nn.Module) -> dict[str, float]:
        """The app's metrics of a model, which is in eval mode meanwhile.

        Raises
        ------
        SpecError
            They are no numbers, or the app keeps count of its evaluations.
        """
        if self._tasks is not None:
            self._tasks.kept.hide()
            self._kept.show()
        self._kept.begin()
        metrics = self._call(model)
        before = self._kept.first
        changed, _ = self._kept.note()
        for one in changed:
            if one.name in before and _counts(one) and _counts(before[one.name]):
                message = (
                    f"changes {one.name!r}, which is lost with the process that keeps it; compute "
                    "metrics from the model alone, or name it in scratch where none depends on it"
                )
                raise refuse(self._job, "evaluate()", message)
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


def _counts(kept: Kept) -> bool:
    """Whether it is a number or a generator that the app itself keeps, and no object of its."""
    return isinstance(kept.value, _COUNTING) and kept.name.count(".") < 2
