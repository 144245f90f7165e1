"""From one shape to another: the paper's example, and what must hold of any plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.solve.shapes.block_moves import (
    Holder,
    Operation,
    block_moves,
    even_blocks,
    reconfiguration,
    shared_blocks,
    stages,
)

W, S = "worker", "server"


def evenly(blocks: int, count: int) -> list[int]:
    """The first ones have one more."""
    return [blocks // count + (at < blocks % count) for at in range(count)]


def test_the_example_of_the_paper_moves_the_least_blocks_with_four_switches() -> None:
    """Cruise, 3.4.6: (18, 14) to (22, 10), 200 blocks of data and 128 of the model: 4 switches, 36
    blocks of each, in at most 18 and 12 moves. Those switch that hold fewest of the model."""
    before: list[Holder | None] = [W] * 18 + [S] * 14
    after: list[Holder | None] = [W] * 18 + [S] * 10 + [W] * 4
    plan = reconfiguration(
        before, after, [*evenly(200, 18), *[0] * 14], [*[0] * 18, *evenly(128, 14)]
    )
    moved = {
        role: [one for one in plan if one.kind == "move" and one.role == role] for role in (W, S)
    }
    assert {role: sum(one.blocks for one in moves) for role, moves in moved.items()} == {
        W: 36,
        S: 36,
    }
    assert len(moved[W]) <= 18
    assert len(moved[S]) <= 12
    assert sum(one.kind == "switch" for one in plan) == 4
    assert not [one for one in plan if one.kind in ("add", "delete")]


SHAPES = st.lists(st.sampled_from([W, S, None]), min_size=2, max_size=9).filter(
    lambda roles: W in roles and S in roles
)


@given(st.data())
def test_a_plan_can_be_carried_out_and_moves_no_block_in_vain(data: st.DataObject) -> None:
    before: list[Holder | None] = data.draw(SHAPES)
    after: list[Holder | None] = data.draw(
        st.lists(st.sampled_from([W, S, None]), min_size=len(before), max_size=len(before)).filter(
            lambda roles: W in roles and S in roles
        )
    )
    held = {
        role: [data.draw(st.integers(0, 9)) if one == role else 0 for one in before]
        for role in (W, S)
    }
    plan = reconfiguration(before, after, held[W], held[S])
    checked = stages(plan)
    assert sorted(place for places in checked for place in places) == list(range(len(plan)))
    for number, places in enumerate(checked):
        earlier = {place for some in checked[:number] for place in some}
        for place in places:
            assert earlier >= set(plan[place].after)
            assert number == 0 or set(plan[place].after) & set(checked[number - 1])
    least = {
        role: sum(
            max(0, want - have)
            for have, want in zip(
                held[role], even_blocks(held[role], [one == role for one in after]), strict=True
            )
        )
        for role in (W, S)
    }
    done, roles, sent = set[int](), list(before), {W: 0, S: 0}
    while len(done) < len(plan):
        free = [at for at in range(len(plan)) if at not in done and done >= set(plan[at].after)]
        assert free, "operations wait for each other"
        one = plan[data.draw(st.sampled_from(free))]
        done.add(plan.index(one))
        carry_out(one, roles, held, sent)
    assert roles == after
    assert sent == least
    for role in (W, S):
        kept = [n for n, one in zip(held[role], after, strict=True) if one == role]
        assert max(kept) - min(kept) <= 1


def carry_out(
    one: Operation, roles: list[Holder | None], held: dict[str, list[int]], sent: dict[str, int]
) -> None:
    """Do one operation, if whoever is concerned is as it must be."""
    if one.kind == "move":
        assert roles[one.target] is not None, "who takes a block is there"
        assert held[one.role][one.machine] >= one.blocks > 0
        held[one.role][one.machine] -= one.blocks
        held[one.role][one.target] += one.blocks
        sent[one.role] += one.blocks
        return
    old = roles[one.machine]
    assert (old is None) == (one.kind == "add")
    assert old is None or not held[old][one.machine], "it has sent its blocks away"
    roles[one.machine] = None if one.kind == "delete" else one.role


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.data())
def test_moves_are_fewer_than_givers_and_takers(before: list[int], data: st.DataObject) -> None:
    after = even_blocks(before, [True] * len(before))
    moves = block_moves(before, after)
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    assert len(moves) <= max(0, changed - 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=5))
def test_shares_are_kept_to_a_block_and_no_other_way_moves_fewer(
    machines: list[tuple[int, int]],
) -> None:
    before, share_N = zip(*machines, strict=True)
    blocks, total = sum(before), sum(share_N)
    if not total:
        with pytest.raises(ValueError, match="machine that holds"):
            shared_blocks(before, share_N)
        return
    exact = [Fraction(blocks * share, total) for share in share_N]
    every = [
        after
        for after in product(*({floor(part), ceil(part)} for part in exact))
        if sum(after) == blocks
    ]
    for richest in (True, False):
        after = tuple(shared_blocks(before, share_N, richest=richest))
        assert after in every
        assert moved(before, after) == min(moved(before, other) for other in every)


def moved(before: Sequence[int], after: Sequence[int]) -> int:
    """So many blocks have to move."""
    return sum(max(0, a - b) for b, a in zip(before, after, strict=True))


def test_thousands_of_machines_are_planned_as_few_ones_are() -> None:
    """(900, 100) times ten to (5000, 5000): 4,000 switch, each of which sends all that it has."""
    before: list[Holder | None] = [W] * 9000 + [S] * 1000
    after: list[Holder | None] = [W] * 5000 + [S] * 5000
    plan = reconfiguration(before, after, [10] * 9000 + [0] * 1000, [0] * 9000 + [50] * 1000)
    assert sum(one.kind == "switch" for one in plan) == 4000
    assert {
        role: sum(one.blocks for one in plan if one.kind == "move" and one.role == role)
        for role in (W, S)
    } == {W: 40_000, S: 40_000}
