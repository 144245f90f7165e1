"""Reports in any order that sockets allow, and losses at any moment, become events that follow."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from ledger_world import World
from live_worlds import accepted, job, of, virtual

from warren.core.state import State
from warren.live.clock import ClusterClock
from warren.live.control.event_queue import PendingEvents
from warren.live.control.ledger import Ledger
from warren.live.transport.message import TaskStamp
from warren.live.transport.messages import CompEnded
from warren.live.transport.server_messages import RoundReport
from warren.model.decision import Assignment
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TaskDropped,
    TasksDone,
)
from warren.model.job import Job

JOBS = (job(0, scale=2), job(1, scale=3, rounds=2, arrival_ns=40), job(2, scale=1, rounds=4))


def live(world: World, *, device_losses: int = 0, server_losses: int = 0, copies: int = 0) -> None:
    """Let everything happen in any order until all jobs have ended."""
    draw, choices = world.draw, 8 if copies else 6
    for _ in range(10_000):
        if world.state.done_J.all() and not world.state.races.lost:
            return
        device = draw.randrange(len(world.queues))
        choice = draw.randrange(choices)
        if choice == 0:
            world.take_events()
        elif choice == 1:
            world.run_task(device)
        elif choice == 2:
            world.commit(device)
        elif choice == 3:
            world.deliver()
        elif choice == 4 and device_losses and draw.random() < 0.2:
            device_losses -= 1
            world.lose_device(device)
        elif choice == 5 and server_losses and draw.random() < 0.2:
            server_losses -= 1
            world.lose_server(draw.randrange(len(JOBS)))
        elif choice == 6 and copies and draw.random() < 0.5:
            copies -= world.copy()
        elif choice == 7:
            world.hear_beaten(device)
        else:
            world.now += draw.randint(0, 3)
            world.pending.advance(world.now)
    raise AssertionError("the jobs do not end")


def every_task_once(events: list[AnyEvent]) -> bool:
    """Whether each task of each job has one row, and each barrier one event."""
    tasks = Counter((row.job, row.round, shard) for row in accepted(events) for shard in row.shards)
    rounds = {one.index: one.rounds or 0 for one in JOBS}
    wanted = {(j.index, r, k) for j in JOBS for r in range(rounds[j.index]) for k in range(j.scale)}
    return tasks == Counter(wanted)


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_any_order_of_reports_gives_events_in_causal_order(seed: int, devices: int) -> None:
    world = World(JOBS, devices, seed)
    live(world)
    events = world.events
    tasks = sum((one.rounds or 0) * one.scale for one in JOBS)
    assert Counter(type(event) for event in events) == {
        JobArrived: len(JOBS),
        CompDone: tasks,
        TasksDone: tasks,
        RoundsDone: sum(one.rounds or 0 for one in JOBS),
        ParamsSaved: len(JOBS),
    }
    assert every_task_once(events)
    _check_rows(events, devices)


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_a_lost_device_changes_nothing_but_when_things_happen(seed: int, devices: int) -> None:
    world = World(JOBS, devices, seed)
    live(world, device_losses=4)
    assert every_task_once(world.events)
    _check_rows(world.events, devices)


@given(st.integers(0, 10**9), st.integers(1, 4), st.booleans())
def test_after_any_losses_every_task_counts_once(seed: int, devices: int, eager: bool) -> None:
    world = World(JOBS, devices, seed, eager=eager)
    live(world, device_losses=3, server_losses=3)
    assert every_task_once(world.events)
    opened = {(one.index, 0): one.arrival_ns for one in JOBS}
    opened |= {(e.job, e.round + 1): e.barrier_ns for e in of(world.events, RoundsDone)}
    for row in accepted(world.events):
        assert opened[row.job, row.round] <= row.start_ns < row.comp_end_ns <= row.end_ns


@given(st.integers(0, 10**9), st.integers(2, 4), st.booleans(), st.integers(0, 1))
def test_with_copies_and_losses_every_task_counts_once(
    seed: int, devices: int, eager: bool, losses: int
) -> None:
    world = World(JOBS, devices, seed, eager=eager)
    live(world, copies=8, device_losses=2 * losses, server_losses=2 * losses)
    assert every_task_once(world.events)
    if not losses:
        assert len(of(world.events, TaskDropped)) == world.copies
        _check_rows(world.events, devices)


def test_the_copies_of_these_worlds_are_first_at_times() -> None:
    made = won = 0
    for seed in range(40):
        world = World(JOBS, 3, seed, eager=False)
        live(world, copies=8)
        dropped = {(e.job, e.round, e.shard): e for e in of(world.events, TaskDropped)}
        made += world.copies
        won += sum(e.busy_ns > 0 for e in dropped.values())
    assert made > won > 0


def _check_rows(events: list[AnyEvent], devices: int) -> None:
    opened = {(one.index, 0): one.arrival_ns for one in JOBS}
    opened |= {(e.job, e.round + 1): e.barrier_ns for e in of(events, RoundsDone)}
    for row in of(events, TasksDone):
        assert opened[row.job, row.round] <= row.start_ns < row.comp_end_ns
        assert row.comp_end_ns <= row.end_ns <= row.time_ns
    for device in range(devices):
        rows = sorted(
            (row.start_ns, row.comp_end_ns) for row in of(events, TasksDone) if row.device == device
        )
        assert all(one[1] <= after[0] for one, after in pairwise(rows))


@given(st.integers(0, 10**9))
def test_after_a_failure_nothing_of_the_job_follows_and_the_rest_goes_on(seed: int) -> None:
    world = World(JOBS, 2, seed)
    for _ in range(world.draw.randrange(60)):
        world.take_events()
        world.run_task(world.draw.randrange(2))
        world.commit(world.draw.randrange(2))
        world.deliver()
        world.now += 1
    if world.ledger.ended(1):
        return
    world.ledger.fail(1, "it broke", world.now)
    for device, queue in enumerate(world.queues):
        world.queues[device] = type(queue)(task for task in queue if task[1] != 1)
    live(world)
    assert len(of(world.events, JobFailed)) == 1


def test_a_head_whose_round_was_never_assigned_is_stuck() -> None:
    pending = PendingEvents(JOBS)
    ledger = Ledger(JOBS, 1, pending)
    ledger.begin(ClusterClock(0), "class")
    pending.advance(100)
    while pending.pop():
        pass
    ledger.assigned(Assignment(0, 0, 1, 1, (0,)))
    assert ledger.stuck()


def _run_rounds(ledger: Ledger, seq: int, rounds: range, last: int) -> None:
    for number in rounds:
        at = 10 * number
        ledger.report(CompEnded(seq, number, 0, at, at + 5, False))
        stamps = (TaskStamp(0, at, at + 5, at + 6),)
        generation = ledger.generation(0)
        ledger.report(
            RoundReport(0, generation, number, 1.0, None, number == last, at + 7, stamps, 0, "hash")
        )


def _stretch(rounds: int) -> tuple[Ledger, PendingEvents, State]:
    jobs: tuple[Job, ...] = (job(0, scale=1, rounds=rounds),)
    pending = PendingEvents(jobs)
    ledger = Ledger(jobs, 1, pending)
    ledger.begin(ClusterClock(0), "class")
    run, costs = virtual(jobs, 1)
    state = State(run, costs)
    pending.advance(0)
    for event in pending.pop():
        state.apply(event)
    one = Assignment(0, 0, 0, rounds, (0,))
    ledger.assigned(one)
    state.assign(one)
    return ledger, pending, state


def _events(pending: PendingEvents, state: State) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    while got := pending.pop():
        for event in got:
            state.apply(event)
        events += got
    return events


def test_a_stretch_is_one_row_and_each_of_its_rounds_is_reported() -> None:
    ledger, pending, state = _stretch(3)
    _run_rounds(ledger, 1, range(3), 2)
    events = _events(pending, state)
    assert of(events, TasksDone) == [TasksDone(26, 0, 0, 3, (0,), 0, 0, 25, 15, 26)]
    assert [event.round for event in of(events, RoundsDone)] == [0, 1, 2]


def test_a_stop_inside_a_stretch_keeps_the_rounds_that_ran() -> None:
    ledger, pending, state = _stretch(9)
    _run_rounds(ledger, 1, range(2), 1)
    events = _events(pending, state)
    assert of(events, TasksDone) == [TasksDone(16, 0, 0, 2, (0,), 0, 0, 15, 10, 16)]
    assert state.done_J.all()
    assert not state.queues[0]
    assert not state.syncing[0]


def test_a_rollback_into_a_stretch_keeps_what_ran_before_the_checkpoint() -> None:
    ledger, pending, state = _stretch(9)
    _run_rounds(ledger, 1, range(4), 8)
    ledger.roll_back(0, 2, "lost", 50)
    events = _events(pending, state)
    back = of(events, RolledBack)[0]
    assert back.kept == (TasksDone(50, 0, 0, 2, (0,), 0, 0, 15, 10, 16),)
    assert (state.round_J[0], state.next_round_J[0]) == (2, 2)
    rest = Assignment(0, 0, 2, 7, (0,))
    state.assign(rest)
    _run_rounds(ledger, ledger.assigned(rest), range(2, 9), 8)
    events = _events(pending, state)
    assert [(row.round, row.rounds) for row in of(events, TasksDone)] == [(2, 7)]
    assert state.done_J.all()
