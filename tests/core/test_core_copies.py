"""Late tasks are started once more elsewhere: when, where, and that the first result counts."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journal_replay import replay

from warren.core.journal_reader import History, read_history
from warren.core.resume import catch_up
from warren.core.scheduling_rules import check_copy
from warren.core.stragglers import StragglerCopier
from warren.model.decision import Assignment
from warren.model.errors import InfeasibleDecision
from warren.model.events import (
    CompDone,
    RoundsDone,
    TaskDropped,
    TasksDone,
)
from warren.model.run import Truth
from warren.report.checks.check import check
from warren.report.metrics import loss_sentence, summary
from warren.report.record import Record
from warren.runs.results import result_files

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds
from copy_worlds import S, at, begun, copying, core_of, events_of, journal_of, one_job

pytestmark = pytest.mark.slow

PLACES = ("hare", "gavel-fifo", "srtf")
FIRST = Assignment(0, 0, 0, 1, (0,))


def rows(history: History) -> list[tuple[int, int, int, float, float]]:
    """(round, shard, device, start, end), times in seconds."""
    line = history.timeline
    columns = (line.round_R, line.shard_R, line.device_R, line.start_ns_R / S, line.end_ns_R / S)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_a_straggler_does_not_hold_up_the_barrier() -> None:
    # Round 0 on both devices from 0; the task on device 0 is late at 2 * (10 + 2) = 24 and is
    # copied to device 1, which is through with it at 24 + 10 + 2. Device 0 is not free until 100.
    run, profile, true = one_job()
    without = read_history(journal_of(run, profile, "srtf", true))
    assert without.finish_ns_J.tolist() == [240 * S]
    history = read_history(journal_of(copying(run), profile, "srtf", true))
    assert rows(history) == [
        (0, 0, 1, 24, 36),
        (0, 1, 1, 0, 12),
        (1, 0, 1, 36, 48),
        (1, 1, 1, 46, 58),
    ]
    assert history.finish_ns_J.tolist() == [58 * S]
    assert (history.copies, history.copies_won) == (1, 1)
    assert history.dropped == [TaskDropped(100 * S, 0, 0, 0, 0, 100 * S)]


@pytest.mark.parametrize("place", ["hare", "gavel-fifo"])
def test_a_task_behind_a_run_that_has_lost_is_late_in_its_turn(place: str) -> None:
    # Both have a task of round 1 waiting on device 1 when round 0 is late: the copy goes before
    # it. Round 1's task on device 0 could run from 36 on, but for the lost run there; it is late at
    # 36 + 24, and never begins.
    run, profile, true = one_job()
    history = read_history(journal_of(copying(run), profile, place, true))
    assert rows(history) == [
        (0, 0, 1, 24, 36),
        (0, 1, 1, 0, 12),
        (1, 0, 1, 60, 72),
        (1, 1, 1, 36, 48),
    ]
    never, late = TaskDropped(72 * S, 0, 1, 0, 0, 0), TaskDropped(100 * S, 0, 0, 0, 0, 100 * S)
    assert history.dropped == [never, late]


def test_a_task_is_copied_when_its_time_has_come_and_not_before() -> None:
    state = begun([10.0, 10.0], [[FIRST]])
    copier = StragglerCopier(2.5, state)
    assert copier.look(state) == ((), 30 * S)
    assert copier.look(at(state, 29.999)) == ((), None)  # the wake-up asked for will come
    assert copier.look(at(state, 30)) == ((Assignment(1, 0, 0, 1, (0,)),), None)


def test_a_slower_device_takes_a_copy_only_when_the_task_has_taken_as_long_as_it_would_there() -> (
    None
):
    state = begun([10.0, 98.0], [[FIRST]])
    copier = StragglerCopier(2.0, state)
    assert copier.look(state) == ((), 100 * S)
    assert copier.look(at(state, 99.9))[0] == ()
    assert copier.look(at(state, 100))[0] == (Assignment(1, 0, 0, 1, (0,)),)


def test_the_quickest_device_takes_it_of_equals_an_empty_one() -> None:
    waits = Assignment(1, 0, 1, 1, (0,))
    for comp_s, chosen in (([10.0, 9.0, 8.0], 2), ([10.0, 8.0, 9.0], 1), ([10.0, 8.0, 8.0], 2)):
        state = begun(comp_s, [[FIRST], [waits], []], scale=1)
        copier = StragglerCopier(2.0, state)
        copier.look(state)
        (copy,), _ = copier.look(at(state, 24))
        assert copy.device == chosen


@pytest.mark.parametrize(
    ("queues", "why"),
    [
        ([[Assignment(0, 0, 0, 2, (0, 1))], []], "a stretch"),
        ([[Assignment(0, 0, 0, 1, (0, 1))], []], "several tasks"),
        ([[FIRST], [Assignment(1, 0, 0, 1, (1,))]], "the other device computes"),
        ([[FIRST], [Assignment(1, 1, 0, 1, (0,))]], "the other device has another job's task"),
    ],
)
def test_what_cannot_be_copied_is_left_alone(queues: list[list[Assignment]], why: str) -> None:
    state = begun([10.0, 10.0], queues)
    copier = StragglerCopier(2.0, state)
    copier.look(state)
    assert copier.look(at(state, 1000)) == ((), None), why


def test_two_late_tasks_share_the_devices_and_each_is_copied_once() -> None:
    queues = [[FIRST], [Assignment(1, 0, 0, 1, (1,))], [], []]
    state = begun([10.0] * 4, queues)
    copier = StragglerCopier(2.0, state)
    copier.look(state)
    copies, _ = copier.look(at(state, 24))
    assert copies == (Assignment(2, 0, 0, 1, (0,)), Assignment(3, 0, 0, 1, (1,)))
    for one in copies:
        check_copy(state, one)
        state.copy(one)
    state.apply(CompDone(34 * S, 0, 0, 1, (0,), 2))
    assert copier.look(at(state, 1000)) == ((), None)


def test_a_task_that_begins_when_the_barrier_passes_is_on_time_from_then() -> None:
    state = begun([10.0, 10.0], [[FIRST, Assignment(0, 0, 1, 1, (0,))], []], scale=1)
    copier = StragglerCopier(2.0, state)
    copier.look(state)
    for event in (
        CompDone(20 * S, 0, 0, 1, (0,), 0),
        TasksDone(50 * S, 0, 0, 1, (0,), 0, 0, 20 * S, 20 * S),
        RoundsDone(50 * S, 0, 0, 1, False),
    ):
        state.apply(event)
        soonest_ns = copier.look(state)[1]
    assert soonest_ns == (50 + 24) * S


def test_with_a_lane_the_later_run_gives_its_time_on_it_back_if_it_was_still_on_comp() -> None:
    # Device 0 begins (0, 0) at 0; late at 24; its copy on device 1 is done at 36 = the barrier.
    # At 100 device 0 is free, its lane too: job 1's task ends at 100 + 100 + 20, not behind a
    # synchronization that never was.
    run = worlds.run(
        worlds.cluster(["A", "B"], "lane"),
        [worlds.job(0, scale=2), worlds.job(1, arrival_ns=37 * S)],
    )
    profile = worlds.costs([[10.0, 10.0], [10.0, np.inf]], [[2.0, 2.0]] * 2)
    true = worlds.costs([[100.0, 10.0], [100.0, np.inf]], [[200.0, 2.0], [20.0, 2.0]])
    history = read_history(journal_of(copying(run), profile, "srtf", true))
    assert history.finish_ns_J.tolist() == [36 * S, 220 * S]


def test_a_summary_tells_of_copies_only_where_the_run_may_make_them() -> None:
    run, profile, true = one_job()
    told = {}
    for one in (run, copying(run)):
        history = read_history(journal_of(one, profile, "srtf", true))
        told[one.scheduler.copies_after] = summary(Record(run=one, history=history, costs=profile))
    assert not [name for name in told[None] if name.startswith("copies")]
    counts = {name: told[2.0][name] for name in ("copies", "copies_won", "copies_wasted_s")}
    assert counts == {"copies": 1, "copies_won": 1, "copies_wasted_s": 100.0}
    assert loss_sentence(told[2.0]) == "1 late task also started elsewhere, 1 done first there"


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=settings().max_examples // 3)
@given(st.integers(0, 10**9), st.sampled_from(["constant", "lane"]), st.sampled_from([1.1, 2.0]))
def test_with_copies_every_task_counts_once_and_its_folder_passes_the_check(
    place: str, seed: int, network: str, after: float
) -> None:
    truth = Truth(job_cv=2.0, task_cv=0.3, seed=seed)
    run, costs = worlds.random_world(seed, truth=truth, network=network)  # type: ignore[arg-type]
    journal = journal_of(copying(run, after), costs, place, costs)
    history = read_history(journal)
    tasks = Counter(
        (done.job, round_no, shard)
        for done in events_of(journal, TasksDone)
        for round_no in range(done.round, done.round + done.rounds)
        for shard in done.shards
    )
    assert tasks == Counter(
        (one.index, round_no, shard)
        for one in run.workload.jobs
        for round_no in range(one.rounds or 0)
        for shard in range(one.scale)
    )
    assert len(history.dropped) == history.copies
    record = Record(run=copying(run, after), history=history, costs=costs)
    assert check({name: as_bytes(value) for name, value in result_files(record).items()}) == []


@pytest.mark.parametrize("place", PLACES)
def test_copies_do_happen_and_win_in_these_worlds(place: str) -> None:
    made = won = 0
    for seed in range(30):
        run, costs = worlds.random_world(seed, truth=Truth(job_cv=2.0, seed=seed))
        history = read_history(journal_of(copying(run), costs, place, costs))
        made, won = made + history.copies, won + history.copies_won
    assert 0 < won < made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(5))
def test_without_stragglers_the_journal_is_that_of_a_run_without_copies_but_for_wakes(
    place: str, seed: int
) -> None:
    run, costs = worlds.random_world(seed)
    plain, copied = (journal_of(one, costs, place, costs) for one in (run, copying(run)))
    assert read_history(copied).copies == 0
    for one in ("start_ns_R", "end_ns_R", "device_R"):
        columns = [getattr(read_history(two).timeline, one) for two in (plain, copied)]
        assert np.array_equal(*columns)


@pytest.mark.parametrize("place", PLACES)
def test_a_journal_with_copies_is_replayed_and_a_new_core_is_led_to_its_end(place: str) -> None:
    for seed in range(12):
        run, costs = worlds.random_world(seed, truth=Truth(job_cv=2.0, seed=seed))
        run = copying(run)
        journal = bytearray()
        core = core_of(run, costs, place, costs, journal)
        core.execute()
        again = replay(bytes(journal), run, costs)
        assert np.array_equal(again.round_J, core.state.round_J)
        assert again.races.lost == core.state.races.lost == {}
        for share in (0.3, 0.6, 0.9):
            part = bytes(journal)[: int(len(journal) * share)]
            other = core_of(run, costs, place, costs, bytearray())
            other.compiled = False
            catch_up(other, part)
            told = replay(part, run, costs)
            assert [list(queue) for queue in other.state.queues] == [list(q) for q in told.queues]
            assert other.state.races.pairs == told.races.pairs


def as_bytes(value: bytes | str) -> bytes:
    """The content of a file."""
    return value if isinstance(value, bytes) else value.encode()


@pytest.mark.parametrize("place", ["fifo", "braid-online"])
def test_rings_run_beside_copies_and_are_never_copied(place: str) -> None:
    copied = 0
    for seed in range(25):
        draw = random.Random(seed)
        jobs = [
            worlds.job(
                k,
                scale=draw.randint(1, 3),
                rounds=draw.randint(1, 6),
                arrival_ns=draw.randrange(40) * S,
                sync=draw.choice(["ps", "ring"]),
            )
            for k in range(6)
        ]
        run = copying(worlds.run(worlds.cluster(["A", "A", "B", "B"]), jobs))
        profile = worlds.costs([[10.0, 10.0]] * 6, [[2.0, 2.0]] * 6)
        true = worlds.costs([[60.0, 10.0]] * 6, [[12.0, 2.0]] * 6)
        written = journal_of(run, profile, place, true)
        history = read_history(written)
        assert {history.status(k) for k in range(6)} == {"finished"}
        copies = events_of(written, TaskDropped)
        assert all(run.workload.jobs[one.job].sync == "ps" for one in copies)
        copied += history.copies
    assert copied > 10


def test_a_copy_of_a_ring_s_task_is_refused() -> None:
    state = begun([10.0, 10.0, 10.0], [[FIRST], [Assignment(1, 0, 0, 1, (1,))], []], sync="ring")
    with pytest.raises(InfeasibleDecision, match="its job is a ring"):
        check_copy(state, Assignment(2, 0, 0, 1, (0,)))
    assert StragglerCopier(2.0, at(state, 1000)).look(state) == ((), None)
