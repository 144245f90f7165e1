"""From one shape to another: which machines change their role, and which blocks move where.

*What.* Data and model lie in blocks that are equal in size. Each worker is to have as many blocks
of the data as any other, or one fewer, and so the servers of the model; where machines differ, in
proportion to shares that are stated.

*Source.* Cruise (dissertation 2020), 3.3.1 (plans of add, delete, switch and move, as a graph of
waits) and 3.4.6: (18, 14) to (22, 10), 200 blocks of data and 128 of the model.

*Why it is minimal*: a machine that is to have d blocks fewer sends at least d, and here no more.
Moves go from whoever has most to give to whoever needs most, so at most as many are made as there
are givers and takers, less one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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
    gives = [(blocks, one) for one, blocks in enumerate(change) if blocks < 0]
    takes = [(-blocks, one) for one, blocks in enumerate(change) if blocks > 0]
    heapq.heapify(gives)
    heapq.heapify(takes)
    moves = []
    while gives:
        (surplus, source), (need, target) = gives[0], takes[0]
        blocks = min(-surplus, -need)
        for heap, left, one in ((gives, surplus, source), (takes, need, target)):
            if left + blocks:
                heapq.heapreplace(heap, (left + blocks, one))
            else:
                heapq.heappop(heap)
        moves.append((source, target, blocks))
    return moves


def even_blocks(
    before_N: Sequence[int], holds_N: Sequence[bool], *, richest: bool = True
) -> list[int]:
    """Divide blocks evenly over machines that hold some, so that as few as can be have to move.

    If not all can have equally many, the extra blocks go to machines that have more than their
    part; of these to those that have most, or, unless ``richest``, least. Raises ValueError if none
    holds any.
    """
    return shared_blocks(before_N, [int(holds) for holds in holds_N], richest=richest)


def shared_blocks(
    before_N: Sequence[int], share_N: Sequence[int | Fraction], *, richest: bool = True
) -> list[int]:
    """Divide blocks in proportion to shares, so that as few as can be have to move.

    Each machine gets its part of all blocks, rounded down or up: up where that leaves it a block
    that it has; of these first the machines that have most, or, unless ``richest``, least. Raises
    ValueError if no share is above 0.
    """
    blocks, total = sum(before_N), sum(share_N)
    if not total:
        raise ValueError("blocks need a machine that holds them")
    down_N = [int(blocks * share // total) for share in share_N]
    sign = -1 if richest else 1
    order = sorted(
        (one for one, share in enumerate(share_N) if blocks * share % total),
        key=lambda one: (before_N[one] <= down_N[one], sign * before_N[one], one),
    )
    up = set(order[: blocks - sum(down_N)])
    return [down + (one in up) for one, down in enumerate(down_N)]


def reconfiguration(
    before: Sequence[Holder | None],
    after: Sequence[Holder | None],
    data_N: Sequence[int],
    model_N: Sequence[int],
    *,
    data_share_N: Sequence[int | Fraction] | None = None,
    model_share_N: Sequence[int | Fraction] | None = None,
) -> list[Operation]:
    """Plan the way from one shape to another, each machine a worker, a server or absent (None).

    ``data_N``, ``model_N``: blocks of the data and of the model on each machine. A machine that
    switches or is deleted has sent its old blocks away first; blocks come to a new machine when it
    has been added, and to a switching machine at any time, or two might wait for each other.
    ``data_share_N``, ``model_share_N``: proportions in which machines are to have blocks; evenly
    unless stated.
    """
    plan = list[Operation]()
    leaves = dict[tuple[int, Holder], list[int]]()
    kinds: tuple[tuple[Holder, Sequence[int], Sequence[int | Fraction] | None], ...] = (
        ("worker", data_N, data_share_N),
        ("server", model_N, model_share_N),
    )
    for role, held_N, share_N in kinds:
        wanted_N = [int(one == role) for one in after] if share_N is None else share_N
        for source, target, blocks in _fewest_moves(held_N, wanted_N):
            leaves.setdefault((source, role), []).append(len(plan))
            plan.append(Operation("move", source, role, target, blocks))
    added = dict[int, int]()
    for machine, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        change: OperationKind = "switch" if old and new else "add" if new else "delete"
        if change == "add":
            added[machine] = len(plan)
        first = tuple(leaves.get((machine, old), ())) if old else ()
        plan.append(Operation(change, machine, new or old or "worker", after=first))
    return [
        replace(one, after=(added[one.target],))
        if one.kind == "move" and one.target in added
        else one
        for one in plan
    ]


def stages(plan: Sequence[Operation]) -> list[list[int]]:
    """Sort a plan into stages: the places of operations that may all run at once.

    An operation is in the first stage that it can be in. It need not wait for all of the stage
    before, only for its own ``after``.
    """
    stage: dict[int, int] = {}

    def of(place: int) -> int:
        if place not in stage:
            stage[place] = 1 + max(map(of, plan[place].after), default=-1)
        return stage[place]

    found: list[list[int]] = []
    for place in range(len(plan)):
        found += [[] for _ in range(of(place) + 1 - len(found))]
        found[of(place)].append(place)
    return found


def _fewest_moves(
    held_N: Sequence[int], share_N: Sequence[int | Fraction]
) -> list[tuple[int, int, int]]:
    """Return the moves to blocks by shares, by whoever keeps one more if that saves a move."""
    if not sum(held_N):
        return []
    ways = (shared_blocks(held_N, share_N, richest=richest) for richest in (True, False))
    return min((block_moves(held_N, after_N) for after_N in ways), key=len)
