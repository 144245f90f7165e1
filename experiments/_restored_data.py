"""Barriers that change the data set, which is fixed, or the shape of a tensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from _restored_base import Base, kinds_in
from _restored_tasks import _FROM, _Steps
from torch import Tensor, nn, optim
from torch.utils.data import Dataset

_OF_DATA = "is changed at the barrier, and data change for no task"


class Scaled(Dataset[Any]):
    """Samples that an epoch scales, as a mixture or a schedule of augmentation would."""

    def __init__(self, x: Tensor, y: Tensor, parts: Any = None) -> None:
        self.x, self.y, self.epoch, self.parts = x, y, 0, parts

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index] * (1 + self.epoch), self.y[index]

    def set_epoch(self, epoch: int) -> None:
        """As PyTorch's samplers have it."""
        self.epoch = epoch


class SetsEpoch(_Steps):
    """A hook says to the data set in which epoch it is."""

    refused = f"self.data.epoch {_OF_DATA}"
    data: Any = None

    def dataset(self) -> Any:
        self.data = Scaled(*super().dataset())
        return self.data

    def stepped(self, made: int) -> None:
        self.data.set_epoch(made // _FROM)


class SetsEpochBySchedule(SetsEpoch):
    """The schedule says it."""

    def schedule(self, optimizer: optim.Optimizer) -> Any:
        return optim.lr_scheduler.LambdaLR(optimizer, self.factor)

    def factor(self, made: int) -> float:
        """The factor of the learning rate."""
        self.data.set_epoch(made)
        return 1.0

    def stepped(self, made: int) -> None:
        pass


class SetsEpochInEvaluate(SetsEpoch):
    """Evaluations say it, which change no number of the app."""

    refused = "evaluate(): changes 'self.data.epoch', and data change for no task"

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self.data.set_epoch(self.data.epoch + 1)
        return super().evaluate(model)

    def stepped(self, made: int) -> None:
        pass


class SharesEpoch(SetsEpoch):
    """The epoch is a tensor that is written in place, long after the first steps."""

    def dataset(self) -> Any:
        data = super().dataset()
        data.epoch = torch.zeros(())
        return data

    def stepped(self, made: int) -> None:
        self.data.epoch.fill_(made // (_FROM + 1))


class WritesSamples(SetsEpoch):
    refused = f"self.data.x {_OF_DATA}"

    def stepped(self, made: int) -> None:
        self.data.x[0] = made


class InTransform(SetsEpoch):
    """A part of the data set, which the app has too."""

    refused = f"self.scale.by {_OF_DATA}"

    def dataset(self) -> Any:
        self.scale = SimpleNamespace(by=1.0)
        return Scaled(*Base.dataset(self), parts=self.scale)

    def stepped(self, made: int) -> None:
        self.scale.by *= 0.9


class HoldsApp(SetsEpoch):
    """The data set holds the app, whose values are state all the same."""

    refused = ""
    separable = False

    def dataset(self) -> Any:
        self.data = Scaled(*Base.dataset(self), parts=self)
        return self.data

    def stepped(self, made: int) -> None:
        for group in self.stepper.param_groups:
            group["lr"] = 0.1 / made

    def steps(self, parameters: list[nn.Parameter]) -> optim.Optimizer:
        self.stepper = super().steps(parameters)
        return self.stepper


class CachesData(SetsEpoch):
    """Samples are kept once they were looked at, which is no change of a barrier."""

    refused = ""

    def dataset(self) -> Any:
        super().dataset()
        self.data.parts = {}
        self.data.__class__ = Caching
        return self.data

    def stepped(self, made: int) -> None:
        assert len(self.data)


class Caching(Scaled):
    def __getitem__(self, index: int) -> Any:
        if index not in self.parts:
            self.parts[index] = super().__getitem__(index)
        return self.parts[index]


class ResizesKept(_Steps):
    """A tensor of a hook grows in place, which no copy of it in a checkpoint fits."""

    refused = "self.seen is changed in place from float32 (4,) to float32 (5,)"

    def model(self) -> nn.Module:
        self.seen = torch.zeros(4)
        return super().model()

    def stepped(self, made: int) -> None:
        if made > _FROM:
            self.change(self.seen)

    def change(self, tensor: Tensor) -> None:
        """Give it another shape or type, as one object."""
        tensor.resize_(tensor.numel() + 1)


class SetsKept(ResizesKept):
    refused = "self.seen is changed in place from float32 (4,) to float64 (4,)"

    def change(self, tensor: Tensor) -> None:
        tensor.data = tensor.double()


class ResizesArray(ResizesKept):
    refused = "self.seen is changed in place from int64 (4,) to int64 (2, 2)"

    def model(self) -> nn.Module:
        net = super().model()
        self.seen: Any = np.zeros(4, dtype=np.int64)
        return net

    def change(self, tensor: Any) -> None:
        tensor.shape = 2, 2


class BindsKept(ResizesKept):
    """Another tensor under the same name is saved."""

    refused = ""
    separable = False

    def change(self, tensor: Tensor) -> None:
        self.seen = torch.cat([tensor, tensor[:1] + 1])


class RetypesBuffer(ResizesKept):
    """The model of a checkpoint would be another one."""

    refused = "model.seen is changed at the barrier from float32 (4,) to float64 (4,)"

    def model(self) -> nn.Module:
        net = super().model()
        net.register_buffer("seen", self.seen)
        return net

    def change(self, tensor: Tensor) -> None:
        self.net.seen = tensor.double()


class ReshapesParameter(RetypesBuffer):
    refused = "model.0.weight is changed at the barrier from float32 (16, 8) to float32 (8, 16)"

    def change(self, tensor: Tensor) -> None:
        self.net[0].weight.data = self.net[0].weight.data.view(8, 16)


DATA = kinds_in(globals())
