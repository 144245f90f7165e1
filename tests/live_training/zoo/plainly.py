"""Apps that keep to the rules, each in a way of its own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn, optim
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, TensorDataset
from zoo_base import Base, Words


class Dropout(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.4), nn.Linear(6, 1))


class BatchNorm(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))


class Cosine(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return optim.AdamW([p for _, p in named_parameters], lr=0.01)

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return lr_scheduler.CosineAnnealingLR(optimizer, 10)


class OneCycle(Cosine):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=30)


class Lambda(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)


class Sequential(Base):
    def schedule(self, optimizer: optim.Optimizer) -> Any:
        parts = [lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.8)]
        return lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])


class Augmented(Dataset[Any]):
    def __init__(self, how: str) -> None:
        self.x, self.how = torch.randn(60, 4), how

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        noise = {
            "random": lambda: random.gauss(0, 1),
            "numpy": lambda: float(np.random.randn()),
            "torch": lambda: float(torch.randn(())),
        }[self.how]()
        return self.x[index] + 0.1 * noise, self.x[index].sum().view(1)


class AugmentedByRandom(Base):
    how = "random"

    def dataset(self) -> Any:
        return Augmented(self.how)


class AugmentedByNumpy(AugmentedByRandom):
    how = "numpy"


class AugmentedByTorch(AugmentedByRandom):
    how = "torch"


class BFloat16(Base):
    kind = torch.bfloat16

    def model(self) -> nn.Module:
        return super().model().to(self.kind)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, (batch[0].to(self.kind), batch[1]))


class Float16(BFloat16):
    kind = torch.float16


class Autocast(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().loss(model, batch)


class Transposed(Base):
    def model(self) -> nn.Module:
        model = super().model()
        model[0].weight = nn.Parameter(torch.randn(4, 6).t())
        return model


class Tied(Words):
    def model(self) -> nn.Module:
        model = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False))
        model[1].weight = model[0].weight
        return model


class SpectralOld(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(spectral_norm(nn.Linear(4, 6)), nn.Linear(6, 1))


class SpectralNew(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 6)), nn.Linear(6, 1))


class WeightNorm(Base):
    def model(self) -> nn.Module:
        return nn.Sequential(weight_norm(nn.Linear(4, 6)), nn.Linear(6, 1))


class Complex(Base):
    def model(self) -> nn.Module:
        model = nn.Linear(4, 1)
        model.turn = nn.Parameter(torch.randn(3, dtype=torch.complex64))
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) + model.turn.abs().sum()


class NaNs(Base):
    """Two kinds of not a number among its weights."""

    def model(self) -> nn.Module:
        model = super().model()
        bits = torch.tensor([0x7FC00001, 0x7FC00FFF, 0], dtype=torch.int32)
        model.odd = nn.Parameter(bits.view(torch.float32))
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) + (0.0 * model.odd[2]) + model.odd[:1].sum() * 0


class Hooks(Base):
    def model(self) -> nn.Module:
        model = super().model()
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
        return model


class Twice(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        super().loss(model, batch).backward()
        return super().loss(model, batch)


class Loads(Base):
    def dataset(self) -> Any:
        x, y = super().dataset()
        loader = DataLoader(TensorDataset(x, y), batch_size=20, num_workers=1)
        xs, ys = zip(*loader, strict=True)
        return torch.cat(xs), torch.cat(ys)


class Small(Base):
    def model(self) -> nn.Module:
        model = super().model()
        model.scale, model.none = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(0))
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return super().loss(model, batch) * model.scale + model.none.sum()


class Listed(Base):
    def dataset(self) -> Any:
        return list(zip(*super().dataset(), strict=True))


class Threads(Base):
    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        torch.set_num_threads(1)
        return super().loss(model, batch)


class Both(optim.Optimizer):
    """Two optimizers behind one object."""

    def __init__(self, parameters: Any) -> None:
        parameters = list(parameters)
        super().__init__(parameters, {})
        self.parts = [optim.SGD(parameters[:1], lr=0.1), optim.Adam(parameters[1:], lr=0.01)]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


class TwoOptimizers(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return Both(p for _, p in named_parameters)


class Clipping(optim.SGD):
    def step(self, closure: Any = None) -> Any:
        nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 0.1)
        return super().step(closure)


class Clips(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        return Clipping((p for _, p in named_parameters), lr=0.1)


class ClipNorm(Base):
    clip_norm = 0.1


class ClipNormMixed(Complex):
    """Weights with other strides, complex ones, and a parameter that no loss depends on."""

    clip_norm = 0.1

    def model(self) -> nn.Module:
        model = super().model()
        model.weight = nn.Parameter(torch.randn(4, 1).t())
        model.idle = nn.Parameter(torch.randn(3))
        return model


class ClipsBefore(Base):
    def optimizer(self, named_parameters: Any) -> optim.Optimizer:
        parameters = [p for _, p in named_parameters]
        optimizer = optim.SGD(parameters, lr=0.1)

        def clip(*_: Any) -> None:
            nn.utils.clip_grad_norm_(parameters, 0.1)

        optimizer.register_step_pre_hook(clip)
        return optimizer


class Ema(Base):
    """A moving average of the parameters, in buffers of the model."""

    def model(self) -> nn.Module:
        model = super().model()
        for name, value in list(model.named_parameters()):
            model.register_buffer(f"ema_{name.replace('.', '_')}", value.detach().clone())
        return model

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        for name, value in model.named_parameters():
            model.get_buffer(f"ema_{name.replace('.', '_')}").lerp_(value.detach(), 0.1)
        return super().loss(model, batch)


class AverageOfWeights(Base):
    """A moving average of the weights, which the servers keep."""

    ema = 0.9


class AverageOfMixed(ClipNormMixed):
    """The same of complex, transposed and idle weights, of 16 bits, and of one that is frozen."""

    ema = 0.9

    def model(self) -> nn.Module:
        model = super().model()
        model.slim = nn.Parameter(torch.randn(3).to(torch.bfloat16))
        model.frozen = nn.Parameter(torch.randn(2), requires_grad=False)
        return model
