"""Reports in any order that sockets allow become events the core's transition table accepts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from live_worlds import job, of, shuffled, virtual

from warren.core.state import State
from warren.live.agenda import Agenda
from warren.live.clock import ClusterClock
from warren.live.ledger import Ledger, Report
from warren.live.messages import CompEnded, RoundReport, SyncEnded
from warren.model.events import (
    AnyEvent,
    CompDone,
    JobArrived,
    JobFailed,
    ParamsSaved,
    RoundsDone,
    TasksDone,
)
from warren.model.job import Job
from warren.model.plan import Assignment
from warren.model.run import Run

JOBS = (job(0, scale=2), job(1, scale=3, rounds=2, arrival_ns=40), job(2, scale=1, rounds=4))


def true_reports(run: Run, rows: list[Assignment], draw: random.Random) -> dict[str, list[Report]]:
    """What each process of a run sends, in its own order: device by device, server by server."""
    sent: dict[str, list[Report]] = {}
    free = [0] * len(run.cluster.devices)
    barrier = {one.index: one.arrival_ns for one in JOBS}
    ends: dict[tuple[int, int], list[int]] = {}
    for seq, row in enumerate(rows, start=1):
        start = max(free[row.device], barrier[row.job])
        end = start + draw.randint(1, 20)
        sync = end + draw.randint(0, 30)
        free[row.device] = end
        name = f"device {row.device}"
        shard = row.shards[0]
        sent.setdefault(name, []).append(CompEnded(seq, row.round, shard, start, end, False))
        sent.setdefault(name, []).append(SyncEnded(seq, row.round, shard, sync))
        round_ends = ends.setdefault((row.job, row.round), [])
        round_ends.append(sync)
        if len(round_ends) == JOBS[row.job].scale:
            barrier[row.job] = at = max(round_ends) + draw.randint(0, 5)
            last = row.round + 1 == JOBS[row.job].rounds
            report = RoundReport(row.job, row.round, 0.5, None, last, at, "hash")
            sent.setdefault(f"server {row.job}", []).append(report)
    return sent


def play(
    ledger: Ledger, agenda: Agenda, sent: dict[str, list[Report]], draw: random.Random
) -> list[AnyEvent]:
    """Deliver in a random merge of the senders' orders; take events out at random moments."""
    events: list[AnyEvent] = []
    now = 0
    while sent:
        name = draw.choice(sorted(sent))
        report = sent[name].pop(0)
        if not sent[name]:
            del sent[name]
        now = max(now, report.end_ns if isinstance(report, CompEnded) else report.at_ns)
        agenda.advance(now)
        ledger.report(report)
        while draw.random() < 0.5 and (got := agenda.pop()):
            events += got
    while got := agenda.pop():
        events += got
    return events


def begun(run: Run, rows: list[Assignment]) -> tuple[Ledger, Agenda, State]:
    agenda = Agenda(JOBS)
    ledger = Ledger(JOBS, len(run.cluster.devices), agenda)
    ledger.begin(ClusterClock(0), "class")
    state = State(run, virtual(JOBS, len(run.cluster.devices))[1])
    state.adopt_plan()
    for seq, row in enumerate(rows, start=1):
        ledger.assigned(seq, row)
        state.assign(row)
    return ledger, agenda, state


@given(st.integers(0, 10**9), st.integers(1, 4))
def test_any_order_of_reports_gives_events_in_causal_order(seed: int, devices: int) -> None:
    draw = random.Random(seed)
    run, _ = virtual(JOBS, devices)
    rows = shuffled(run, seed)
    ledger, agenda, state = begun(run, rows)
    sent = true_reports(run, rows, draw)
    stamps = sorted(_stamps(sent))
    events = play(ledger, agenda, sent, draw)
    for event in events:
        state.apply(event)  # raises InvalidTransition where the order is wrong
    assert state.done_J.all()
    assert Counter(type(event) for event in events) == {
        JobArrived: len(JOBS),
        CompDone: len(rows),
        TasksDone: len(rows),
        RoundsDone: sum(one.rounds or 0 for one in JOBS),
        ParamsSaved: len(JOBS),
    }
    assert ledger.stuck()
    _check_rows(events, devices)
    done = of(events, TasksDone)
    assert stamps == sorted((one.start_ns, one.comp_end_ns, one.end_ns) for one in done)


def _stamps(sent: dict[str, list[Report]]) -> Iterator[tuple[int, int, int]]:
    """When each task really started, ended its COMP and its synchronisation."""
    syncs = {
        (one.seq, one.shard): one.at_ns
        for reports in sent.values()
        for one in reports
        if isinstance(one, SyncEnded)
    }
    for reports in sent.values():
        for one in reports:
            if isinstance(one, CompEnded):
                yield one.start_ns, one.end_ns, syncs[one.seq, one.shard]


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
    draw = random.Random(seed)
    run, _ = virtual(JOBS, 2)
    rows = shuffled(run, seed)
    ledger, agenda, state = begun(run, rows)
    sent = true_reports(run, rows, draw)
    early = {name: reports[: draw.randint(0, len(reports))] for name, reports in sent.items()}
    late = {name: sent[name][len(early[name]) :] for name in sent}
    events = play(ledger, agenda, {k: list(v) for k, v in early.items() if v}, draw)
    if ledger.ended(1):
        return
    ledger.fail(1, "it broke", 60)
    rows_of = {seq: row.job for seq, row in enumerate(rows, start=1)}
    for name, reports in list(late.items()):
        late[name] = [r for r in reports if _job(r, rows_of) != 1 or draw.random() < 0.3]
    events += play(ledger, agenda, {k: v for k, v in late.items() if v}, draw)
    for event in events:
        state.apply(event)
    assert len(of(events, JobFailed)) == 1
    assert state.done_J.all()


def _job(report: Report, rows_of: dict[int, int]) -> int:
    return report.job if isinstance(report, RoundReport) else rows_of[report.seq]


def test_a_head_whose_round_was_never_assigned_is_stuck() -> None:
    run, _ = virtual(JOBS, 1)
    ledger, agenda, _ = begun(run, [])
    agenda.advance(100)
    while agenda.pop():
        pass
    ledger.assigned(1, Assignment(0, 0, 1, 1, (0,)))
    assert ledger.stuck()


def test_a_stretch_is_one_row_and_each_of_its_rounds_is_reported() -> None:
    jobs: tuple[Job, ...] = (job(0, scale=1, rounds=3),)
    agenda = Agenda(jobs)
    ledger = Ledger(jobs, 1, agenda)
    ledger.begin(ClusterClock(0), "class")
    ledger.assigned(1, Assignment(0, 0, 0, 3, (0,)))
    agenda.advance(0)
    for number in range(3):
        at = 10 * number
        ledger.report(CompEnded(1, number, 0, at, at + 5, False))
        ledger.report(SyncEnded(1, number, 0, at + 6))
        ledger.report(RoundReport(0, number, 1.0, None, number == 2, at + 7))
    events: list[AnyEvent] = []
    while got := agenda.pop():
        events += got
    assert of(events, TasksDone) == [TasksDone(26, 0, 0, 3, (0,), 0, 0, 25, 15, 26)]
    assert [event.round for event in of(events, RoundsDone)] == [0, 1, 2]


def test_a_stop_inside_a_stretch_keeps_the_rounds_that_ran() -> None:
    jobs: tuple[Job, ...] = (job(0, scale=1, rounds=9),)
    agenda = Agenda(jobs)
    ledger = Ledger(jobs, 1, agenda)
    ledger.begin(ClusterClock(0), "class")
    ledger.assigned(1, Assignment(0, 0, 0, 9, (0,)))
    run, costs = virtual(jobs, 1)
    state = State(run, costs)
    agenda.advance(0)
    state.adopt_plan()
    state.assign(Assignment(0, 0, 0, 9, (0,)))
    for number in range(2):
        at = 10 * number
        ledger.report(CompEnded(1, number, 0, at, at + 5, False))
        ledger.report(SyncEnded(1, number, 0, at + 6))
        ledger.report(RoundReport(0, number, 1.0, None, number == 1, at + 7, "hash"))
    events: list[AnyEvent] = []
    while got := agenda.pop():
        events += got
    for event in events:
        state.apply(event)
    assert of(events, TasksDone) == [TasksDone(16, 0, 0, 2, (0,), 0, 0, 15, 10, 16)]
    assert state.done_J.all()
    assert not state.queues[0]
    assert not state.syncing[0]
