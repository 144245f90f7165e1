"""What gpu_alone.py trains beside the nets of examples/gpu: a tiny net, and one on JPEG files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from warren.apps.protocol import TorchApp


class Tiny(TorchApp):
    """A perceptron whose step takes less than a millisecond."""

    def model(self) -> nn.Module:
        """Two layers."""
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Noise and classes."""
        return torch.randn(2048, 64), torch.randint(10, (2048,))

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Mean cross entropy."""
        return functional.cross_entropy(model(batch[0]), batch[1])

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(named, lr=0.01, momentum=0.9)


class Pictures(Dataset[tuple[Tensor, int]]):
    """JPEG files: a part of each at random, of ``side`` x ``side``, mirrored or not."""

    def __init__(self, folder: str, side: int) -> None:
        self.paths = sorted(Path(folder).glob("*.jpg"))
        self.side = side

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        """Return bytes of shape (3, side, side), and a class."""
        import numpy as np
        from PIL import Image

        with Image.open(self.paths[at]) as file:
            picture = file.convert("RGB")
        # As RandomResizedCrop: 0.25 to 1 of the area, the shape of the picture kept.
        share, left, top, mirror = torch.rand(4).tolist()
        share = (0.25 + 0.75 * share) ** 0.5
        width, height = picture.width * share, picture.height * share
        left, top = left * (picture.width - width), top * (picture.height - height)
        box = (left, top, left + width, top + height)
        part = picture.resize((self.side, self.side), Image.Resampling.BILINEAR, box=box)
        if mirror < 0.5:
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(part)).permute(2, 0, 1).contiguous(), at % 10


class Jpegs(TorchApp):
    """A ResNet on JPEG files of a folder."""

    folder: str = ""
    net: str = "resnet50"
    side: int = 224

    def model(self) -> nn.Module:
        """The net of torchvision."""
        from torchvision import models

        net: nn.Module = models.get_model(self.net, weights=None, num_classes=10)
        return net

    def dataset(self) -> Any:
        """The files."""
        return Pictures(self.folder, self.side)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean cross entropy."""
        pictures, classes = batch
        with torch.autocast(pictures.device.type, dtype=torch.bfloat16):
            scores = model(pictures.float() / 255 - 0.5)
        return functional.cross_entropy(scores.float(), classes)

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """SGD with momentum."""
        return torch.optim.SGD(named, lr=0.01, momentum=0.9)


def write_picture(path: Path, number: int, width: int, height: int) -> None:
    """Write a JPEG file of smooth noise, of about the bytes of a photograph."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(number)
    coarse = Image.fromarray(draw.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = smooth + draw.integers(-12, 13, smooth.shape, dtype=np.int16)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)
