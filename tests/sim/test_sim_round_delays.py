"""Rounds that begin later than they could: numbers by hand, and rules on drawn worlds."""

from __future__ import annotations

import random
from functools import partial
from itertools import groupby
from typing import Any

import pytest
from server_worlds import At, drawn, ends, events_of, servers, tasks
from test_sim_rings import Rows, S, gang

from warren.model.events import AnyEvent, RoundsDone, TasksDone
from warren.sim.port import SimPort


def say(at_s: float, **delays_s: float) -> tuple[float, Any]:
    """Delays by job, ``j0=2.0``, told to the port at a time."""
    delays_ns = {int(job[1:]): round(one * S) for job, one in delays_s.items()}
    return at_s, lambda port: port.delay(delays_ns)


def cut(rows: Rows) -> Rows:
    """The same rounds one by one."""
    found: Rows = []
    for (job, first, rounds), stretch in groupby(rows, lambda row: row[:3]):
        ranks = [(shard, device) for *_, shard, device in stretch]
        found += [(job, first + at, 1, *rank) for at in range(rounds) for rank in ranks]
    return found


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_round_with_servers_begins_so_long_after_the_barrier_before_it(rounds: int) -> None:
    """A round is 2 + 1 + 2 s: its pull is put off with its task."""
    one = servers([1, 1], [(0, 1, 3)], flow="fixed")
    rows = [row for at in range(0, 3, rounds) for row in gang(0, [1], rounds, at)]
    assert ends(one, rows, [say(1, j0=3)]) == [5 + 3 + 5 + 5]
    if rounds == 1:
        found = tasks(events_of(one, rows, [say(1, j0=3)]))
        assert [found[0, at, 0] for at in range(3)] == [(2, 3, 5), (10, 11, 13), (15, 16, 18)]


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_ring_begins_so_long_after_the_barrier_before(rounds: int) -> None:
    """Alone it takes equal rounds of 1 + 2 s in one step, and goes back to the one at hand."""
    one = servers([1, 1], [(0, 2, 4)], rings=(0,), flow="fixed")
    rows = [row for at in range(0, 4, rounds) for row in gang(0, [0, 1], rounds, at)]
    assert ends(one, rows) == [12]
    assert ends(one, rows, [say(4, j0=2)]) == [14]
    assert ends(one, rows, [say(3, j0=2), say(7, j0=0.5)]) == [14.5]


def test_a_ring_may_begin_when_another_one_ends() -> None:
    """Each on hosts of its own: the second has waited until the first is done with its round."""
    one = servers([1, 1, 1, 1], [(0, 2, 3), (0, 2, 3)], rings=(0, 1), flow="fixed")
    rows = [row for at in range(3) for row in gang(0, [0, 1], 1, at) + gang(1, [2, 3], 1, at)]
    assert ends(one, rows, [say(1, j1=3)]) == [9, 12]


@pytest.mark.parametrize("rings", [(), (0,)])
def test_a_barrier_of_the_instant_of_the_answer_has_passed_before(rings: tuple[int, ...]) -> None:
    one = servers([1, 1], [(0, 2 if rings else 1, 2)], rings=rings, flow="fixed")
    rows = cut(gang(0, [0, 1] if rings else [1], 2))
    barrier_s = ends(one, rows)[0] / 2
    # Behind the last barrier there is no round.
    assert ends(one, rows, [say(barrier_s, j0=9)]) == [2 * barrier_s]
    assert ends(one, rows, [say(barrier_s - 0.5, j0=9)]) == [2 * barrier_s + 9]


def test_a_later_answer_takes_the_place_of_one_that_no_barrier_has_met() -> None:
    one = servers([1, 1], [(0, 1, 3)], flow="fixed")
    rows = gang(0, [1], 3)
    assert ends(one, rows, [say(1, j0=9), say(2, j0=1)]) == [16]
    assert ends(one, rows, [say(1, j0=9), say(2, j0=0)]) == [15]


def test_devices_wait_with_a_round_that_is_delayed_and_other_jobs_behind_it() -> None:
    one = servers([1, 1], [(0, 1, 2), (0, 1, 1)], flow="fixed", nic_MB_s=[9e3, 9e3])
    rows = [*gang(0, [1], 1), *gang(0, [1], 1, 1), *gang(1, [1], 1)]
    assert ends(one, rows, [say(0.5, j0=5)]) == pytest.approx([1 + 5 + 1, 1 + 5 + 2], abs=0.01)


def test_two_jobs_that_compute_and_send_a_second_take_three_on_one_link_and_two_when_shifted() -> (
    None
):
    """Both pull and push 1 MB in all over host 2's link: half a second each way alone."""
    one = servers([1, 1, 2], [(0, 1, 6), (0, 1, 6)], flow="fixed", nic_MB_s=[4.0, 4.0, 4.0])
    rows = gang(0, [2], 6) + gang(1, [3], 6)
    assert ends(one, rows) == [6 * 3.0] * 2
    # Of the second the pull begins when the first pushes; then the one computes as the other sends.
    first, second = ends(one, rows, [say(0.1, j1=1)])
    assert max(first, second) <= 2 * 6 + 2.0


def told_at(seed: int, jobs: int) -> At:
    """Delays of drawn jobs at drawn times."""
    draw = random.Random(seed)
    times = sorted(draw.uniform(0.01, 40) for _ in range(12))
    return [say(at, **{f"j{draw.randrange(jobs)}": draw.choice([0, 0.7, 3])}) for at in times]


def noted(seed: int, rows: Rows, one: Any) -> tuple[list[AnyEvent], dict[tuple[int, int], int]]:
    """Events, and by job and round when the delay before it ends, as the rule has it."""
    waiting: dict[int, int] = {}
    answers: list[tuple[int, dict[int, int]]] = []

    def note(told: Any, port: SimPort) -> None:
        class Noting:
            def delay(self, delays_ns: dict[int, int]) -> None:
                answers.append((port._lanes.now_ns, delays_ns))

        told(Noting())
        told(port)

    told = told_at(seed, len(one.run.workload.jobs))
    events = events_of(one, rows, [(at, partial(note, say_it)) for at, say_it in told])
    begins: dict[tuple[int, int], int] = {}
    for event in events:
        if isinstance(event, RoundsDone):
            while answers and answers[0][0] < event.time_ns:
                waiting.update(answers.pop(0)[1])
            delay_ns = waiting.pop(event.job, 0)
            begins[event.job, event.round + event.rounds] = event.time_ns + delay_ns
    return events, begins


@pytest.mark.parametrize("rings", [0.0, 0.4, 1.0])
def test_no_task_of_a_delayed_round_starts_before_barrier_and_delay(rings: float) -> None:
    tight = 0
    for seed in range(40):
        one, rows = drawn(seed, rings=rings, flow="fixed")
        events, begins = noted(seed, cut(rows), one)
        done = [event for event in events if isinstance(event, TasksDone)]
        assert len({event.job for event in done}) == len(one.run.workload.jobs)
        for event in done:
            begin_ns = begins.get((event.job, event.round), 0)
            assert event.start_ns >= begin_ns
            tight += event.start_ns == begin_ns > 0
    assert tight > 20


def test_a_stretch_and_its_rounds_one_by_one_meet_the_same_delays() -> None:
    """One job alone on its devices: no other task comes between its rounds."""
    for seed in range(40):
        draw = random.Random(seed)
        ring, scale, rounds = draw.random() < 0.5, draw.randint(2, 3), draw.randint(2, 8)
        one = servers([1, 1, 1], [(0, scale, rounds)], rings=(0,) * ring, flow="fixed")
        rows = gang(0, list(range(scale)), rounds)
        told = told_at(seed, 1)
        assert ends(one, cut(rows), told) == pytest.approx(ends(one, rows, told), abs=1e-6)
