"""What the gangs of rings take to start: numbers by hand, and the second simulations."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from fluid_worlds import drawn, fluid, step_by_step
from sim_worlds import World
from test_sim_fluid import journal
from test_sim_rings import Rows, S, ends_s, gang, round_by_round, world

from warren.model.cluster import Emulate
from warren.model.errors import SpecError
from warren.model.overheads import Overheads
from warren.sim.copies import sim_port

ROUND_S = 3.02
"""1 s of COMP, 2 s of sending over a link alone, 10 ms for each of two hosts."""


def starting(
    one: World, start_s: float, rank_s: float = 0, move_s: float = 0, scale: float | None = None
) -> World:
    """On two cores; ``scale`` None: nothing is padded."""
    overheads = Overheads(
        cores=2,
        ring_start_ns=round(start_s * S),
        ring_rank_ns=round(rank_s * S),
        ring_move_ns=round(move_s * S),
    )
    emulate = None if scale is None else Emulate(time_scale=scale)
    cluster = replace(one.run.cluster, overheads=overheads, emulate=emulate)
    return World(replace(one.run, cluster=cluster), one.costs)


@pytest.mark.parametrize("make", [world, fluid])
def test_a_gang_begins_when_it_is_there_and_a_pad_ends_no_sooner(make) -> None:  # type: ignore[no-untyped-def]
    """Start and a rank's processor time: 3.5 s. Padded, it is 2.5 s more than the first COMP."""
    one, rows = make([1, 1], [(0, 2, 4)]), gang(0, [0, 1], 4)
    assert ends_s(starting(one, 3, 0.5), rows) == pytest.approx([3.5 + 4 * ROUND_S])
    assert ends_s(starting(one, 3, 0.5, scale=1), rows) == pytest.approx([2.5 + 4 * ROUND_S])
    assert ends_s(starting(one, 3, 0.5, scale=0.5), rows) == pytest.approx([6 + 4 * ROUND_S])
    assert ends_s(starting(one, 0.5, 0.5, scale=1), rows) == pytest.approx([4 * ROUND_S])


def test_ranks_that_start_at_one_instant_share_the_cores() -> None:
    """Rings within a host, rounds of 1.03 s: five ranks at once, 5 / 2 times what one takes."""
    one = world([2, 3], [(0, 2, 1), (0, 3, 1), (9 * S, 1, 1)])
    rows = gang(0, [0, 1], 1) + gang(1, [2, 3, 4], 1) + gang(2, [0], 1)
    three_s = 1 + 2 * 2 * (2 / 3) / 100 + 0.01
    found = ends_s(starting(one, 0, 2), rows)
    # All three were assigned at once: six ranks. The last is there long before its job arrives.
    assert found == pytest.approx([6 + 1.03, 6 + three_s, 9 + 1.01])


def test_a_rank_takes_a_core_for_as_long_as_its_app_takes_to_be_built() -> None:
    """Three rings at once: 2 (0.5 + 1) + 2 (0.5 + 3) + (0.5 + 4) = 14.5 s of two cores."""
    one = starting(world([2, 2], [(0, 2, 1), (0, 2, 1), (20 * S, 1, 1)]), 0, 0.5)
    built = replace(one.costs, build_ns_JT=np.array([[S], [3 * S], [4 * S]]))
    rows = gang(0, [0, 1], 1) + gang(1, [2, 3], 1) + gang(2, [0], 1)
    found = ends_s(World(one.run, built), rows)
    assert found == pytest.approx([7.25 + 1.03, 7.25 + 1.03, 20 + 1.01])


def test_no_rank_is_there_before_its_own_app_is_built() -> None:
    """Of two cores one is idle."""
    one = starting(world([1], [(0, 1, 1)]), 0, 0.5)
    built = replace(one.costs, build_ns_JT=np.array([[4 * S]]))
    assert ends_s(World(one.run, built), gang(0, [0], 1)) == pytest.approx([4.5 + 1.01])


def test_a_gang_starts_while_its_devices_are_busy_or_its_job_has_not_arrived() -> None:
    one = world([1, 1], [(0, 2, 4), (0, 2, 1), (30 * S, 2, 1)])
    rows = gang(0, [0, 1], 4) + gang(1, [0, 1], 1) + gang(2, [0, 1], 1)
    first = 3 + 4 * ROUND_S
    found = ends_s(starting(one, 3), rows)
    assert found == pytest.approx([first, first + ROUND_S, 30 + ROUND_S])


@pytest.mark.parametrize(
    ("then", "more_s"),
    [([0, 2], 0), ([2, 0], 8.5), ([1, 3], 8.5)],
    ids=["same devices", "another order", "other devices"],
)
def test_a_gang_that_has_to_be_elsewhere_is_formed_anew_behind_the_barrier(
    then: list[int], more_s: float
) -> None:
    """Its state to disk 5 s, the start 3.5 s; each stretch is between both hosts."""
    one = world([2, 2], [(0, 2, 5)])
    rows = gang(0, [0, 2], 2) + gang(0, then, 3, first=2)
    found = ends_s(starting(one, 3, 0.5, 5), rows)
    assert found == pytest.approx([3.5 + 5 * ROUND_S + more_s])


def many(seed: int) -> tuple[list[int], list[tuple[int, int, int]], Rows, float, int]:
    """Hosts, rings, their places, at most three to a device, so that all gangs are formed at time
    zero; what a start takes, and when all are there."""
    draw = random.Random(seed)
    held, start_s = [draw.randint(1, 3) for _ in range(4)], draw.uniform(0.1, 5)
    room = dict.fromkeys(range(sum(held)), 3)
    jobs, rows = list[tuple[int, int, int]](), Rows()
    for _ in range(draw.randint(2, 9)):
        places = [device for device in room if room[device]]
        mine = draw.sample(places, min(len(places), draw.randint(1, 3)))
        room |= {device: room[device] - 1 for device in mine}
        arrival, rounds = draw.choice([0, 0, 2, 9]) * S, draw.randint(1, 9)
        if mine:
            jobs.append((arrival, len(mine), rounds))
            rows += gang(len(jobs) - 1, mine, rounds)
    ranks = sum(scale for _, scale, _ in jobs)
    return held, jobs, rows, start_s, round((start_s + 0.3 * max(1, ranks / 2)) * S)


@pytest.mark.parametrize("seed", range(40))
def test_late_first_rounds_are_as_in_the_second_simulations(seed: int) -> None:
    held, jobs, rows, start_s, there_ns = many(seed)
    found = ends_s(starting(world(held, jobs), start_s, 0.3, scale=1), rows)
    expected = np.array(round_by_round(world(held, jobs), rows, there_ns)) / S
    assert found == pytest.approx(expected.tolist(), abs=1e-6)
    found = ends_s(starting(fluid(held, jobs), start_s, 0.3, scale=1), rows)
    expected_s = step_by_step(fluid(held, jobs), rows, there_ns)
    assert found == pytest.approx(expected_s, abs=1e-6)


def test_without_such_overheads_and_with_ones_of_nothing_journals_stay() -> None:
    for seed in range(5):
        one, rows = drawn(seed)
        emulated = replace(one.run.cluster, emulate=Emulate())
        tasks_alone = replace(emulated, overheads=Overheads(cores=2, dispatch_ns=S))
        plain = journal(World(replace(one.run, cluster=emulated), one.costs), rows)
        assert plain == journal(World(replace(one.run, cluster=tasks_alone), one.costs), rows)
        late = starting(one, 2, scale=1)
        assert plain != journal(late, rows)
        assert journal(late, rows) == journal(late, rows)


def test_overheads_of_tasks_are_refused_with_rings_that_are_not_padded() -> None:
    one = world([2], [(0, 2, 1)])
    told = replace(one.run.cluster, overheads=Overheads(cores=2, dispatch_ns=1, ring_start_ns=1))
    with pytest.raises(SpecError, match="or only cores and ring_"):
        sim_port(replace(one.run, cluster=told), one.costs)
    assert sim_port(starting(one, 3).run, one.costs)
