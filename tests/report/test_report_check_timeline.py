"""A check finds faults planted in the timeline, of whole runs and of stretches."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from report_files import double, drop, edit_summary, edit_timeline, files_of
from report_world import MS, S, record_of

from warren.core.journal_reader import History
from warren.model.timeline import Timeline
from warren.report.checks.check import check


def last_of_job(c, job):
    """The row of the job's last task."""
    mine = np.flatnonzero(c["job_R"] == job)
    return mine[np.argmax(c["round_R"][mine])]


def busiest_neighbours(c):
    """Two rows that follow each other on one device without a gap."""
    order = np.lexsort((c["start_ns_R"], c["device_R"]))
    for a, b in itertools.pairwise(order):
        if c["device_R"][a] == c["device_R"][b] and c["comp_end_ns_R"][a] == c["start_ns_R"][b]:
            return a, b
    raise AssertionError


def shift(c, row, by_ns):
    for name in ("start_ns_R", "comp_end_ns_R", "end_ns_R"):
        c[name][row] += by_ns


def overlapping_comp(c):
    shift(c, busiest_neighbours(c)[1], -60 * MS)


def before_arrival(c):
    for row in np.flatnonzero((c["job_R"] == 3) & (c["round_R"] == 0)):
        shift(c, row, -10_000 * S)


def broken_barrier(c):
    row = next(r for r in range(len(c["job_R"])) if c["round_R"][r] == 1)
    before = (c["job_R"] == c["job_R"][row]) & (c["round_R"] == 0)
    shift(c, row, int(c["end_ns_R"][before].max()) - 3 * MS - int(c["start_ns_R"][row]))


def missing_task(c):
    return drop(c, 5)


def duplicated_task(c):
    return double(c, 5)


def wrong_duration(c):
    row = last_of_job(c, 2)
    for name in ("comp_end_ns_R", "end_ns_R", "busy_ns_R"):
        c[name][row] -= 20 * MS


def wrong_busy(c):
    c["busy_ns_R"][4] -= 20 * MS


def long_sync(c):
    c["end_ns_R"][last_of_job(c, 2)] += 50 * MS


def task_after_finish(c):
    row = last_of_job(c, 2)
    c = double(c, row)
    c["round_R"][-1] += 1
    shift(c, len(c["job_R"]) - 1, 500 * S)
    return c


def skipped_round(c):
    keep = ~((c["job_R"] == 2) & (c["round_R"] == 1))
    return {name: column[keep] for name, column in c.items()}


def shard_out_of_range(c):
    c["shard_R"][0] = 99


def end_before_comp_end(c):
    c["end_ns_R"][3] = c["start_ns_R"][3] - 1


TIMELINE_FAULTS = [
    (overlapping_comp, "while another COMP is running"),
    (before_arrival, "before the job arrives"),
    (broken_barrier, "before the barrier"),
    (missing_task, "tasks done"),
    (duplicated_task, "counted twice"),
    (wrong_duration, "busy for"),
    (wrong_busy, "busy for"),
    (long_sync, "synchronization took"),
    (task_after_finish, "after the end of the job"),
    (task_after_finish, "after the finish of the job"),
    (skipped_round, "comes next"),
    (shard_out_of_range, "expected shards 0 to"),
    (end_before_comp_end, "start + busy <= COMP end <= end"),
]


@pytest.mark.parametrize(("plant", "message"), TIMELINE_FAULTS)
def test_a_fault_planted_in_the_timeline_is_found(plant, message):
    record = record_of()
    faults = check(edit_timeline(record, files_of(record), plant))
    assert any(message in str(fault) for fault in faults), [str(fault) for fault in faults]


@pytest.mark.parametrize("plant", [overlapping_comp, before_arrival, broken_barrier, missing_task,
                                   duplicated_task, wrong_duration, skipped_round])  # fmt: skip
def test_a_fault_beyond_clock_jitter_is_found_in_a_live_folder_too(plant):
    record = record_of(world="live")

    def far(c):
        if plant is broken_barrier:
            row = next(r for r in range(len(c["job_R"])) if c["round_R"][r] == 1)
            shift(c, row, -100 * MS)
            return None
        return plant(c)

    assert check(edit_timeline(record, files_of(record), far)) != []


def test_live_steps_may_be_longer_than_their_pad_and_never_shorter():
    rng = np.random.default_rng(5)
    longer = record_of(world="live", jitter=lambda: rng.uniform(0, 30))
    assert check(files_of(longer)) == []
    shorter = record_of(world="live", jitter=lambda: rng.uniform(-1, 30))
    assert check(files_of(shorter)) != []
    exact = record_of(world="simulation", jitter=lambda: rng.uniform(1, 30))
    assert check(files_of(exact)) != []


def test_overlapping_synchronizations_are_a_fault_with_lane_only():
    # T^s below T^c everywhere: only a task that follows at once can collide
    record = record_of(jobs=3, counts=(1,), network="constant", seed=2)
    costs = record.costs
    sync = costs.sync_ns_JT * 5
    line = record.history.timeline
    end = line.comp_end_ns_R + sync[line.job_R, 0]
    crowded = replace(
        record,
        costs=replace(costs, sync_ns_JT=sync),
        history=replace(record.history, timeline=replace(line, end_ns_R=end)),
    )
    files = files_of(crowded)
    text = "overlaps another one on the device's lane"
    assert not any(text in str(fault) for fault in check(files))
    assert any(text in str(fault) for fault in check(edit_summary(files, network="lane")))


def stretched(rounds, fault_ns=0):
    """One job of scale 2 on a V100 and a T4, all its rounds as one stretch, by the rules."""
    record = record_of(jobs=1, counts=(1, 1), bound_share=None)
    comp, sync = record.costs.comp_ns_JT[0], record.costs.sync_ns_JT[0]
    job = replace(record.run.workload.jobs[0], scale=2, rounds=rounds)
    pace = int((comp + sync).max())
    rows = [
        (0, 0, rounds, shard, rounds, shard, job.arrival_ns,
         job.arrival_ns + (rounds - 1) * pace + int(comp[shard]) - fault_ns,
         job.arrival_ns + (rounds - 1) * pace + int(comp[shard] + sync[shard]) - fault_ns,
         rounds * int(comp[shard]))
        for shard in (0, 1)
    ]  # fmt: skip
    history: History = record.history
    finish = np.array([max(row[8] for row in rows)])
    line = Timeline.from_columns(np.array(rows).T)
    run = replace(record.run, workload=replace(record.run.workload, jobs=(job,)))
    return replace(record, run=run, history=replace(history, timeline=line, finish_ns_J=finish))


def test_stretches_of_several_rounds_are_understood():
    assert check(files_of(stretched(7))) == []


def test_a_stretch_shorter_than_its_own_synchronizations_is_found():
    record = stretched(7)
    gap = int((record.costs.comp_ns_JT[0] + record.costs.sync_ns_JT[0]).max()) * 6
    assert check(files_of(stretched(7, fault_ns=gap))) != []


def test_many_faults_of_one_kind_are_counted_not_listed():
    record = record_of(jobs=8)

    def plant(c):
        c["busy_ns_R"] -= 20 * MS

    faults = check(edit_timeline(record, files_of(record), plant))
    busy = [fault for fault in faults if "busy for" in fault.what]
    assert len(busy) == 10
    assert "more like this" in busy[-1].what


def shortened(c, rows, by_ns):
    for row in rows:
        c["busy_ns_R"][row] -= by_ns
        c["start_ns_R"][row] += by_ns
