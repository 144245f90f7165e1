"""An app's own order of samples is the same in every engine, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_bench import Points, a_job, serve

from warren.live.oracle.plain import train
from warren.live.training.app.sampler_orders import SamplerOrders
from warren.live.training.data_order import SampleStream
from warren.model.errors import SpecError


class Weighted(Points):
    """Draws samples of tensors with repeats; an epoch is not as long as the data."""

    def sampler(self, epoch: int, length: int) -> Any:
        return torch.multinomial(torch.arange(1.0, length + 1), 21, replacement=True)


def test_an_order_of_the_app_gives_the_bits_of_plain_on_servers() -> None:
    plain = train(Weighted(), a_job()).digest
    assert serve(Weighted, a_job())[0].digest() == plain
    assert plain != train(Points(), a_job()).digest


@pytest.mark.parametrize("kind", [list, tuple, np.asarray, torch.tensor, iter])
def test_epochs_lie_end_to_end_in_the_order_that_the_app_gives(kind: Callable[..., Any]) -> None:
    orders = SamplerOrders(lambda epoch, length: kind([epoch, 1, 2, 1, 0]), a_job(batch=2), 9)
    stream = SampleStream(items=9, seed=5, orders=orders)
    assert stream.indices(3, 9).tolist() == [1, 0, 1, 1, 2, 1, 0, 2, 1]


def test_to_ask_for_an_order_moves_no_generator() -> None:
    orders = SamplerOrders(lambda epoch, length: torch.randperm(length), a_job(), 50)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, other = orders(4), orders(5)
    assert torch.equal(torch.rand(1), expected)
    assert sorted(first) == list(range(50))
    assert not np.array_equal(first, other)


KEPT = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        (lambda epoch, length: 7, "must give a list of indices, not int"),
        (lambda epoch, length: None, "must give a list of indices, not NoneType"),
        (lambda epoch, length: [0.5] * 9, "must give whole numbers, one after another"),
        (lambda epoch, length: [True] * 9, "must give whole numbers, one after another"),
        (lambda epoch, length: [[0, 1]] * 9, "must give whole numbers, one after another"),
        (lambda epoch, length: [[0], [1, 2]] * 9, "must give a list of indices, not list"),
        (lambda epoch, length: [], "gives 0 indices, less than the batch of 8"),
        (lambda epoch, length: [0] * 7, "gives 7 indices, less than the batch of 8"),
        (lambda epoch, length: [0, 50] * 9, "gives index 50 for epoch 0; allowed: 0 to 49"),
        (lambda epoch, length: [0, -1] * 9, "gives index -1 for epoch 0; allowed: 0 to 49"),
        (lambda epoch, length: [0] * (9 + epoch), "gives 10 indices for epoch 1 and 9 for epoch 0"),
        (lambda epoch, length: KEPT.permutation(length), "gives another order of epoch 0 when it"),
    ],
)
def test_a_wrong_order_is_one_line(sampler: Any, said: str) -> None:
    with pytest.raises(SpecError) as error:
        SamplerOrders(sampler, a_job(), 50)
    assert f"sampler(): {said}" in str(error.value)
    assert "\n" not in str(error.value)


def test_processes_with_different_orders_are_refused(tmp_path: Path) -> None:
    def orders(shift: int) -> SamplerOrders:
        return SamplerOrders(
            lambda epoch, length: [(one + shift) % length for one in range(length)],
            a_job(), 50, tmp_path,
        )  # fmt: skip

    orders(0)(3)
    orders(0)(3)
    with pytest.raises(SpecError, match=r"sampler\(\): gives another order of epoch 3 in another"):
        orders(1)(3)
