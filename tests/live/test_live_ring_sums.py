"""Sums over rings of real processes, against the same sums in one."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_worlds import job
from torch import Tensor, nn

from warren.live.rings.allreduce import Ring, ring_sum
from warren.live.rings.gradient_mean import RingMeans
from warren.live.training.tensor_layout import Layout
from warren.model.errors import SpecError

_LIMIT_S = 30.0
_SIZES = (1, 2, 3, 5, 64, 1000, 30_001, 600_011)
_TYPES = (torch.float32, torch.float64, torch.bfloat16)
_CASES = [*((size, dtype) for dtype in _TYPES for size in _SIZES), (5_000_000, torch.float32)]
"""The last is of two blocks, of many segments each."""


def _own(rank: int, elements: int, dtype: torch.dtype) -> Tensor:
    """Numbers of many sizes, whose sum depends on the order."""
    draw = torch.Generator().manual_seed(1000 * elements + rank)
    values = torch.randn(elements, generator=draw, dtype=torch.float64)
    return (values * 10.0 ** torch.randint(-3, 4, (elements,), generator=draw)).to(dtype)


def _rank(rank: int, ranks: int, meeting: str, mine: Connection) -> None:
    torch.set_num_threads(1)
    ring = Ring(rank, ranks, meeting, "lo", _LIMIT_S, bytes(32))
    wrong, hashes = [], []
    for elements, dtype in _CASES:
        summed = _own(rank, elements, dtype)
        ring.add(summed)
        hashes.append(hashlib.sha256(summed.view(torch.uint8).numpy().data).hexdigest())
        parts = [_own(other, elements, dtype) for other in range(ranks)] if rank == 0 else []
        if parts and not torch.equal(summed, ring_sum(parts)):
            wrong.append((elements, str(dtype)))
    if _diverged(ring):
        wrong.append((0, "NaN"))
    value = torch.tensor([float(rank + 5)])
    gathered = [one.item() for one in ring.gather(value)]
    ring.share(value)
    mine.send((wrong, hashes, gathered, value.item()))
    ring.close()


def _diverged(ring: Ring) -> bool:
    """Whether NaNs of both signs, of which a sum keeps any, have other bits in one process."""
    model = nn.Module()
    for dtype in (*_TYPES, torch.float16):
        draw = torch.full((1001,), math.nan, dtype=dtype)
        model.register_buffer(f"of_{draw.element_size()}_{len(list(model.buffers()))}", draw)
    means = RingMeans(Layout.of(model), job(0, sync="ring"))
    updates = [_signed(model, rank) for rank in range(ring.size)]
    own = updates[ring.rank].clone()
    means.over(ring, own)
    return not torch.equal(own, means.of(updates))


def _signed(model: nn.Module, rank: int) -> Tensor:
    draw = torch.Generator().manual_seed(rank)
    for buffer in model.buffers():
        buffer.copysign_(torch.randn(len(buffer), generator=draw).to(buffer.dtype))
    return Layout.of(model).pack(model)


def _answers(target: Any, ranks: int, folder: Path) -> list[Any]:
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe() for _ in range(ranks)]
    processes = [
        context.Process(target=target, args=(rank, ranks, str(folder / "meeting"), pipe[1]))
        for rank, pipe in enumerate(pipes)
    ]
    try:
        for one in processes:
            one.start()
        assert all(pipe[0].poll(2 * _LIMIT_S) for pipe in pipes)
        return [pipe[0].recv() for pipe in pipes]
    finally:
        for one in processes:
            one.kill()
            one.join()


@pytest.mark.live
@pytest.mark.parametrize("ranks", [2, 5])
def test_a_ring_adds_in_the_order_that_ring_sum_states_whatever_size_and_type(
    ranks: int, tmp_path: Path
) -> None:
    answers = _answers(_rank, ranks, tmp_path)
    for wrong, hashes, gathered, shared in answers:
        assert not wrong
        assert hashes == answers[0][1]
        assert gathered == [rank + 5.0 for rank in range(ranks)]
        assert shared == 5.0


def test_a_tensor_that_a_ring_cannot_add_is_named() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("small", torch.zeros(4).to(torch.float8_e4m3fn))
    with pytest.raises(SpecError, match="small: is of float8_e4m3fn, which a ring cannot add"):
        RingMeans(Layout.of(model), job(0, sync="ring"))


def test_ring_sum_is_a_sum_and_its_order_is_not_that_of_shards() -> None:
    parts = [_own(rank, 10_000, torch.float32) for rank in range(5)]
    exact = np.sum([part.double().numpy() for part in parts], axis=0)
    summed = ring_sum(parts)
    np.testing.assert_allclose(summed.double().numpy(), exact, rtol=1e-4, atol=1e-2)
    assert not torch.equal(summed, torch.stack(parts).sum(dim=0))
    in_order = parts[0]
    for part in parts[1:]:
        in_order = in_order + part
    assert not torch.equal(summed, in_order)
