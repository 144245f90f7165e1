"""Step an optimizer that steps each tensor alone, some tensors at a time.

Threads share them, or blocks that lie on disk come one after another.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Final

from torch import Tensor, optim

from warren.live.training.helpers import Helpers
from warren.live.training.memory.disk_memory import DiskMemory

_BLOCK_BYTES: Final = 1 << 24
"""Bytes of neighboring tensors from which they are a block."""

Shares = list[list[Tensor]]


def shared_step(optimizer: optim.Optimizer, helpers: Helpers) -> None:
    """Make one step with threads; ``app_contract.tensorwise`` must hold of the optimizer."""
    every = _tensors(optimizer)
    shares = [[every[at] for at in one] for one in helpers.shares([one.nbytes for one in every])]

    def each(step: Callable[[int], None]) -> None:
        helpers.each(step, [sum(one.nbytes for one in share) for share in shares])

    _step(optimizer, shares, each)


def block_step(optimizer: optim.Optimizer, disk: DiskMemory, factor: float | None) -> None:
    """Make one step block by block; the state that it makes goes to disk.

    ``app_contract.tensorwise`` must hold of the optimizer. ``factor``: by which gradients are
    multiplied first; None: they stay. Gradients are gone afterwards.
    """
    blocks = _blocks(_tensors(optimizer))

    def each(step: Callable[[int], None]) -> None:
        for at, block in enumerate(blocks):
            for one in block:
                if factor is not None and one.grad is not None:
                    one.grad = one.grad * factor
            step(at)
            for one in block:
                one.grad = None
                state = optimizer.state.get(one, {})
                for key, value in state.items():
                    if disk.worth(value):
                        state[key] = disk.like(value)
            disk.breathe()

    _step(optimizer, blocks, each)


def _step(
    optimizer: optim.Optimizer, shares: Shares, each: Callable[[Callable[[int], None]], None]
) -> None:
    """Make one step, in which ``each`` calls the function that it is given once for each share.

    Each share is stepped by a copy of the optimizer that has the same state and no other tensors.
    So each tensor meets the same operations, with the same numbers, as in one step of all.
    """
    groups = optimizer.param_groups
    lists: Shares = [group["params"] for group in groups]
    group_of = {id(one): at for at, own in enumerate(lists) for one in own}
    # All of them before any thread begins: to copy an optimizer reads the state of all tensors.
    twins = [copy.copy(optimizer) for _ in shares]
    for twin, share in zip(twins, shares, strict=True):
        twin.param_groups = [
            {**group, "params": [one for one in share if group_of[id(one)] == at]}
            for at, group in enumerate(groups)
        ]

    def step(at: int) -> None:
        type(optimizer).step(twins[at])

    each(step)
    # Any counter of its steps (a schedule has one) finds one more.
    try:
        for group in groups:
            group["params"] = []
        optimizer.step()
    finally:
        for group, own in zip(groups, lists, strict=True):
            group["params"] = own


def _tensors(optimizer: optim.Optimizer) -> list[Tensor]:
    """Return all tensors of an optimizer, in order."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def _blocks(tensors: Sequence[Tensor]) -> Shares:
    """Return neighboring tensors block by block, in order."""
    found: Shares = [[]]
    size_bytes = 0
    for one in tensors:
        if size_bytes >= _BLOCK_BYTES:
            found.append([])
            size_bytes = 0
        found[-1].append(one)
        size_bytes += one.nbytes
    return found
