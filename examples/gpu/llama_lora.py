"""A Llama of 1.2 billion parameters, of transformers, of which peft trains LoRA alone; bf16, AdamW.

The frozen weights are bf16 and take 2.5 GB; a thousandth as many are trained. Each of its kernels
has a deterministic form on CUDA. ``torch.cumsum`` of floats, as in sampling by top-p, has none:
keep it out of ``loss``.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from warren.apps.protocol import TorchApp


class Llama(TorchApp):
    """Options: those of ``LlamaConfig`` that set its size (Llama 3.2 1B), the rank, the texts."""

    layers: int = 16
    heads: int = 32
    width: int = 2048
    words: int = 128256
    rank: int = 16
    length: int = 512
    texts: int = 256

    def model(self) -> nn.Module:
        """The net with random weights, frozen, and LoRA on queries and values of each layer."""
        config = LlamaConfig(
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads // 4,
            hidden_size=self.width,
            intermediate_size=4 * self.width,
            vocab_size=self.words,
            tie_word_embeddings=True,
        )
        frozen = LlamaForCausalLM(config).to(torch.bfloat16)
        lora = LoraConfig(r=self.rank, lora_alpha=32, target_modules=["q_proj", "v_proj"])
        net: nn.Module = get_peft_model(frozen, lora)
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
        """AdamW on what is trained."""
        return torch.optim.AdamW([(n, p) for n, p in named if p.requires_grad], lr=2e-4)
