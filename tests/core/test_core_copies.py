"""Late tasks are started once more elsewhere: when, where, and that the first result counts."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.cli.export import result_files
from warren.core.copies import Copier
from warren.core.history import History, read_history
from warren.core.journal import CopyStep, Step, decode
from warren.core.loop import Core
from warren.core.replay import replay
from warren.core.resume import catch_up
from warren.core.rules import check_copy
from warren.core.state import State
from warren.model.costs import CostTable
from warren.model.errors import InfeasibleDecision
from warren.model.events import CompDone, Event, JobArrived, RoundsDone, TaskDropped, TasksDone
from warren.model.plan import Assignment
from warren.model.run import Run, Truth
from warren.model.units import NS_PER_S
from warren.policy.place.registry import place_policy
from warren.sim.copies import CopyingPort, sim_port
from warren.report.check import check
from warren.report.record import Record
from warren.sim.port import SimPort

sys.path.insert(0, str(Path(__file__).parents[1]))
import worlds

S = NS_PER_S
E = TypeVar("E", bound=Event)
PLACES = ("hare", "gavel-fifo", "srtf")


def copying(run: Run, after: float | None = 2.0) -> Run:
    """The run with copies."""
    return replace(run, scheduler=replace(run.scheduler, copies_after=after))


def core_of(run: Run, costs: CostTable, place: str, true: CostTable, sink: bytearray) -> Core:
    """A core in a simulated world where tasks take the ``true`` times."""
    return Core(
        run=run,
        costs=costs,
        policy=place_policy(place),
        port=sim_port(run, true),
        sink=sink.extend,
        world="sim",
        check=True,
    )


def journal_of(run: Run, costs: CostTable, place: str, true: CostTable) -> bytes:
    """Run it; every step is checked."""
    journal = bytearray()
    core_of(run, costs, place, true, journal).execute()
    return bytes(journal)


def events_of(journal: bytes, kind: type[E]) -> list[E]:
    """Events of a kind, in order."""
    steps = (record for record in decode(journal) if isinstance(record, Step))
    return [event for step in steps for event in step.events if isinstance(event, kind)]


def one_job(rounds: int = 2) -> tuple[Run, CostTable, CostTable]:
    """Two tasks a round on two devices; the profile says 10 s and 2 s, device 0 takes ten times."""
    run = worlds.run(worlds.cluster(["A", "B"]), [worlds.job(0, scale=2, rounds=rounds)])
    profile = worlds.costs([[10.0, 10.0]], [[2.0, 2.0]])
    return run, profile, worlds.costs([[100.0, 10.0]], [[20.0, 2.0]])


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


def test_a_device_that_waits_for_the_barrier_takes_the_copy_before_its_own_task() -> None:
    # hare's plan has a task of round 1 waiting on device 1 when round 0 is late.
    run, profile, true = one_job()
    history = read_history(journal_of(copying(run), profile, "hare", true))
    assert rows(history)[:2] == [(0, 0, 1, 24, 36), (0, 1, 1, 0, 12)]
    assert history.copies_won >= 1
    assert history.finish_ns_J[0] < 240 * S


@pytest.mark.parametrize("place", PLACES)
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
