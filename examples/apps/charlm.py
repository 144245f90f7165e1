"""A character language model on the names of Unicode characters, from ``unicodedata``.

That table is part of the standard library and depends only on the version of Unicode it was
made for (14.0 in Python 3.11, 15.0 in 3.12), not on the patch release, so all Pythons of one
minor version train on the same text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from warren.apps.protocol import TorchApp

ALPHABET = "\n -()ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
LAST = 0x3000
"""Names up to here are alphabets and symbols; then come ideographs, whose names are numbers."""


class CharGRU(nn.Module):
    """Characters in, scores of the next character out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), 24)
        self.recurrent = nn.GRU(24, width, batch_first=True)
        self.output = nn.Linear(width, len(ALPHABET))

    def forward(self, text: Tensor) -> Tensor:
        """Scores of shape (batch, length, alphabet)."""
        hidden, _ = self.recurrent(self.embedding(text))
        scores: Tensor = self.output(hidden)
        return scores


class CharLM(TorchApp):
    """Predict the next character of a window of ``length`` characters."""

    lr: float = 0.005
    width: int = 64
    length: int = 24

    @cached_property
    def _split(self) -> tuple[Tensor, Tensor]:
        """Windows of the training and of the test text; every tenth name is for the test."""
        names = [unicodedata.name(chr(code), "") for code in range(LAST)]
        names = [name for name in names if name]
        train = [name for index, name in enumerate(names) if index % 10]
        return self._windows(train), self._windows(names[::10])

    def _windows(self, names: list[str]) -> Tensor:
        code = {letter: index for index, letter in enumerate(ALPHABET)}
        text = torch.tensor([code[letter] for letter in "\n".join(names)])
        return text.unfold(0, self.length + 1, self.length).contiguous()

    def model(self) -> nn.Module:
        """One GRU layer."""
        return CharGRU(self.width)

    def dataset(self) -> Tensor:
        """Windows of one more character than ``length``, each overlapping the next by one."""
        return self._split[0]

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean cross entropy a character, in nats."""
        scores = model(batch[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())

    def optimizer(
        self, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(named_parameters, lr=self.lr)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """Bits a character on the first 200 test windows."""
        nats = float(self.loss(model, self._split[1][:200]))
        return {"bits": nats / 0.6931471805599453}
