"""A small U-Net that learns to take noise from pictures, as in diffusion; bf16, AdamW.

Each of its kernels has a deterministic form on CUDA. ``bilinear`` and ``bicubic`` have none: grow
by ``nearest``, as here, or by ``nn.ConvTranspose2d``. ``nn.ReflectionPad2d`` and
``nn.MaxUnpool2d`` have none either: use zeros at the edges, and ``nearest``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Block(nn.Module):
    """Two convolutions that are shown the time, and a way past them."""

    def __init__(self, before: int, width: int, times: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, width, 3, padding=1)
        )
        self.time = nn.Linear(times, width)
        self.second = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.past = nn.Conv2d(before, width, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return what the block adds to its input."""
        inner = self.first(x) + self.time(time)[:, :, None, None]
        result: Tensor = self.second(inner) + self.past(x)
        return result


class UNet(nn.Module):
    """Down by halves and up again, each level beside its own of the way down."""

    def __init__(self, width: int, levels: int) -> None:
        super().__init__()
        self.width = width
        sizes = [width * 2**level for level in range(levels)]
        self.times = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU())
        self.inward = nn.Conv2d(3, width, 3, padding=1)
        pairs = list(zip([width, *sizes], sizes, strict=False))
        self.down = nn.ModuleList(Block(before, after, 4 * width) for before, after in pairs)
        self.middle = Block(sizes[-1], sizes[-1], 4 * width)
        self.up = nn.ModuleList(
            Block(2 * after, before, 4 * width) for before, after in reversed(pairs)
        )
        self.outward = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the noise in ``x`` at ``time``, of 0 to 1."""
        steps = torch.arange(self.width // 2, device=x.device)
        angles = 1000 * time[:, None] * torch.exp(-math.log(1e4) * steps / (self.width // 2))
        times = self.times(torch.cat([angles.sin(), angles.cos()], dim=1))
        x, kept = self.inward(x), []
        for down in self.down:
            x = down(x, times)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.middle(x, times)
        for up in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = up(torch.cat([x, kept.pop()], dim=1), times)
        result: Tensor = self.outward(x)
        return result


class Diffusion(TorchApp):
    """Options: the width and the levels of the net, the size of pictures, how many there are."""

    width: int = 64
    levels: int = 4
    side: int = 64
    images: int = 2048

    def model(self) -> nn.Module:
        """The net with random weights."""
        return UNet(self.width, self.levels)

    def dataset(self) -> Tensor:
        """Pictures as bytes: random ones stand in for yours."""
        return torch.randint(256, (self.images, 3, self.side, self.side), dtype=torch.uint8)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean square of the difference between the noise that was added and what the net says."""
        pictures = batch.float() / 127.5 - 1
        noise, time = torch.randn_like(pictures), torch.rand(len(batch), device=batch.device)
        angle = (time * math.pi / 2)[:, None, None, None]
        with torch.autocast(batch.device.type, dtype=torch.bfloat16):
            said = model(angle.cos() * pictures + angle.sin() * noise, time)
        return functional.mse_loss(said.float(), noise)

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(named, lr=1e-4)
