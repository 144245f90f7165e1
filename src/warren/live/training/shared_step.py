"""Step an optimiser that steps each tensor alone, with threads that share the tensors."""

from __future__ import annotations

import copy
from typing import Final

from torch import Tensor, optim

from warren.live.training.helpers import Helpers

_SHARES: Final = 8
"""At most; each is stepped by one call of ``step``."""


def shared_step(optimizer: optim.Optimizer, helpers: Helpers) -> None:
    """Make one step; ``app_contract.tensorwise`` must hold of the optimiser.

    Each share is stepped by a copy of the optimiser that has the same state and no other tensors.
    So each tensor meets the same operations, with the same numbers, as in one step of all.
    """
    groups = optimizer.param_groups
    lists: list[list[Tensor]] = [group["params"] for group in groups]
    sized = sorted((one.nbytes, at, i) for at, own in enumerate(lists) for i, one in enumerate(own))
    shares = [
        [[lists[at][i] for _, at, i in share if at == group] for group in range(len(groups))]
        for share in (sized[begin::_SHARES] for begin in range(_SHARES))
    ]

    # All of them before any thread begins: to copy an optimiser reads the state of all tensors.
    twins = [copy.copy(optimizer) for _ in shares]
    for twin, share in zip(twins, shares, strict=True):
        twin.param_groups = [
            {**group, "params": own} for group, own in zip(groups, share, strict=True)
        ]

    def step(at: int) -> None:
        type(optimizer).step(twins[at])

    helpers.each(step, [sum(one.nbytes for own in share for one in own) for share in shares])
    # Whatever counts its steps (a schedule does) finds one more.
    try:
        for group in groups:
            group["params"] = []
        optimizer.step()
    finally:
        for group, own in zip(groups, lists, strict=True):
            group["params"] = own
