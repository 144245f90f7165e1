"""Every recipe of docs/guides/porting.md trains, to the same bits in every engine."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_bench import a_job, serve, serve_split

from warren.apps.protocol import TorchApp
from warren.live.oracle.plain import train

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "porting.md").read_text()
IMPORTS, *RECIPES = re.findall(
    r"^```python\n(.*?)^```", PAGE.partition("\n## Recipes\n")[2], re.MULTILINE | re.DOTALL
)
BY_NAME = {re.findall(r"^class (\w+)\(TorchApp\)", text, re.MULTILINE)[0]: text for text in RECIPES}


class CausalLm(nn.Module):
    """Called as a Hugging Face model is: by keywords, and its answer has a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Any:
        logits = self.head(self.embed(input_ids))[:, :-1].flatten(0, 1)
        return SimpleNamespace(loss=nn.functional.cross_entropy(logits, labels[:, 1:].flatten()))


def recipe(name: str, folder: Path) -> type[TorchApp]:
    weights = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).state_dict()
    torch.save(weights, folder / "pretrained.pt")
    names: dict[str, Any] = {"__file__": str(folder / "app.py"), "make_causal_lm": CausalLm}
    exec(IMPORTS + BY_NAME[name], names)
    found: type[TorchApp] = names[name]
    return found


@pytest.mark.parametrize("name", BY_NAME)
def test_a_recipe_trains_to_the_same_bits_with_plain_one_server_and_two(
    name: str, tmp_path: Path
) -> None:
    make = recipe(name, tmp_path)
    job = a_job(scale=2, rounds=6)
    result = train(make(), job)
    assert len(result.losses) == 6
    assert serve(make, job)[0].digest() == result.digest
    if name != "Reinforce":  # a model of one matrix and one vector has too little for two servers
        first, _ = serve_split(make, job, 2)
        assert first.digest() == result.digest


def test_a_game_in_turns_changes_one_player_a_round(tmp_path: Path) -> None:
    make = recipe("Turns", tmp_path)
    states = [train(make(), a_job(scale=2, rounds=rounds)).state_dict for rounds in (2, 3, 4)]
    changed = [
        {name[0] for name in before if not torch.equal(before[name], after[name])} - {"r"}
        for before, after in pairwise(states)
    ]
    assert changed == [{"d"}, {"g"}]


def test_a_frozen_weight_stays_as_it_was(tmp_path: Path) -> None:
    make = recipe("Adapted", tmp_path)
    first, last = (train(make(), a_job(scale=2, rounds=rounds)).state_dict for rounds in (1, 6))
    same = {name for name in first if torch.equal(first[name], last[name])}
    assert same == {"0.base.weight", "0.base.bias"}
