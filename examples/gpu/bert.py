"""BERT of transformers, made from its configuration, guesses hidden words; bf16, AdamW.

Each of its kernels has a deterministic form on CUDA. Words to hide are drawn in ``loss``, from the
generator of the task. Of what other text models use, ``nn.CTCLoss``, ``torch.cumsum`` of floats
and ``nn.EmbeddingBag(mode="max")`` have no such form: use a loss a frame, ``cumsum`` of integers or
a matrix product, and ``mode="sum"``.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM

from warren.apps.protocol import TorchApp

MASK = 103
"""Word that stands for a hidden one in BERT's vocabulary."""
IGNORED = -100
"""Label of a word that is not to be guessed."""


class Bert(TorchApp):
    """Options: those of ``BertConfig`` that set its size (BERT base), and how many texts."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    words: int = 30522
    length: int = 256
    texts: int = 1024

    def model(self) -> nn.Module:
        """The net with random weights."""
        config = BertConfig(
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            hidden_size=self.width,
            intermediate_size=4 * self.width,
            vocab_size=self.words,
        )
        net: nn.Module = BertForMaskedLM(config)
        return net

    def dataset(self) -> Tensor:
        """Texts of ``length`` words."""
        return torch.randint(self.words, (self.texts, self.length))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean cross entropy of hidden words, 15 of 100."""
        hidden = torch.rand(batch.shape, device=batch.device) < 0.15
        labels = torch.where(hidden, batch, IGNORED)
        with torch.autocast(batch.device.type, dtype=torch.bfloat16):
            loss: Tensor = model(torch.where(hidden, MASK, batch), labels=labels).loss
        return loss

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(named, lr=1e-4)
