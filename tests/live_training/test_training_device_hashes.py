"""Hashes of updates on a device: those of whole numbers, and different after any change."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from warren.live.gpu.device_hashes import DeviceHashes, read, reading_of
from warren.live.training.memory.device_bytes import DevicePlaces
from warren.live.training.memory.shared_arena import ALIGN_BYTES
from warren.live.training.task_hashes import MARK_BYTES, marks_of
from warren.live.training.tensor_layout import Layout

CPU = torch.device("cpu")
MODEL = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3).to(torch.bfloat16))
LAYOUT = Layout.of(MODEL)
HASHES = DeviceHashes(LAYOUT, CPU)


def by_hand(flat: Tensor) -> list[int]:
    """The hashes, by whole numbers of any size."""
    words = flat.view(torch.int32).view(-1, ALIGN_BYTES // 4).tolist()
    rows = []
    for at, row in enumerate(words):
        factors = [0x2545F4914F6CDD1D * (2 * one + 1) | 1 for one in range(len(row))]
        mixed = signed(sum(word * factor for word, factor in zip(row, factors, strict=True)))
        rows.append((mixed ^ (mixed >> 29)) * (2 * at + 1) * 0x9E3779B97F4A7C15)
    spans = [
        (one.offset // ALIGN_BYTES, -(-(one.offset + one.nbytes) // ALIGN_BYTES))
        for one in LAYOUT.entries
    ]
    return [signed(sum(rows[begin:end])) for begin, end in spans]


def signed(number: int) -> int:
    """The number of 64 bits that is equal to it modulo 2**64."""
    number %= 1 << 64
    return number - (1 << 64) if number >> 63 else number


def drawn(seed: int) -> Tensor:
    """An update with random bytes in its tensors, and zeros between them."""
    flat = torch.zeros(LAYOUT.total_bytes, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(seed)
    for one in LAYOUT.entries:
        part = flat[one.offset : one.offset + one.nbytes]
        part.random_(0, 256, generator=generator)
    return flat


@given(st.integers(0, 1 << 30))
def test_hashes_are_sums_of_products_modulo_two_to_the_64(seed: int) -> None:
    flat = drawn(seed)
    assert HASHES.of(flat).tolist() == by_hand(flat)


@given(st.integers(0, 1000), st.integers(0, len(LAYOUT.entries) - 1), st.data())
def test_a_change_of_one_byte_changes_the_hash_of_its_tensor_alone(
    seed: int, at: int, data: st.DataObject
) -> None:
    flat, entry = drawn(seed), LAYOUT.entries[at]
    changed = flat.clone()
    byte = entry.offset + data.draw(st.integers(0, entry.nbytes - 1))
    changed[byte] ^= data.draw(st.integers(1, 255))
    before, after = HASHES.of(flat), HASHES.of(changed)
    assert (before != after).nonzero().flatten().tolist() == [at]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_loss_and_marks_come_to_main_memory_in_one_tensor(dtype: torch.dtype) -> None:
    loss, present = torch.tensor(1.0 / 3, dtype=dtype, requires_grad=True), b"\1\0\1\1\1\0"
    value, marks = read(reading_of(loss, HASHES.of(drawn(1))), present)
    assert value == loss.item()
    assert len(marks) == MARK_BYTES * (1 + len(LAYOUT.entries))
    # The first mark is that of updates in main memory.
    assert marks[:MARK_BYTES] == marks_of(LAYOUT, value, present, drawn(1).numpy())[:MARK_BYTES]
    folded = [(one >> 32 ^ one) & 0xFFFFFFFF for one in by_hand(drawn(1))]
    assert struct.unpack(f"<{len(folded)}I", marks[MARK_BYTES:]) == tuple(folded)


def test_a_place_is_used_again_when_nothing_holds_it_and_absent_tensors_are_zero() -> None:
    places = DevicePlaces(LAYOUT, CPU)
    first, second = places.lend(), places.lend()
    assert len(places) == 2
    ones = [torch.ones_like(view) for view in first.memory.views]
    first.fill(ones)
    address = first.flat.data_ptr()
    del first
    third = places.lend()
    assert (len(places), third.flat.data_ptr()) == (2, address)
    third.fill([None, *ones[1:]])
    assert not third.memory.views[0].any()
    assert all(bool(view.all()) for view in third.memory.views[1:])
    del third, second
    places.forget()
    assert len(places) == 0
