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
from warren.model.measured import Overheads

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
    # Five begin at once. The last is formed afterwards, and is there before its job arrives.
    assert found == pytest.approx([5 + 1.03, 5 + three_s, 9 + 1.01])


def test_rings_cut_in_stretches_start_as_whole_ones_do() -> None:
    """What comes behind a gang's first stretch keeps nobody from forming it."""
    one = starting(world([2, 2], [(0, 2, 4), (0, 2, 4)]), 1, 2)
    whole = gang(0, [0, 1], 4) + gang(1, [2, 3], 4)
    cut = [row for r in (0, 2) for row in gang(0, [0, 1], 2, r) + gang(1, [2, 3], 2, r)]
    assert ends_s(one, cut) == ends_s(one, whole) == pytest.approx([5 + 4 * 1.03] * 2)


def test_a_rank_takes_a_core_for_as_long_as_its_app_takes_to_be_built() -> None:
    """Three rings at once: 2 (0.5 + 1) + 2 (0.5 + 3) + (0.5 + 4) = 14.5 s of two cores."""
    one = starting(world([2, 3], [(0, 2, 1), (0, 2, 1), (0, 1, 1)]), 0, 0.5)
    built = replace(one.costs, build_ns_JT=np.array([[S], [3 * S], [4 * S]]))
    rows = gang(0, [0, 1], 1) + gang(1, [2, 3], 1) + gang(2, [4], 1)
    found = ends_s(World(one.run, built), rows)
    assert found == pytest.approx([7.25 + 1.03, 7.25 + 1.03, 7.25 + 1.01])


def test_no_rank_is_there_before_its_own_app_is_built() -> None:
    """Of two cores one is idle."""
    one = starting(world([1], [(0, 1, 1)]), 0, 0.5)
    built = replace(one.costs, build_ns_JT=np.array([[4 * S]]))
    assert ends_s(World(one.run, built), gang(0, [0], 1)) == pytest.approx([4.5 + 1.01])


def test_gangs_whose_devices_are_free_start_first_and_the_others_one_after_another() -> None:
    """Starts of 3 s. The third waits for devices of the first, the fourth and fifth for arrivals:
    they are there 6, 9 and 12 s after the beginning. One that arrives before its turn goes first.
    """
    jobs = [(0, 2, 1), (0, 2, 1), (0, 2, 1), (10 * S, 1, 1), (10 * S, 1, 1)]
    rows = gang(0, [0, 1], 1) + gang(1, [2, 3], 1) + gang(2, [0, 1], 1)
    rows += gang(3, [4], 1) + gang(4, [5], 1)
    found = ends_s(starting(world([2, 2, 2], jobs), 3), rows)
    assert found == pytest.approx([4.03, 4.03, 6 + 1.03, 10 + 1.01, 12 + 1.01])
    jobs[4] = (5 * S, 1, 1)
    found = ends_s(starting(world([2, 2, 2], jobs), 3), rows)
    assert found == pytest.approx([4.03, 4.03, 6 + 1.03, 5 + 3 + 3 + 1.01, 5 + 3 + 1.01])


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
def test_a_gang_that_has_to_be_elsewhere_is_formed_again_behind_the_barrier(
    then: list[int], more_s: float
) -> None:
    """Its state to disk 5 s, the start 3.5 s; each stretch is between both hosts."""
    one = world([2, 2], [(0, 2, 5)])
    rows = gang(0, [0, 2], 2) + gang(0, then, 3, first=2)
    found = ends_s(starting(one, 3, 0.5, 5), rows)
    assert found == pytest.approx([3.5 + 5 * ROUND_S + more_s])


def many(seed: int) -> tuple[list[int], list[tuple[int, int, int]], Rows, float]:
    """Hosts, rings, their places, at most three to a device, and what a start takes."""
    draw = random.Random(seed)
    held, start_s = [draw.randint(1, 3) for _ in range(4)], draw.uniform(0.1, 5)
    room = dict.fromkeys(range(sum(held)), 3)
    jobs, rows = list[tuple[int, int, int]](), Rows()
    for _ in range(draw.randint(2, 9)):
        places = [device for device in room if room[device]]
        mine = draw.sample(places, min(len(places), draw.randint(1, 3)))
        room |= {device: room[device] - 1 for device in mine}
        arrival, rounds = draw.choice([0, 0, 2 * S, 9 * S]), draw.randint(1, 9)
        if mine:
            jobs.append((arrival and arrival + draw.randrange(S), len(mine), rounds))
            rows += gang(len(jobs) - 1, mine, rounds)
    return held, jobs, rows, start_s


class Formed:
    """When gangs are there that all have their devices from time zero on, counted again."""

    def __init__(self, jobs: list[tuple[int, int, int]], rows: Rows, start_s: float) -> None:
        taken = set[int]()
        at_once, self.in_turn = list[int](), list[int]()
        for job, (arrival, _, _) in enumerate(jobs):
            mine = {row[4] for row in rows if row[0] == job}
            (self.in_turn if arrival or mine & taken else at_once).append(job)
            taken |= mine
        self.in_turn.sort(key=lambda job: jobs[job][0])
        ranks = sum(jobs[job][1] for job in at_once)
        took = round((start_s + 0.3 * max(1, ranks / 2)) * S)
        self.there = dict.fromkeys(at_once, took)
        self.idle = took if at_once else 0
        self.took = [round((start_s + 0.3 * max(1, scale / 2)) * S) for _, scale, _ in jobs]

    def __call__(self, job: int, now: int) -> int:
        while self.in_turn and self.idle <= now:
            self.begin(self.in_turn[0], self.idle)
        if job in self.in_turn:
            self.begin(job, now)
        return self.there[job]

    def begin(self, job: int, now: int) -> None:
        self.in_turn.remove(job)
        self.there[job] = now + self.took[job]
        self.idle = max(self.idle, self.there[job])


@pytest.mark.parametrize("seed", range(40))
def test_late_first_rounds_are_as_in_the_second_simulations(seed: int) -> None:
    held, jobs, rows, start_s = many(seed)
    found = ends_s(starting(world(held, jobs), start_s, 0.3, scale=1), rows)
    formed = Formed(jobs, rows, start_s)
    expected = np.array(round_by_round(world(held, jobs), rows, formed)) / S
    assert found == pytest.approx(expected.tolist(), abs=1e-6)
    found = ends_s(starting(fluid(held, jobs), start_s, 0.3, scale=1), rows)
    expected_s = step_by_step(fluid(held, jobs), rows, Formed(jobs, rows, start_s))
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
