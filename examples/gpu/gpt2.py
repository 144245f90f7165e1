"""GPT-2 of transformers, made from its configuration, on random words; bf16, AdamW.

Each of its kernels has a deterministic form on CUDA. Cross entropy has one for scores of shape
(rows, classes) alone: flatten scores of more dimensions first, as transformers does.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from warren.apps.protocol import TorchApp


class Gpt2(TorchApp):
    """Options: those of ``GPT2Config`` that set its size (GPT-2 small), and how many texts."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    words: int = 50257
    length: int = 512
    texts: int = 512

    def model(self) -> nn.Module:
        """The net with random weights."""
        config = GPT2Config(
            n_layer=self.layers, n_head=self.heads, n_embd=self.width, vocab_size=self.words
        )
        net: nn.Module = GPT2LMHeadModel(config)
        return net

    def dataset(self) -> Tensor:
        """Texts of ``length`` words."""
        return torch.randint(self.words, (self.texts, self.length))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean cross entropy of the next word."""
        with torch.autocast(batch.device.type, dtype=torch.bfloat16):
            loss: Tensor = model(input_ids=batch, labels=batch, use_cache=False).loss
        return loss

    def optimizer(self, named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(named, lr=3e-4)
