"""Barriers that change what tasks read, which have another build of the app, or seem to."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from _restored_base import Base, kinds_in
from torch import Tensor, nn, optim
from torch.nn import functional

_FROM = 4
_READ = "is changed at the barrier, and tasks read it"
_SET = "is changed at the barrier, where no task sees it"
heat = 1.0


class _Steps(Base):
    """A hook after each step calls ``stepped`` with the number of steps made."""

    separable = True
    net: Any = None

    def model(self) -> nn.Module:
        self.net = super().model()
        made: nn.Module = self.net
        return made

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        self.made = 0

        def hook(*_: Any) -> None:
            self.made += 1
            self.stepped(self.made)

        optimizer.register_step_post_hook(hook)
        return optimizer

    def stepped(self, made: int) -> None:
        """What the hook does."""


class InApp(_Steps):
    refused = f"self.temp {_READ}"
    temp = 1.0

    def model(self) -> nn.Module:
        self.temp = 1.0
        return super().model()

    def stepped(self, made: int) -> None:
        self.temp *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / self.temp


class InHelper(InApp):
    """A method reads it, for ``loss``."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return Base.loss(self, model, batch) / self.divisor()

    def divisor(self) -> float:
        """What divides the loss."""
        return 1 + self.temp


class ByText(InApp):
    """It is read by a name that is a text."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return Base.loss(self, model, batch) / float(getattr(self, "temp"))  # noqa: B009


class ByComputedName(_Steps):
    """No search of names finds it: tasks go on with the number as it was built."""

    temp = 1.0

    def stepped(self, made: int) -> None:
        self.temp *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return Base.loss(self, model, batch) / float(getattr(self, "".join(("te", "mp"))))


class InDict(_Steps):
    refused = f"self.kept {_READ}"

    def model(self) -> nn.Module:
        self.kept = {"temp": 1.0}
        return super().model()

    def stepped(self, made: int) -> None:
        self.kept["temp"] *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / self.kept["temp"]


class InTensor(_Steps):
    refused = f"self.weight {_READ}"

    def model(self) -> nn.Module:
        self.weight = torch.ones(3)
        return super().model()

    def stepped(self, made: int) -> None:
        self.weight *= 0.9

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        return functional.cross_entropy(model(x), y, weight=self.weight)


class InClass(_Steps):
    refused = f"InClass.temp {_READ}"
    temp: ClassVar[float] = 1.0

    def stepped(self, made: int) -> None:
        type(self).temp *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / self.temp


class InGlobal(_Steps):
    refused = f"heat {_READ}"

    def stepped(self, made: int) -> None:
        global heat
        heat *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / heat


class InCell(_Steps):
    refused = f"temp {_READ}"

    def model(self) -> nn.Module:
        temp = 1.0

        def cool() -> None:
            nonlocal temp
            temp *= 0.8

        self.cool, self.divide = cool, lambda loss: loss / temp
        return super().model()

    def stepped(self, made: int) -> None:
        self.cool()

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        divided: Tensor = self.divide(super().loss(model, batch))
        return divided


class InCriterion(_Steps):
    refused = f"self.criterion.label_smoothing {_READ}"

    def model(self) -> nn.Module:
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        return super().model()

    def stepped(self, made: int) -> None:
        self.criterion.label_smoothing *= 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        found: Tensor = self.criterion(model(x), y)
        return found


class InDropout(_Steps):
    refused = f"model.1.p {_READ}"

    def model(self) -> nn.Module:
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
        return self.net

    def stepped(self, made: int) -> None:
        self.net[1].p *= 0.8


class InGroup(Base):
    """The loss is divided by the learning rate, which a schedule changes at barriers."""

    refused = f"optimizer.param_groups[0] {_READ}"

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        optimizer = super().steps(parameters)
        self.group = optimizer.param_groups[0]
        return optimizer

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.StepLR(optimizer, _FROM)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) / self.group["lr"]


class InTeacher(_Steps):
    """A mean teacher beside the model: no task would see how it moves."""

    refused = f"self.teacher._modules['0']._parameters['weight'] {_READ}"

    def model(self) -> nn.Module:
        made = super().model()
        self.teacher = super().model()
        self.net = made
        return made

    def stepped(self, made: int) -> None:
        for old, new in zip(self.teacher.parameters(), self.net.parameters(), strict=True):
            old.data.lerp_(new.data, 0.1)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            wanted = self.teacher(batch[0])
        return super().loss(model, batch) + functional.mse_loss(model(batch[0]), wanted)


class InHookOfModule(_Steps):
    """A hook of a module reads the app from its closure."""

    refused = f"self.made {_READ}"

    def model(self) -> nn.Module:
        made = super().model()
        made.register_forward_hook(lambda _, __, out: out / (1 + getattr(self, "made", 0)))
        return made


class OnParameter(_Steps):
    """A hook notes a number on a parameter, which each module's forward reads."""

    def stepped(self, made: int) -> None:
        for one in self.net.parameters():
            one.steps = made


class Replaces(_Steps):
    refused = f"model.1 {_SET}"

    def stepped(self, made: int) -> None:
        if made == _FROM:
            self.net[1] = nn.ReLU()


class HooksLate(_Steps):
    refused = f"model.1._forward_hooks[0] {_SET}"

    def stepped(self, made: int) -> None:
        if made == _FROM:
            self.net[1].register_forward_hook(lambda *at: at[2] * 0.5)


class GradientHooksLate(_Steps):
    refused = f"model.0.weight._backward_hooks[0] {_SET}"

    def stepped(self, made: int) -> None:
        if made == _FROM:
            next(self.net.parameters()).register_hook(lambda grad: grad * 0.5)


class Freezes(_Steps):
    refused = f"model.0.weight.requires_grad {_SET}"

    def stepped(self, made: int) -> None:
        if made == _FROM:
            next(self.net.parameters()).requires_grad_(False)


class ReplacesParameter(_Steps):
    refused = f"model.0.weight {_SET}"

    def stepped(self, made: int) -> None:
        if made == _FROM:
            layer: Any = self.net[0]
            layer.weight = nn.Parameter(layer.weight.detach().clone())


class CountsInModel(_Steps):
    """Attributes of the model that no task reads: they are kept."""

    separable = False

    def stepped(self, made: int) -> None:
        net = self.net
        net.steps = getattr(net, "steps", 0) + 1
        net.last = next(self.net.parameters()).detach().clone()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        net = self.net
        return {"steps": float(net.steps), "last": float(net.last.sum())}


class InBuffer(_Steps):
    """A buffer that a hook changes is seen by tasks."""

    def model(self) -> nn.Module:
        net = super().model()
        net.register_buffer("temp", torch.ones(()))
        return net

    def stepped(self, made: int) -> None:
        self.net.temp = self.net.temp * 0.8

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        temp: Any = model.temp
        return super().loss(model, batch) / temp


class NamedAsMethods(_Steps):
    """Values that a hook changes are named as methods of tensors are, which tasks call."""

    mean = 0.0
    size = 0

    def stepped(self, made: int) -> None:
        self.mean, self.size = 1 / made, made

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        found: Tensor = super().loss(model, batch)
        return found.mean() / batch[0].size(0)


class ByParent(InHelper):
    """It is read by a method of ``super()``, which a variable has."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        parent = super()
        return Base.loss(self, model, batch) / parent.divisor()


TASKS = kinds_in(globals())
