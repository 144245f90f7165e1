from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.training.data_order import SampleStream

ITEMS = st.integers(1, 40)
SEEDS = st.integers(0, 2**63)


@given(items=ITEMS, seed=SEEDS, epochs=st.integers(1, 7))
def test_each_epoch_is_a_permutation(items: int, seed: int, epochs: int) -> None:
    stream = SampleStream(items=items, seed=seed)
    for epoch in range(epochs):
        assert sorted(stream.indices(epoch * items, items)) == list(range(items))


@given(
    items=ITEMS,
    seed=SEEDS,
    scale=st.integers(1, 4),
    batch=st.integers(1, 50),
    task=st.integers(0, 30),
)
def test_a_task_takes_its_positions_and_no_batch_is_short(
    items: int, seed: int, scale: int, batch: int, task: int
) -> None:
    stream = SampleStream(items=items, seed=seed)
    round_no, shard = divmod(task, scale)
    taken = stream.task(round_no, shard, scale=scale, batch=batch)
    first = (round_no * scale + shard) * batch
    one_by_one = [
        stream.permutation(position // items)[position % items]
        for position in range(first, first + batch)
    ]
    assert taken.tolist() == one_by_one


@given(items=ITEMS, seed=SEEDS, order=st.permutations(range(12)))
def test_what_was_asked_before_does_not_matter(items: int, seed: int, order: list[int]) -> None:
    stream = SampleStream(items=items, seed=seed)
    for task in order:
        fresh = SampleStream(items=items, seed=seed)
        expected = fresh.task(task, 0, scale=1, batch=7)
        assert np.array_equal(stream.task(task, 0, scale=1, batch=7), expected)


def test_seeds_and_epochs_give_different_orders() -> None:
    orders = {
        tuple(SampleStream(items=30, seed=seed).permutation(epoch))
        for seed in range(10)
        for epoch in range(10)
    }
    assert len(orders) == 100


def test_first_places_are_uniform() -> None:
    counts = np.zeros(5)
    for seed in range(2000):
        counts[SampleStream(items=5, seed=seed).permutation(0)[0]] += 1
    chi_squared = float(((counts - 400) ** 2 / 400).sum())
    assert chi_squared < 18.5  # 0.1 % quantile, 4 degrees of freedom


def test_an_empty_dataset_has_no_stream() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        SampleStream(items=0, seed=0)
