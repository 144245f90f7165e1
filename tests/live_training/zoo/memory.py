"""Apps whose tensors lie in memory, or are of a type, that not every engine could keep."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from zoo_base import Base


class Flat(Base):
    """Parameters that are views of one memory, side by side."""

    def model(self) -> nn.Module:
        model = super().model()
        flat, at = torch.cat([p.detach().reshape(-1) for p in model.parameters()]), 0
        for p in model.parameters():
            p.data = flat[at : at + p.numel()].view(p.shape)
            at += p.numel()
        return model


class Columns(Base):
    """Buffers that are columns of one table, between each other's elements."""

    def model(self) -> nn.Module:
        model, table = super().model(), torch.zeros(5, 2)
        model.register_buffer("one", table[:, 0])
        model.register_buffer("two", table[:, 1])
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        model.one += batch[0].mean()
        return super().loss(model, batch) + model.two.sum()


class Tied(Base):
    def model(self) -> nn.Module:
        model = nn.ModuleDict({"enc": nn.Linear(4, 4), "dec": nn.Linear(4, 4)})
        self.tie(model)
        return model

    def tie(self, model: Any) -> None:
        model["dec"].weight.data = model["enc"].weight.data

    def loss(self, model: Any, batch: Any) -> Tensor:
        x, y = batch
        return (model["dec"](model["enc"](x)) - y).square().mean()


class Transposed(Tied):
    def tie(self, model: Any) -> None:
        model["dec"].weight.data = model["enc"].weight.data.t()[:, :3]


class TiedByATask(Tied):
    """Equal at first, and in one memory from the first task on."""

    def tie(self, model: Any) -> None:
        model["dec"].load_state_dict(model["enc"].state_dict())

    def loss(self, model: Any, batch: Any) -> Tensor:
        super().tie(model)
        return super().loss(model, batch)


class TiedByTheOptimizer(Tied):
    def tie(self, model: Any) -> None:
        self.made = model

    def optimizer(self, named_parameters: Any) -> Any:
        super().tie(self.made)
        return super().optimizer(named_parameters)


class WithABuffer(Base):
    def model(self) -> nn.Module:
        model = super().model()
        model.register_buffer("more", self.more(model))
        return model

    def more(self, model: nn.Module) -> Tensor:
        raise NotImplementedError


class RowsOfAWeight(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return model[0].weight.detach()[2:4]


class PartOfABuffer(WithABuffer):
    def more(self, model: Any) -> Tensor:
        model.register_buffer("all", torch.zeros(6))
        return model.all[::2]


class Expanded(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.ones(1).expand(6)


class Windows(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.arange(6.0).unfold(0, 3, 1)


class Meta(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.ones(3, device="meta")


class Parameter(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return nn.Parameter(torch.ones(3))


class Complex128(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.ones(3, dtype=torch.complex128)


class Uint16(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.ones(3, dtype=torch.uint16)


class Float8(WithABuffer):
    def more(self, model: Any) -> Tensor:
        return torch.ones(3).to(torch.float8_e4m3fn)


class FewItems(Base):
    def dataset(self) -> Any:
        return torch.ones(3, 4), torch.ones(3, 1)


class ClampsDataLate(Base):
    """Clamps past autograd, from its fourth round on, of which a buffer tells."""

    first = 3

    def model(self) -> nn.Module:
        model = super().model()
        model.register_buffer("seen", torch.zeros(1, dtype=torch.int64))
        return model

    def loss(self, model: Any, batch: Any) -> Tensor:
        if model.seen >= self.first:
            model[0].weight.data.clamp_(-0.1, 0.1)
        model.seen += 1
        return super().loss(model, batch)


class ClampsDataLater(ClampsDataLate):
    """From its sixth round on: the next in which bytes are compared is the eighth."""

    first = 5


class ArrayLate(ClampsDataLate):
    """The same through an array."""

    def loss(self, model: Any, batch: Any) -> Tensor:
        if model.seen >= 3:
            model[0].weight.detach().numpy().clip(-0.1, 0.1, out=model[0].weight.detach().numpy())
        model.seen += 1
        return Base.loss(self, model, batch)
