"""A stretch is nothing but its rounds, one after another."""

from __future__ import annotations

import pytest
from sim_worlds import assignments_of, random_plan, random_world, run_events

from warren.model.decision import Assignment
from warren.model.events import AnyEvent, CompDone, RoundsDone, TasksDone


def expand(assignments: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """The same work at grain 1: every round of a stretch as an assignment of its own."""
    return tuple(
        Assignment(a.device, a.job, a.round + i, 1, a.shards)
        for a in assignments
        for i in range(a.rounds)
    )


def summary(
    events: list[AnyEvent], stretches: tuple[Assignment, ...]
) -> tuple[list[tuple[int, ...]], dict[tuple[int, int], int], list[tuple[int, ...]]]:
    """Per stretch (start, COMP end, end, busy); barriers after stretches; when devices free."""
    done = {(e.job, e.round, e.device, e.shards): e for e in events if isinstance(e, TasksDone)}
    comp = {(e.job, e.round, e.device, e.shards): e for e in events if isinstance(e, CompDone)}
    rows, frees = [], []
    for a in stretches:
        single = (a.job, a.round, a.device, a.shards) in done and any(
            e.rounds == a.rounds for e in (done[a.job, a.round, a.device, a.shards],)
        )
        firsts = [a.round] if single else [a.round + i for i in range(a.rounds)]
        parts = [done[a.job, r, a.device, a.shards] for r in firsts]
        last = parts[-1]
        busy = sum(part.busy_ns for part in parts)
        rows.append((parts[0].start_ns, last.comp_end_ns, last.time_ns, busy))
        frees.append((comp[a.job, firsts[-1], a.device, a.shards].time_ns, a.device))
    barriers = {(e.job, e.round + e.rounds): e.time_ns for e in events if isinstance(e, RoundsDone)}
    return rows, barriers, frees


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("network", ["constant", "lane"])
def test_fast_forward_equals_the_expansion_to_single_rounds(network: str, noisy: bool) -> None:
    for seed in range(60):
        world = random_world(seed, network, noisy)
        stretches = assignments_of(random_plan(world, seed, 6))
        rows, barriers, frees = summary(run_events(world, stretches), stretches)
        plain_rows, plain_barriers, plain_frees = summary(
            run_events(world, expand(stretches)), stretches
        )
        assert rows == plain_rows
        assert frees == plain_frees
        assert all(plain_barriers[key] == time for key, time in barriers.items())


def test_a_stretch_of_a_billion_rounds_takes_one_step() -> None:
    from sim_worlds import world_of

    rounds = 10**9
    world = world_of([(5, 2, rounds)], [[7]], [[3]], ["A", "A"])
    events = run_events(
        world, (Assignment(0, 0, 0, rounds, (0,)), Assignment(1, 0, 0, rounds, (1,)))
    )
    (last,) = [event for event in events if isinstance(event, RoundsDone)]
    assert (last.time_ns, last.rounds, last.finished) == (5 + 10 * rounds, rounds, True)
