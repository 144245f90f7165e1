"""Five apps of different kinds that keep to their contract, and need nothing but PyTorch.

Each uses something of its process that a neighbor could change: how kernels are chosen, what is
done with denormal numbers, the default dtype, the environment, the working folder, what a module
finds on ``sys.path``, functions of PyTorch, and the generators of ``random``, ``numpy`` and torch.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler
from torch.utils.data import Dataset

from warren.apps.protocol import TorchApp

Pair = tuple[Tensor, Tensor]
SAMPLES = 64


class Perceptron(TorchApp):
    """Charges in coulomb: squares of them, and so gradients, are denormal numbers."""

    lr: float = 1e36
    unit: float = 1.6e-19
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """One hidden layer; the last one has the unit of the target."""
        return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1, bias=False))

    def dataset(self) -> Pair:
        """A curved plane."""
        x = torch.randn(SAMPLES, 6)
        return x, x.abs().sum(1, keepdim=True) * self.unit

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean square, in squared coulomb."""
        x, y = batch
        work(self.sleep_s)
        return (model(x) * self.unit - y).square().mean()

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD, as far as the gradients are small."""
        return torch.optim.SGD(list(named_parameters), lr=self.lr)


class ConvNet(TorchApp):
    """Convolution, batch norm and dropout, on images with noise that is drawn for each task."""

    lr: float = 0.05
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """Two convolutions."""
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Dropout(0.25), nn.Linear(16 * 16, 4),
        )  # fmt: skip

    def dataset(self) -> Pair:
        """Noise in which one quarter is brighter."""
        x, y = torch.rand(SAMPLES, 1, 8, 8), torch.arange(SAMPLES) % 4
        for image, quarter in zip(x, y.tolist(), strict=True):
            row, column = 4 * (quarter // 2), 4 * (quarter % 2)
            image[0, row : row + 4, column : column + 4] += 0.5
        return x, y

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean cross entropy; how much noise, the environment may say."""
        x, y = batch
        work(self.sleep_s)
        noise = float(os.environ.get("NOISE", "0.1")) * torch.randn(x.shape)
        return functional.cross_entropy(model((x + noise).to(x.dtype)), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(list(named_parameters), lr=self.lr, momentum=0.9)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Mean cross entropy of images without noise."""
        x, y = self.dataset()
        return {"entropy": float(functional.cross_entropy(model(x), y))}


class Files(Dataset[Pair]):
    """Samples that are read from ``folder`` whenever they are needed, and turned by chance."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Pair:
        row = np.load(self._folder / f"{index:03}.npy")
        turned = row[:-1] * np.random.uniform(0.9, 1.1) + random.gauss(0.0, 0.01)
        return torch.from_numpy(turned.astype(np.float32)), torch.tensor(row[-1])


def write_samples(folder: Path) -> None:
    """Write what ``Scheduled`` trains on; equal wherever it is done."""
    draw = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(SAMPLES):
        row = draw.normal(size=9).astype(np.float32)
        row[-1] = np.tanh(row[:-1]).sum()
        np.save(folder / f"{index:03}.npy", row)


class Scheduled(TorchApp):
    """AdamW with a cosine schedule, on samples in files that the working folder leads to."""

    lr: float = 0.02
    folder: str = "samples"
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """Layer norm in the middle."""
        return nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 1))

    def dataset(self) -> Dataset[Pair]:
        """Read file by file."""
        return Files(self.folder)

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean Huber loss."""
        x, y = batch
        work(self.sleep_s)
        return functional.smooth_l1_loss(model(x).squeeze(1), y)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(list(named_parameters), lr=self.lr)

    def schedule(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        """Cosine."""
        return CosineAnnealingLR(optimizer, T_max=50)


class Attention(TorchApp):
    """A language model of one transformer layer; its loss imports what it needs when it runs."""

    lr: float = 0.01
    letters: int = 20
    length: int = 12
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """Embedding, one layer with dropout, letters again."""
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        return nn.Sequential(nn.Embedding(self.letters, 16), layer, nn.Linear(16, self.letters))

    def dataset(self) -> Tensor:
        """Sequences that go up by one or two."""
        steps = torch.randint(1, 3, (SAMPLES, self.length + 1))
        return steps.cumsum(1) % self.letters

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean cross entropy; every other capital letter counts twice."""
        from stringprep import map_table_b3  # standard, but nothing else has loaded it

        work(self.sleep_s)
        others = [map_table_b3(chr(65 + at)) != chr(65 + at) for at in range(self.letters)]
        weights = [1.0 + (other and at % 2 == 0) for at, other in enumerate(others)]
        scores = model(batch[:, :-1]).flatten(0, 1)
        weight = torch.tensor(weights, dtype=scores.dtype)
        return functional.cross_entropy(scores, batch[:, 1:].flatten(), weight=weight)

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(list(named_parameters), lr=self.lr)


class Halves(TorchApp):
    """Parameters of 16 bits, and a skip that adds tensors."""

    lr: float = 0.01
    sleep_s: float = 0.0

    def model(self) -> nn.Module:
        """Three layers, in bfloat16."""
        layers = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1)]
        return nn.Sequential(*layers).to(torch.bfloat16)

    def dataset(self) -> Pair:
        """A product."""
        x = torch.randn(SAMPLES, 8)
        return x, (x[:, :1] * x[:, 1:2])

    def loss(self, model: nn.Module, batch: Pair) -> Tensor:
        """Mean square, summed in 32 bits."""
        x, y = batch
        work(self.sleep_s)
        noisy = x * (1.0 + 0.05 * torch.rand(len(x), 1))
        return (model(noisy.bfloat16()).float() - y.float()).square().mean()

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Plain SGD."""
        return torch.optim.SGD(list(named_parameters), lr=self.lr)


def work(seconds: float) -> None:
    """Compute for so long what no result depends on: a task of a larger model."""
    if seconds <= 0:
        return
    from time import monotonic

    end = monotonic() + seconds
    while monotonic() < end:
        np.linalg.norm(np.ones(512))
