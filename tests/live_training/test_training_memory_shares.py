"""Shares of a host's memory: within the budget in any order of steps, and moved to who stops."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from warren.live.training.input_data.memory_shares import (
    MemoryUse,
    alpha_bound,
    free_bytes,
    next_held_bytes,
    waits,
)

BUDGET = 1000
STEP = 20


def turn(uses: list[MemoryUse], at: int, bound: float = 1.0) -> None:
    """One process asks and follows the answer."""
    own, others = uses[at], [use for other, use in enumerate(uses) if other != at]
    held = next_held_bytes(own, others, BUDGET, STEP, bound)
    wanted = STEP if waits(own) and held <= own.held_bytes else 0
    uses[at] = replace(own, held_bytes=held, wants_bytes=wanted)


def settled(uses: list[MemoryUse], turns: int = 200) -> list[MemoryUse]:
    """What all of them have after so many turns of each."""
    for _ in range(turns):
        for at in range(len(uses)):
            turn(uses, at)
    return uses


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_steps_exceeds_the_budget(seed: int) -> None:
    draw = random.Random(seed)
    uses = [
        MemoryUse(fixed_bytes=draw.randrange(200), data_bytes=draw.randrange(1, 900))
        for _ in range(4)
    ]
    for _ in range(300):
        at = draw.randrange(4)
        uses[at] = replace(uses[at], stop_ppm=draw.choice([0, 5_000, 40_000, 300_000]))
        turn(uses, at, bound=draw.random())
        assert free_bytes(BUDGET, uses) >= 0
        assert all(0 <= use.held_bytes <= use.data_bytes for use in uses)


def test_what_fits_is_all_in_memory() -> None:
    uses = settled([MemoryUse(fixed_bytes=100, data_bytes=300), MemoryUse(fixed_bytes=5)])
    assert uses[0].held_bytes == 300


def test_at_first_memory_goes_by_size() -> None:
    uses = [MemoryUse(fixed_bytes=50, data_bytes=size) for size in (300, 600, 1500)]
    held = [use.held_bytes for use in settled(uses)]
    assert held == pytest.approx([106, 212, 531], abs=STEP)


def test_memory_moves_to_the_process_that_stops_for_data_until_it_does_not() -> None:
    uses = settled([MemoryUse(fixed_bytes=0, data_bytes=1000) for _ in range(2)])
    assert [use.held_bytes for use in uses] == [500, 500]
    for _ in range(100):
        # The first one stops until it has 900 of 1000 bytes; the second one never does.
        stop = 200_000 if uses[0].held_bytes < 900 else 0
        uses[0] = replace(uses[0], stop_ppm=stop)
        settled(uses, 1)
    assert 900 <= uses[0].held_bytes <= 900 + STEP
    assert sum(use.held_bytes for use in uses) >= BUDGET - STEP


def test_two_that_stop_alike_take_nothing_from_each_other() -> None:
    uses = [
        MemoryUse(fixed_bytes=0, data_bytes=1000, held_bytes=held, stop_ppm=stop)
        for held, stop in ((600, 100_000), (400, 150_000))
    ]
    assert [use.held_bytes for use in settled(uses)] == [600, 400]


def test_the_bound_keeps_a_process_from_giving_what_it_would_stop_for() -> None:
    giver = MemoryUse(fixed_bytes=0, data_bytes=1000, held_bytes=500)
    waiter = MemoryUse(
        fixed_bytes=0, data_bytes=1000, held_bytes=500, wants_bytes=STEP, stop_ppm=500_000
    )
    assert next_held_bytes(giver, [waiter], BUDGET, STEP, 1.0) == 480
    assert next_held_bytes(giver, [waiter], BUDGET, STEP, 0.52) == 480
    assert next_held_bytes(giver, [waiter], BUDGET, STEP, 0.51) == 500


def test_for_an_app_that_is_built_all_give_what_it_lacks_and_nobody_takes() -> None:
    uses = [MemoryUse(fixed_bytes=100, data_bytes=600, held_bytes=held) for held in (300, 400)]
    builder = MemoryUse(fixed_bytes=0, wants_bytes=450, builds=True)
    for at in (0, 1, 0, 1, 0):
        others = [*(use for other, use in enumerate(uses) if other != at), builder]
        held = next_held_bytes(uses[at], others, BUDGET, STEP)
        assert held <= uses[at].held_bytes
        uses[at] = replace(uses[at], held_bytes=held)
    assert 450 <= free_bytes(BUDGET, uses) <= 460


def test_what_is_free_for_an_app_that_is_built_goes_to_no_process_that_waits_for_data() -> None:
    own = MemoryUse(fixed_bytes=100, data_bytes=600, held_bytes=300, stop_ppm=500_000)
    builder = MemoryUse(fixed_bytes=0, wants_bytes=450, builds=True)
    assert waits(own)
    assert next_held_bytes(own, [], BUDGET, STEP) > 300
    assert next_held_bytes(own, [builder], BUDGET, STEP) == 300


def test_a_budget_that_is_exceeded_is_kept_again_as_far_as_data_can_give() -> None:
    uses = [MemoryUse(fixed_bytes=fixed, data_bytes=500, held_bytes=400) for fixed in (300, 200)]
    assert free_bytes(BUDGET, settled(uses, 3)) >= 0
    grown = [replace(use, fixed_bytes=700) for use in uses]
    assert [use.held_bytes for use in settled(grown, 3)] == [0, 0]


@pytest.mark.parametrize("blocks", [1, 2, 7, 100])
@pytest.mark.parametrize("load_ns", [0.0, 0.5, 1.0, 3.0, 40.0])
def test_alpha_bound_is_the_largest_share_that_keeps_the_inequality(
    blocks: int, load_ns: float
) -> None:
    def keeps(disk_blocks: int) -> bool:
        return 1.0 * (blocks - 1) >= load_ns * (disk_blocks - 1)

    most = max((disk for disk in range(1, blocks + 1) if keeps(disk)), default=0)
    bound = alpha_bound(blocks, 1.0, load_ns) * blocks
    assert most <= bound + 1e-9 < most + 1 + 1e-6 or (most == blocks and bound == blocks)
