"""The contract of an app: each answer of user code is checked, with one clear line if wrong."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from warren.apps.protocol import TorchApp
from warren.live.training.seeding import (
    seed_dataset,
    seed_optimizer,
    seed_schedule,
)
from warren.model.errors import Problem, SpecError, one_line, printable, text_of
from warren.model.job import Job


def refuse(job: Job, field: str, message: str) -> SpecError:
    """Return an error about a job's app, which the caller raises."""
    return SpecError(Problem(file=job.app or job.name, field=field, message=message))


def check_job(app: TorchApp, job: Job) -> None:
    """Refuse a job that could not end, or that evaluates an app that cannot be evaluated."""
    # A bare string would be taken for a sequence of one-letter names.
    if not isinstance(app.scratch, tuple) or not all(isinstance(one, str) for one in app.scratch):
        message = f'must be a tuple of names such as ("self.calls",), not {app.scratch!r}'
        raise refuse(job, "scratch", message)
    limit = app.clip_norm
    # bool is a subclass of int, and True would silently clip at norm 1.
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is not None and not (number and 0 < limit < math.inf):
        raise refuse(job, "clip_norm", f"must be a number above 0, or None, not {limit!r}")
    ema = stated_ema(app)
    if ema is not None and not (isinstance(ema, float) and 0 < ema < 1):
        message = f"must be a number between 0 and 1 such as 0.999, or None, not {ema!r}"
        raise refuse(job, "ema", message)
    evaluates = job.evaluate is not None or job.stop is not None
    # An app overrides finished() or evaluate() where its class has another function than the base.
    says = type(app).finished is not TorchApp.finished
    if job.rounds is None and job.stop is None and not (says and evaluates):
        ends = "rounds, a stop rule, or evaluate and an app with finished()"
        raise refuse(job, "rounds", f"job {job.name!r} never ends; it needs {ends}")
    if says and not evaluates:
        message = f"of job {job.name!r} is asked after each evaluation; set evaluate: {{every: N}}"
        raise refuse(job, "finished()", message)
    if evaluates and type(app).evaluate is TorchApp.evaluate:
        raise refuse(job, "evaluate", f"job {job.name!r} evaluates, but the app has no evaluate()")


def build_dataset(app: TorchApp, job: Job) -> Any:
    """Call ``app.dataset()`` right after seeding, and refuse data that cannot be indexed."""
    seed_dataset(job.seed)
    dataset = app.dataset()
    parts = list(dataset.values()) if isinstance(dataset, dict) else dataset
    # Tensors side by side are indexed together: item i of each of them is one sample.
    if of_tensors(parts) and len({len(part) for part in parts}) != 1:
        raise refuse(job, "dataset()", "must give tensors that are all of one length")
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        message = f"must give a map-style Dataset or tensors, not {_kind(dataset)}"
        raise refuse(job, "dataset()", message)
    items = length(dataset)
    if items == 0:
        raise refuse(job, "dataset()", "has no samples")
    if (isinstance(dataset, Tensor | dict) or of_tensors(parts)) and own_collate(app):
        message = "is never called: dataset() gives tensors, which are indexed; give a Dataset"
        raise refuse(job, "collate()", message)
    # A stream of epochs would give the same item several times in one batch.
    if job.batch > items:
        raise refuse(job, "batch", f"{job.batch} is more than the {items} items of dataset()")
    return dataset


def own_collate(app: TorchApp) -> Callable[[list[Any]], Any] | None:
    """Return the app's ``collate`` if it defines one, otherwise None."""
    return None if type(app).collate is TorchApp.collate else app.collate


def own_sampler(app: TorchApp) -> Callable[[int, int], Any] | None:
    """Return the app's ``sampler`` if it defines one, otherwise None."""
    return None if type(app).sampler is TorchApp.sampler else app.sampler


def length(dataset: Any) -> int:
    """Return the number of samples of a dataset."""
    parts = list(dataset.values()) if isinstance(dataset, dict) else dataset
    return len(parts[0]) if of_tensors(parts) else len(parts)


def of_tensors(parts: Any) -> bool:
    """Tell whether a dataset is several tensors side by side."""
    several = isinstance(parts, tuple | list) and len(parts) > 0
    return several and all(isinstance(part, Tensor) for part in parts)


def build_optimizer(app: TorchApp, job: Job, model: nn.Module) -> torch.optim.Optimizer:
    """Call ``app.optimizer`` right after seeding; refuse a fused one, and one with a closure."""
    seed_optimizer(job.seed)
    optimizer = app.optimizer(list(model.named_parameters()))
    if not isinstance(optimizer, torch.optim.Optimizer):
        message = f"must give a torch.optim.Optimizer, not {_kind(optimizer)}"
        raise refuse(job, "optimizer()", message)
    if _needs_argument(optimizer.step):
        message = f"{_kind(optimizer)}.step needs a closure; only gradients of one pass exist here"
        raise refuse(job, "optimizer()", message)
    if any(group.get("fused") for group in optimizer.param_groups):
        raise refuse(job, "optimizer()", f"{_kind(optimizer)} must be built with fused=False")
    return optimizer


# Exact types: a subclass may override ``step`` and look at several tensors at once.
_TENSORWISE: Final = frozenset(
    {
        optim.SGD,
        optim.Adam,
        optim.AdamW,
        optim.Adagrad,
        optim.Adadelta,
        optim.RMSprop,
        optim.Rprop,
        optim.Adamax,
        optim.NAdam,
        optim.RAdam,
        optim.ASGD,
    }
)


def tensorwise(optimizer: optim.Optimizer) -> bool:
    """Tell whether an optimizer steps each tensor alone, without chance, and keeps no gradient."""
    # Of an optimizer of another type nothing is asked: it may not have called ``__init__``.
    return type(optimizer) in _TENSORWISE and not any(
        (
            optimizer._optimizer_step_pre_hooks,
            optimizer._optimizer_step_post_hooks,
            _global_optimizer_pre_hooks,
            _global_optimizer_post_hooks,
        )
    )


def check_split(app: TorchApp, job: Job, optimizer: optim.Optimizer, parts: int) -> None:
    """Refuse several servers for an optimizer that may look at several tensors at once."""
    if parts > 1 and not (tensorwise(optimizer) or app.separable):
        known = ", ".join(sorted(kind.__name__ for kind in _TENSORWISE))
        message = (
            f"{_kind(optimizer)} is not known to step each tensor alone, so job {job.name!r} "
            f"cannot have {parts} servers; allowed: servers: 1, or {known} of torch.optim "
            "without hooks, or an app with separable = True"
        )
        raise refuse(job, "optimizer()", message)


@contextmanager
def stepped_apart(job: Job, optimizer: optim.Optimizer, parts: int) -> Iterator[None]:
    """Refuse an optimizer that fails in a step without the gradients of other servers' tensors.

    Raises
    ------
    SpecError
        It raised an error of those that come of a missing gradient or state.
    """
    try:
        yield
    except (TypeError, AttributeError, LookupError) as error:
        if parts == 1:
            raise
        message = (
            f"{_kind(optimizer)} cannot be split over {parts} servers: where a gradient is None, "
            f"since another server has that tensor, step() raised {one_line(error)}; use servers: "
            "1, or skip parameters whose grad is None"
        )
        raise refuse(job, "optimizer()", message) from error


def stated_ema(app: TorchApp) -> Any:
    """Return the ``ema`` that an app's class states, or a job for it; None: it states none.

    What methods keep in ``self.ema`` does not count, nor does a method of that name.
    """
    stated = getattr(app, "ema", None) if hasattr(type(app), "ema") else None
    return None if callable(stated) else stated


def check_blocks(app: TorchApp, job: Job, optimizer: optim.Optimizer) -> None:
    """Refuse to put the blocks of a model on disk that no step can take one by one."""
    if stated_ema(app) is not None:
        message = "keeps an average in memory, so the model cannot be on disk; allowed: more memory"
        raise refuse(job, "ema", message)
    if not tensorwise(optimizer):
        message = (
            f"{_kind(optimizer)} is not known to step each tensor alone, so the model of job "
            f"{job.name!r} cannot be on disk; allowed: more memory for its host, or a torch.optim "
            "optimizer that may have several servers"
        )
        raise refuse(job, "optimizer()", message)


def build_schedule(app: TorchApp, job: Job, optimizer: torch.optim.Optimizer) -> LRScheduler | None:
    """Call ``app.schedule`` right after seeding; refuse a schedule that wants a metric."""
    seed_schedule(job.seed)
    scheduled = _scheduled(optimizer)
    schedule = app.schedule(optimizer)
    if schedule is None and _scheduled(optimizer) > scheduled:
        raise refuse(job, "schedule()", "makes a schedule and returns None; return the schedule")
    if schedule is not None and not isinstance(schedule, LRScheduler):
        raise refuse(job, "schedule()", f"must give an LRScheduler or None, not {_kind(schedule)}")
    if schedule is not None and _needs_argument(schedule.step):
        raise refuse(job, "schedule()", f"{_kind(schedule)}.step needs a metric; only rounds count")
    return schedule


def _scheduled(optimizer: torch.optim.Optimizer) -> int:
    """Return the number of groups that a schedule was made for: it notes their first rates."""
    return sum("initial_lr" in group for group in optimizer.param_groups)


def checked_loss(loss: object, job: Job) -> Tensor:
    """Return the loss of one batch, once it is a scalar tensor that can be differentiated."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else _kind(loss)
        raise refuse(job, "loss()", f"must give a scalar tensor, the batch mean, not {shape}")
    if not loss.requires_grad:
        raise refuse(job, "loss()", "depends on no parameter that is trained")
    return loss


def check_converges(loss: float, round_no: int, job: Job) -> None:
    """Refuse to train on parameters that a round made NaN, unless the job says otherwise.

    Raises
    ------
    SpecError
        The round's mean loss is NaN.
    """
    if job.nan_loss == "fail" and math.isnan(loss):
        message = f"the loss of round {round_no} is NaN; nan_loss: train goes on all the same"
        raise SpecError(Problem(file="diverged", message=message))


def checked_metrics(metrics: object, job: Job) -> dict[str, float]:
    """Return evaluated metrics as floats, sorted by name; a stop rule must find its own."""
    if not isinstance(metrics, Mapping):
        raise refuse(job, "evaluate()", f"must give a dict of numbers, not {_kind(metrics)}")
    try:
        values = {printable(str(name)): float(metrics[name]) for name in sorted(metrics)}
    except (TypeError, ValueError) as error:
        raise refuse(job, "evaluate()", f"must give a dict of numbers: {text_of(error)}") from None
    if job.stop is not None and job.stop.metric not in values:
        message = f"gives no {job.stop.metric!r}; it gives: {', '.join(values) or 'nothing'}"
        raise refuse(job, "stop.metric", f"evaluate() {message}")
    return values


def ends(app: TorchApp, job: Job, metrics: Mapping[str, float]) -> bool:
    """Tell whether an evaluation ends the job: by its stop rule, or because its app says so."""
    if job.stop is not None and job.stop.holds(metrics):
        return True
    answer = app.finished(metrics)
    # A number would be true or false by accident, and the job would end a round early or never.
    if not isinstance(answer, bool):
        raise refuse(job, "finished()", f"must give True or False, not {_kind(answer)}")
    return answer


def _needs_argument(method: Any) -> bool:
    """Tell whether a method cannot be called without arguments."""
    parameters = inspect.signature(method).parameters.values()
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        for parameter in parameters
    )


def _kind(value: object) -> str:
    return type(value).__name__
