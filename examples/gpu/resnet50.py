"""A ResNet of torchvision on random pictures, which stand in for yours; bf16, SGD with momentum.

Each of its kernels has a deterministic form on CUDA. Adaptive pooling has one only to 1 x 1, as
here, where it is a mean. VGG and AlexNet pool to other sizes (``nn.AdaptiveAvgPool2d(7)``): put
``nn.AvgPool2d`` with a fixed window in its place.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision import models

from warren.apps.protocol import TorchApp


class ResNet(TorchApp):
    """Options: a net of torchvision by its name, and the size of its pictures and of its data."""

    lr: float = 0.1
    net: str = "resnet50"
    side: int = 224
    classes: int = 1000
    images: int = 1024

    def model(self) -> nn.Module:
        """The net with random weights."""
        net: nn.Module = models.get_model(self.net, weights=None, num_classes=self.classes)
        return net

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Pictures as bytes, and their classes."""
        shape = self.images, 3, self.side, self.side
        pictures = torch.randint(256, shape, dtype=torch.uint8)
        return pictures, torch.randint(self.classes, (self.images,))

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean cross entropy; bytes become numbers on the device."""
        pictures, classes = batch
        with torch.autocast(pictures.device.type, dtype=torch.bfloat16):
            scores = model(pictures.float() / 255 - 0.5)
        return functional.cross_entropy(scores.float(), classes)

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """SGD with momentum and weight decay."""
        return torch.optim.SGD(named, lr=self.lr, momentum=0.9, weight_decay=1e-4)
