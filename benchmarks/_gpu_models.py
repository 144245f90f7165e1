"""The eight models of Hare's Table 2, or nets of the same size and kind, on random data.

Sizes and batches are those of the profile that Warren ships; each class says what stands in for
what. What has no deterministic kernel on a GPU is left out: pooling to a fixed size, CTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp


class Random(TorchApp):
    """Cross entropy of a net on random data of ``classes`` classes."""

    batch: int = 32
    classes: int = 100
    items: int = 256

    def net(self) -> nn.Module:
        """The net."""
        raise NotImplementedError

    def inputs(self) -> Tensor:
        """The data, shape (items, ...)."""
        raise NotImplementedError

    def model(self) -> nn.Module:
        """The net."""
        return self.net()

    def dataset(self) -> tuple[Tensor, Tensor]:
        """Data and labels."""
        x = self.inputs()
        return x, torch.randint(self.classes, self._labels())

    def _labels(self) -> tuple[int, ...]:
        return (self.items,)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean cross entropy."""
        x, y = batch
        return functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


class Images(Random):
    """Images of ``side`` pixels."""

    side: int = 32

    def inputs(self) -> Tensor:
        """Images."""
        return torch.randn(self.items, 3, self.side, self.side)


def _conv(before: int, after: int, size: int = 3, stride: int = 1, **more: Any) -> nn.Module:
    conv = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False, **more)
    return nn.Sequential(conv, nn.BatchNorm2d(after), nn.ReLU())


class _Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


class Vgg19(Images):
    """VGG-19 with the CIFAR head: 20.0 million parameters, Cifar10's shape."""

    batch: int = 128
    classes: int = 10

    def net(self) -> nn.Module:
        """Sixteen convolutions and one linear layer."""
        layers: list[nn.Module] = []
        before = 3
        for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
            for _ in range(count):
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
                before = width
            layers.append(nn.MaxPool2d(2))
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, self.classes))


class _Bottleneck(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            _conv(before, width, 1),
            _conv(width, width, 3, stride),
            nn.Conv2d(width, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        same = before == after and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


class ResNet50(Images):
    """ResNet-50 with the stem for small images: 23.7 million parameters, Cifar100's shape."""

    batch: int = 64

    def net(self) -> nn.Module:
        """Sixteen bottlenecks."""
        layers: list[nn.Module] = [_conv(3, 64)]
        before = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for at in range(count):
                layers.append(_Bottleneck(before, width, stride if at == 0 else 1))
                before = 4 * width
        return nn.Sequential(*layers, _Mean(), nn.Linear(2048, self.classes))


class _Mixed(nn.Module):
    """Four branches side by side, as Inception has them."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.one = _conv(before, width, 1)
        self.three = nn.Sequential(_conv(before, width, 1), _conv(width, width, 3))
        self.five = nn.Sequential(
            _conv(before, width, 1), _conv(width, width, 3), _conv(width, width, 3)
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), _conv(before, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], dim=1)


class InceptionV3(Images):
    """Inception blocks of 3x3 convolutions: 22 million parameters; stands in for Inception V3."""

    side: int = 299

    def net(self) -> nn.Module:
        """A stem and eleven mixed blocks."""
        layers: list[nn.Module] = [_conv(3, 32, 3, 2), _conv(32, 64), nn.MaxPool2d(3, 2)]
        layers += [_conv(64, 192), nn.MaxPool2d(3, 2)]
        before = 192
        for width, count in ((72, 3), (192, 5), (330, 3)):
            for _ in range(count):
                layers.append(_Mixed(before, width))
                before = 4 * width
            layers.append(nn.MaxPool2d(3, 2))
        return nn.Sequential(*layers, _Mean(), nn.Linear(before, self.classes))


class _Attention(nn.Module):
    """Attention and feed-forward, written out: each of its kernels is deterministic."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        weights = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(dim=-1)
        x = self.first(x + self.out((weights @ v).transpose(1, 2).reshape(x.shape)))
        return self.second(x + self.down(functional.gelu(self.up(x))))


class _Encoder(nn.Module):
    def __init__(self, words: int, length: int, width: int, layers: int, out: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            _Attention(width, width // 64, 4 * width) for _ in range(layers)
        )
        self.out = nn.Linear(width, out)

    def forward(self, text: Tensor) -> Tensor:
        x = self.words(text) + self.places.weight[: text.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Text(Random):
    """Texts of ``length`` words of ``words``; one class a word."""

    words: int = 30522
    length: int = 384

    def inputs(self) -> Tensor:
        """Texts."""
        return torch.randint(self.words, (self.items, self.length))

    def _labels(self) -> tuple[int, ...]:
        return self.items, self.length


class BertBase(Text):
    """An encoder of BERT base's size, 108.9 million parameters, on texts as long as SQuAD's."""

    batch: int = 32
    classes: int = 2

    def net(self) -> nn.Module:
        """Twelve layers of 768."""
        return _Encoder(self.words, 512, 768, 12, self.classes)


class Transformer(Text):
    """Twelve layers of 512: 65 million parameters; stands in for Transformer base."""

    batch: int = 128
    classes: int = 1000
    words: int = 50_000
    length: int = 64

    def net(self) -> nn.Module:
        """Twelve layers of 512."""
        return _Encoder(self.words, 512, 512, 12, self.classes)


class _Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(494, 2048), nn.ReLU(), nn.Linear(2048, 2048))
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU())
        self.lstm = nn.LSTM(2048, 2048, batch_first=True)
        self.last = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 29))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.lstm(self.second(self.first(x)))[0])


class DeepSpeech(Random):
    """DeepSpeech's five layers of 2048, the fourth an LSTM; a label a frame in place of CTC."""

    batch: int = 8
    classes: int = 29
    frames: int = 300

    def net(self) -> nn.Module:
        """The layers."""
        return _Speech()

    def inputs(self) -> Tensor:
        """Frames of sound."""
        return torch.randn(self.items, self.frames, 494)

    def _labels(self) -> tuple[int, ...]:
        return self.items, self.frames


class _Graph(nn.Module):
    """Features of a node, of its neighbors and of theirs; ``both``: a node's own count apart."""

    def __init__(self, width: int, *, both: bool) -> None:
        super().__init__()
        self.both = both
        self.first = nn.Linear(1433 * (1 + both), width, bias=False)
        self.second = nn.Linear(width * (1 + both), 7, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: (batch, 1 + neighbors, 1 + neighbors, features), the first of each a node itself.
        hidden = torch.relu(self.first(self._mixed(x)))
        return self.second(self._mixed(hidden))

    def _mixed(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=-2)
        return torch.cat([x[..., 0, :], mean], dim=-1) if self.both else mean


class FastGcn(Random):
    """Two graph convolutions of 16 on sampled neighbors, of Cora's shape."""

    batch: int = 128
    classes: int = 7
    neighbours: int = 5

    def net(self) -> nn.Module:
        """Two layers."""
        return _Graph(16, both=False)

    def inputs(self) -> Tensor:
        """Features of nodes, of sampled neighbors and of theirs."""
        size = 1 + self.neighbours
        return (torch.rand(self.items, size, size, 1433) < 0.01).float()


class GraphSage(FastGcn):
    """Two mean aggregators of 128 on sampled neighbors, of Cora's shape."""

    batch: int = 16

    def net(self) -> nn.Module:
        """Two layers."""
        return _Graph(128, both=True)


MODELS: Final[Mapping[str, type[Random]]] = {
    "vgg19": Vgg19,
    "resnet50": ResNet50,
    "inception-v3": InceptionV3,
    "bert-base": BertBase,
    "transformer": Transformer,
    "deepspeech": DeepSpeech,
    "fastgcn": FastGcn,
    "graphsage": GraphSage,
}
"""By the name that each has in the shipped profile."""
