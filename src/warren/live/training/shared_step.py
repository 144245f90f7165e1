"""Step an optimizer that steps each tensor alone, with threads that share the tensors."""

from __future__ import annotations

import copy

from torch import Tensor, optim

from warren.live.training.helpers import Helpers


def shared_step(optimizer: optim.Optimizer, helpers: Helpers) -> None:
    """Make one step; ``app_contract.tensorwise`` must hold of the optimizer.

    Each share is stepped by a copy of the optimizer that has the same state and no other tensors.
    So each tensor meets the same operations, with the same numbers, as in one step of all.
    """
    groups = optimizer.param_groups
    lists: list[list[Tensor]] = [group["params"] for group in groups]
    every = [(at, one) for at, own in enumerate(lists) for one in own]
    shares = [
        [
            [one for at, one in map(every.__getitem__, share) if at == group]
            for group in range(len(groups))
        ]
        for share in helpers.shares([one.nbytes for _, one in every])
    ]

    # All of them before any thread begins: to copy an optimizer reads the state of all tensors.
    twins = [copy.copy(optimizer) for _ in shares]
    for twin, share in zip(twins, shares, strict=True):
        twin.param_groups = [
            {**group, "params": own} for group, own in zip(groups, share, strict=True)
        ]

    def step(at: int) -> None:
        type(optimizer).step(twins[at])

    helpers.each(step, [sum(one.nbytes for own in share for one in own) for share in shares])
    # Any counter of its steps (a schedule has one) finds one more.
    try:
        for group in groups:
            group["params"] = []
        optimizer.step()
    finally:
        for group, own in zip(groups, lists, strict=True):
            group["params"] = own
