"""Data on disk come back as indexing in memory gives them, whatever share of them is there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from warren.live.training.input_data.spilled_data import SpilledData, can_spill
from warren.model.errors import InputDataError

ITEMS = 700
DRAW = torch.Generator().manual_seed(3)
FEATURES = torch.randn(ITEMS, 5, 7, generator=DRAW)
LABELS = torch.randint(0, 9, (ITEMS,), generator=DRAW)
HALVES = torch.randn(ITEMS, 2, generator=DRAW).to(torch.bfloat16)
FLAGS = torch.rand(ITEMS, 3, generator=DRAW) < 0.5
DATASETS = {
    "tensor": FEATURES,
    "tuple": (FEATURES, LABELS),
    "list": [HALVES, FEATURES],
    "dict": {"x": HALVES, "flag": FLAGS, "y": LABELS},
}
ORDER = np.random.default_rng(4).permutation(ITEMS)[:200]


def indexed(dataset: Any, items: np.ndarray) -> Any:
    """What a batch is when everything is in memory."""
    index = torch.from_numpy(items)
    if isinstance(dataset, torch.Tensor):
        return dataset[index]
    if isinstance(dataset, dict):
        return {name: part[index] for name, part in dataset.items()}
    return tuple(part[index] for part in dataset)


def parts(batch: Any) -> list[torch.Tensor]:
    """The tensors of a batch."""
    if isinstance(batch, dict):
        return list(batch.values())
    return [batch] if isinstance(batch, torch.Tensor) else list(batch)


def same(one: Any, other: Any) -> bool:
    """Whether two batches are of one kind and have the same types, shapes, strides and bits."""
    return (
        type(one) is type(other)
        and (not isinstance(one, dict) or list(one) == list(other))
        and all(
            (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            and torch.equal(a.view(-1).view(torch.uint8), b.view(-1).view(torch.uint8))
            for a, b in zip(parts(one), parts(other), strict=True)
        )
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", DATASETS)
def test_a_batch_has_the_bits_of_indexing_whatever_is_on_disk(
    kind: str, alpha: float, tmp_path: Path
) -> None:
    data = SpilledData(DATASETS[kind], str(tmp_path), block_bytes=300)
    data.resize(int((1 - alpha) * data.total_bytes))
    assert same(data.gather(ORDER), indexed(DATASETS[kind], ORDER))
    cold = data.share_on_disk(ORDER) / len(ORDER)
    assert abs(cold - alpha) < 0.1
    assert data.held_bytes <= (1 - alpha) * data.total_bytes


def test_the_share_on_disk_can_change_at_any_moment(tmp_path: Path) -> None:
    data = SpilledData(DATASETS["tuple"], str(tmp_path), block_bytes=3000)
    expected = indexed(DATASETS["tuple"], ORDER)
    for share in (1.0, 0.3, 0.0, 0.7, 1.0):
        data.resize(int(share * data.total_bytes))
        assert same(data.gather(ORDER), expected)
    assert data.held_bytes == data.total_bytes


def test_all_data_are_mapped_with_the_same_bits_and_writes_do_not_reach_the_file(
    tmp_path: Path,
) -> None:
    data = SpilledData(DATASETS["list"], str(tmp_path))
    mapped = data.file.mapped()
    assert same(mapped, DATASETS["list"])
    mapped[0].zero_()
    assert same(data.gather(ORDER), indexed(DATASETS["list"], ORDER))


def test_the_file_has_no_name_and_ends_with_its_process(tmp_path: Path) -> None:
    data = SpilledData(FEATURES, str(tmp_path))
    assert data.total_bytes == FEATURES.nbytes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held", [False, True])
def test_an_item_that_was_damaged_on_disk_is_named(tmp_path: Path, held: bool) -> None:
    data = SpilledData((FEATURES, LABELS), str(tmp_path), block_bytes=2000)
    os.pwrite(data.file._fd, b"\xff\x00\xff", int(ORDER[5]) * FEATURES[0].nbytes + 11)
    says = rf"damaged: item {ORDER[5]} is not what was written"
    act = (lambda: data.resize(data.total_bytes)) if held else (lambda: data.gather(ORDER))
    with pytest.raises(InputDataError, match=says):
        act()


def test_a_file_that_was_cut_is_damaged(tmp_path: Path) -> None:
    data = SpilledData(FEATURES, str(tmp_path))
    os.ftruncate(data.file._fd, FEATURES.nbytes // 2)
    with pytest.raises(InputDataError, match="are damaged: item"):
        data.gather(ORDER)


def test_a_full_disk_is_reported_in_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputDataError) as raised:
        SpilledData(FEATURES, str(tmp_path))
    says = f"its input data cannot be written to {tmp_path}: No space left on device"
    assert str(raised.value) == says
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_read_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    data = SpilledData(FEATURES, str(tmp_path))
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(InputDataError, match=r"cannot be read from .*: Input/output error"):
        data.gather(ORDER)


class _Rows(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 10**7


BIG = torch.zeros(1000, 300)


@pytest.mark.parametrize(
    "dataset",
    [
        _Rows(),
        [1, 2, 3] * 10**6,
        torch.zeros(1000, 5),
        torch.zeros(300, 1000).T,
        torch.zeros(1000, 300, requires_grad=True),
        torch.nn.Parameter(torch.zeros(1000, 300)),
        (BIG, BIG),
        (BIG, torch.zeros(1000, 0)),
        torch.zeros(1000, 300).to_sparse(),
        # Their memory holds other numbers than they do.
        torch.zeros(1000, 300, dtype=torch.complex64).conj(),
        torch._neg_view(torch.zeros(1000, 300)),
    ],
    ids=[
        "own", "list", "small", "transposed", "grad", "class", "twice", "empty", "sparse",
        "conjugated", "negated",
    ],
)  # fmt: skip
def test_other_data_are_left_alone(dataset: Any) -> None:
    assert not can_spill(dataset)
    assert can_spill(BIG)
    assert can_spill({"x": BIG, "y": torch.zeros(1000)})
