"""From one shape to another: the paper's example, and what must hold of any plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.solve.shapes.block_moves import (
    Holder,
    Operation,
    block_moves,
    even_blocks,
    reconfiguration,
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
