"""Hooks of optimizers that keep something: averages, counters, generators."""

from __future__ import annotations

import array
import itertools
import random
import threading
from collections import Counter, defaultdict, deque
from typing import Any, ClassVar

import numpy as np
import torch
from _restored_base import Base, average, kinds_in, size
from torch import nn, optim
from torch.optim import swa_utils

calls = 0
shared: dict[str, Any] = {"norm": 0.0}


class AverageInHook(Base):
    """An average that a closure holds, and the metric reads."""

    through_data: ClassVar[bool] = False

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        kept = [one.detach().clone() for one in parameters]
        through_data = self.through_data

        def hook(*_: Any) -> None:
            if through_data:
                for one, other in zip(kept, parameters, strict=True):
                    one.data.mul_(0.8).add_(other.data, alpha=0.2)
            else:
                average(kept, parameters)

        optimizer.register_step_post_hook(hook)
        self.average = lambda: kept
        return optimizer


class AverageThroughData(AverageInHook):
    through_data = True


class AverageInApp(Base):
    """The same in an attribute of the app, by name, made by the first step."""

    begins: ClassVar[int] = 0

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        self.named = list(named_parameters)
        self.average: Any = {}
        self.after = 0
        optimizer = super().optimizer(self.named)
        optimizer.register_step_post_hook(self.stepped)
        return optimizer

    def stepped(self, *_: Any) -> None:
        """Average the parameters."""
        self.after += 1
        if self.after <= self.begins:
            return
        for name, one in self.named:
            old = self.average.get(name, one.detach())
            self.average[name] = 0.9 * old + 0.1 * one.detach()


class AverageInAppLate(AverageInApp):
    begins = 5


class AveragedModel(Base):
    """``torch.optim.swa_utils.AveragedModel``, updated by a hook."""

    begins: ClassVar[int] = 0
    average: Any = None

    def model(self) -> nn.Module:
        self.net = super().model()
        return self.net

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        self.seen = 0
        self.swa: Any = None if self.begins else self.made()

        def hook(*_: Any) -> None:
            self.seen += 1
            if self.seen >= self.begins:
                self.swa = self.swa or self.made()
                self.swa.update_parameters(self.net)

        optimizer.register_step_post_hook(hook)
        self.average = lambda: [] if self.swa is None else [*self.swa.parameters()]
        return optimizer

    def made(self) -> Any:
        """The average."""
        return swa_utils.AveragedModel(self.net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))


class AveragedModelLate(AveragedModel):
    begins = 5
    refused = "self.swa holds a AveragedModel"


class _HookOf(Base):
    """A hook before each step that multiplies all gradients by a number; see ``number``."""

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        number = self.number()

        def hook(*_: Any) -> None:
            norm = float(sum(one.grad.abs().sum() for one in parameters))
            factor = float(number(norm))
            for one in parameters:
                one.grad = one.grad * factor

        optimizer.register_step_pre_hook(hook)
        return optimizer

    def number(self) -> Any:
        """What gives the number from the norm."""
        raise NotImplementedError


class HookMean(_HookOf):
    def number(self) -> Any:
        mean = 1.0

        def clip(norm: float) -> float:
            nonlocal mean
            mean = 0.9 * mean + 0.1 * norm
            return min(1.0, mean / norm)

        return clip


class HookDeque(_HookOf):
    def number(self) -> Any:
        last: deque[float] = deque(maxlen=3)

        def clip(norm: float) -> float:
            last.append(norm)
            return min(last) / norm

        return clip


class HookSet(_HookOf):
    def number(self) -> Any:
        seen: set[int] = set()

        def clip(norm: float) -> float:
            seen.add(int(norm * 10))
            return 1 / len(seen)

        return clip


class HookCounts(_HookOf):
    def number(self) -> Any:
        seen: Counter[str] = Counter()
        sizes: defaultdict[str, list[float]] = defaultdict(list)

        def clip(norm: float) -> float:
            seen["high" if norm > 3 else "low"] += 1
            sizes["all"].append(norm)
            return 1 / (1 + seen["low"]) + 1 / (1 + len(sizes["all"]))

        return clip


class HookArray(_HookOf):
    def number(self) -> Any:
        last = np.ones(4)

        def clip(norm: float) -> float:
            last[:-1] = last[1:]
            last[-1] = norm
            return float(last.mean() / norm)

        return clip


class HookNumpyDraws(_HookOf):
    def number(self) -> Any:
        draw = np.random.default_rng(3)
        return lambda norm: draw.uniform(0.5, 1)


class HookLegacyDraws(_HookOf):
    def number(self) -> Any:
        draw = np.random.RandomState(3)
        return lambda norm: draw.uniform(0.5, 1)


class HookTorchDraws(_HookOf):
    def number(self) -> Any:
        draw = torch.Generator().manual_seed(3)
        return lambda norm: torch.rand((), generator=draw)


class HookPythonDraws(_HookOf):
    def number(self) -> Any:
        draw = random.Random(3)
        return lambda norm: draw.random()


class HookIterates(_HookOf):
    refused = "a count, goes on at each step"

    def number(self) -> Any:
        steps = itertools.count(1)
        return lambda norm: 1 / next(steps)


class HookGenerates(_HookOf):
    refused = "a generator, goes on at each step"

    def number(self) -> Any:
        def endless() -> Any:
            n = 1.0
            while True:
                n *= 0.9
                yield n

        steps = endless()
        return lambda norm: next(steps)


class HookThread(_HookOf):
    """Numbers in what belongs to a thread."""

    def number(self) -> Any:
        own = threading.local()
        own.seen = 0

        def clip(norm: float) -> float:
            own.seen += 1
            return 1 / own.seen

        return clip


class HookBytes(_HookOf):
    refused = "a array, goes on at each step"

    def number(self) -> Any:
        own = array.array("d", [0.0])

        def clip(norm: float) -> float:
            own[0] += 1
            return 1 / own[0]

        return clip


class HookGlobal(_HookOf):
    def number(self) -> Any:
        def clip(norm: float) -> float:
            global calls
            calls += 1
            shared["norm"] = 0.5 * shared["norm"] + norm
            return shared["norm"] / norm / (1 + calls)

        return clip


class Slots:
    """Counts in a slot, and in its class."""

    __slots__ = ("seen",)
    every = 0

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, norm: float) -> float:
        """Less each time."""
        self.seen += 1
        type(self).every += 2
        return 1 / (self.seen + type(self).every)


class HookSlots(_HookOf):
    def number(self) -> Any:
        Slots.every = 0
        return Slots()


class HookDefault(_HookOf):
    def number(self) -> Any:
        def clip(norm: float, seen: list[float] = [0.0]) -> float:  # noqa: B006
            seen[0] += 1
            return 1 / seen[0]

        return clip


class HookFunction(_HookOf):
    def number(self) -> Any:
        def clip(norm: float) -> float:
            clip.calls += 1  # type: ignore[attr-defined]
            return 1 / clip.calls  # type: ignore[attr-defined, no-any-return]

        clip.calls = 0  # type: ignore[attr-defined]
        return clip


class HookLate(Base):
    """A hook that registers another one at the fifth step."""

    refused = "post_hooks[1] holds a function"

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        seen = [0]

        def hook(*_: Any) -> None:
            seen[0] += 1
            if seen[0] == 5:
                optimizer.register_step_post_hook(lambda *_: parameters[0].data.mul_(0.5))

        optimizer.register_step_post_hook(hook)
        return optimizer


class Teacher(Base):
    """A second model in the app, that a hook lets follow the first."""

    def model(self) -> nn.Module:
        self.net = super().model()
        self.teacher = super().model()
        return self.net

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        optimizer.register_step_post_hook(
            lambda *_: average(list(self.teacher.parameters()), list(self.net.parameters()))
        )
        return optimizer

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return {"teacher": size(self.teacher.parameters())}


HOOKS = kinds_in(globals())
