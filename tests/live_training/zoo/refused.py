"""Apps that ask for what no engine here can do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn, optim
from zoo_base import Base, Words


class Lbfgs(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return optim.LBFGS(p for _, p in named_parameters)


class Plateau(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.ReduceLROnPlateau(optimizer)


class NoModule(Base):
    def model(self) -> Any:
        return torch.ones(3)


class Sparse(Words):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(7, 3, sparse=True), nn.Linear(3, 1))


class Integers(Base):
    def model(self) -> nn.Module:
        model = super().model()
        model.steps = nn.Parameter(torch.zeros(1, dtype=torch.int64), requires_grad=False)
        return model


class Registers(Base):
    """Registers a buffer at its first forward pass."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        if not hasattr(model, "seen"):
            model.register_buffer("seen", torch.zeros(1))
        model.seen += 1
        return super().loss(model, batch)


class Fills(Base):
    """A buffer that is there by name only until the first forward pass."""

    def model(self) -> nn.Module:
        model = super().model()
        model.register_buffer("seen", None)
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        model.seen = torch.ones(1)
        return super().loss(model, batch)


class Counted(Base):
    def model(self) -> nn.Module:
        model = super().model()
        model.register_buffer("seen", torch.ones(1))
        return model


class Empties(Counted):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        model.seen = None
        return super().loss(model, batch)


class Lengthens(Counted):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        model.seen = torch.cat([model.seen, torch.ones(1)])
        return super().loss(model, batch)


class Grows(Base):
    """Registers a parameter at its first forward pass."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        if "late" not in dict(model.named_parameters()):
            model.late = nn.Parameter(torch.ones(1))
        return super().loss(model, batch) + model.late.sum()


class Extra(nn.Linear):
    def get_extra_state(self) -> Any:
        return torch.ones(2)

    def set_extra_state(self, state: Any) -> None:
        pass


class ExtraState(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(Extra(4, 6), nn.Linear(6, 1))


class MaxNorm(Words):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(7, 3, max_norm=0.5), nn.Linear(3, 1))


class Clamps(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.1, 0.1)
        return super().loss(model, batch)


class ClampsData(Base):
    """The same past autograd, as the papers' own code has it."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        for parameter in model.parameters():
            parameter.data.clamp_(-0.1, 0.1)
        return super().loss(model, batch)


class ClampsLate(Base):
    """Clamps in its fourth round only, of which a buffer tells."""

    def model(self) -> nn.Module:
        model = super().model()
        model.register_buffer("seen", torch.zeros(1, dtype=torch.int64))
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        if model.seen >= 3:
            nn.init.constant_(model[0].weight, 0.1)
        model.seen += 1
        return super().loss(model, batch)


class Adversary(Base):
    """A discriminator with an optimizer of its own."""

    fused = False

    def model(self) -> nn.Module:
        return nn.ModuleDict({"make": nn.Linear(4, 4), "judge": nn.Linear(4, 1)})

    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return optim.SGD((p for n, p in named_parameters if n.startswith("make")), lr=0.1)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        if not hasattr(self, "other"):
            self.other = optim.Adam(model["judge"].parameters(), lr=0.01, fused=self.fused)
        self.other.zero_grad()
        model["judge"](model["make"](batch[0]).detach()).mean().backward()
        self.other.step()
        return -model["judge"](model["make"](batch[0])).mean()


class FusedAdversary(Adversary):
    """Its step moves no version."""

    fused = True


class Replaces(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        model[2].bias = nn.Parameter(model[2].bias.detach() * 0.5)
        return super().loss(model, batch)
