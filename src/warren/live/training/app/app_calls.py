"""The calls of an app's methods, the same in every engine and every process."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from warren.apps.protocol import TorchApp
from warren.live.training.app.app_contract import (
    build_dataset,
    build_optimizer,
    build_schedule,
    stated_ema,
)
from warren.live.training.app.model_contract import build_model, check_tensors
from warren.live.training.memory.disk_memory import DiskMemory
from warren.model.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltApp:
    """An app, and the results of its four methods for a job.

    ``ema``: the decay that the app states; None: no average.
    ``averages``: the moving average of each weight, which the process that steps it keeps.
    """

    app: TorchApp
    model: nn.Module
    dataset: Any
    optimizer: Optimizer
    schedule: LRScheduler | None
    ema: float | None = None
    averages: dict[Tensor, Tensor] = field(default_factory=dict)


def build(app: TorchApp, job: Job, disk: DiskMemory | None = None) -> BuiltApp:
    """Call model, dataset, optimizer and schedule, each right after seeding.

    Trainers, servers and the plain loop all make these calls in this order, and drop the results
    that they do not need. So an attribute that one method leaves in the app for another is the same
    in every process. ``disk``: where large tensors of the model and of the optimizer's state lie;
    None: in main memory.

    Raises
    ------
    SpecError
        The app breaks its contract.
    """
    ema = stated_ema(app)  # before a method can keep something else there
    with nullcontext() if disk is None else disk.making():
        model = build_model(app, job)
    dataset = build_dataset(app, job)
    with nullcontext() if disk is None else disk.making():
        optimizer = build_optimizer(app, job, model)
    schedule = build_schedule(app, job, optimizer)
    check_tensors(model, job)  # the other methods may have changed the model
    return BuiltApp(
        app=app, model=model, dataset=dataset, optimizer=optimizer, schedule=schedule, ema=ema
    )
