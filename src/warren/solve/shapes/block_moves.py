"""From one shape to another: which machines change their role, and which blocks move where.

*What.* Data and model lie in blocks that are equal in size. Each worker is to have as many blocks
of the data as any other, or one fewer, and so the servers of the model.

*Source.* Cruise (dissertation 2020), 3.3.1 (plans of add, delete, switch and move, as a graph of
what waits for what) and 3.4.6: (18, 14) to (22, 10), 200 blocks of data and 128 of the model.

*Why it is minimal*: a machine that is to have d blocks fewer sends at least d, and here no more.
Moves go from whoever has most to give to whoever needs most, so at most as many are made as there
are givers and takers, less one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OperationKind = Literal["add", "delete", "switch", "move"]
Holder = Literal["worker", "server"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a plan.

    ``machine`` is added, deleted, switched to ``role``, or sends ``blocks`` to ``target``: of the
    data if ``role`` is worker, of the model if it is server. ``after``: places in the plan of the
    operations that have to be over before.
    """

    kind: OperationKind
    machine: int
    role: Holder
    target: int = -1
    blocks: int = 0
    after: tuple[int, ...] = ()


def block_moves(before_N: Sequence[int], after_N: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return moves (from, to, blocks) between machines; raises ValueError if blocks would be lost.

    The greatest surplus goes to the greatest need first; of equal ones to the first machine.
    """
    if sum(before_N) != sum(after_N) or len(before_N) != len(after_N):
        raise ValueError(f"{sum(before_N)} blocks cannot become {sum(after_N)}")
    change = [after - before for before, after in zip(before_N, after_N, strict=True)]
    moves = []
    while any(change):
        source = min(range(len(change)), key=lambda one: change[one])
        target = max(range(len(change)), key=lambda one: (change[one], -one))
        blocks = min(-change[source], change[target])
        change[source] += blocks
        change[target] -= blocks
        moves.append((source, target, blocks))
    return moves


def even_blocks(
    before_N: Sequence[int], holds_N: Sequence[bool], *, richest: bool = True
) -> list[int]:
    """Divide blocks evenly over machines that hold some, so that as few as can be have to move.

    Where not all can have equally many, one more is for those that have more than their part; of
    these for who has most, or, unless ``richest``, least. Raises ValueError if none holds any.
    """
    holders = [one for one, holds in enumerate(holds_N) if holds]
    if not holders:
        raise ValueError("blocks need a machine that holds them")
    each, more = divmod(sum(before_N), len(holders))
    sign = -1 if richest else 1
    order = sorted(holders, key=lambda one: (before_N[one] <= each, sign * before_N[one], one))
    return [(each + (one in order[:more])) if holds else 0 for one, holds in enumerate(holds_N)]


def reconfiguration(
    before: Sequence[Holder | None],
    after: Sequence[Holder | None],
    data_N: Sequence[int],
    model_N: Sequence[int],
) -> list[Operation]:
    """Plan the way from one shape to another, each machine a worker, a server or absent (None).

    ``data_N``, ``model_N``: blocks of the data and of the model on each machine. A machine that
    switches or is deleted has sent its old blocks away first; blocks come to one that is new when
    it has been added, and to one that switches at any time, or two might wait for each other.
    """
    plan = list[Operation]()
    added = dict[int, int]()
    kinds: tuple[tuple[Holder, Sequence[int]], ...] = (("worker", data_N), ("server", model_N))
    for role, held_N in kinds:
        holds_N = [one == role for one in after]
        moves = _fewest_moves(held_N, holds_N)
        plan += [
            Operation("move", source, role, target, blocks) for source, target, blocks in moves
        ]
    for machine, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        leaves = tuple(
            at for at, one in enumerate(plan)
            if one.kind == "move" and one.machine == machine and one.role == old
        )  # fmt: skip
        change: OperationKind = "switch" if old and new else "add" if new else "delete"
        if change == "add":
            added[machine] = len(plan)
        plan.append(Operation(change, machine, new or old or "worker", after=leaves))
    return [
        Operation(one.kind, one.machine, one.role, one.target, one.blocks, (added[one.target],))
        if one.kind == "move" and one.target in added
        else one
        for one in plan
    ]


def _fewest_moves(held_N: Sequence[int], holds_N: Sequence[bool]) -> list[tuple[int, int, int]]:
    """Return the moves to even blocks, by whoever keeps one more if that saves a move."""
    if not sum(held_N):
        return []
    ways = (even_blocks(held_N, holds_N, richest=richest) for richest in (True, False))
    return min((block_moves(held_N, after_N) for after_N in ways), key=len)
