"""A check finds each planted fault and none in a good run folder."""

import itertools
import json
import time
from dataclasses import replace

import numpy as np
import pytest
from report_files import double, drop, edit_csv, edit_summary, edit_timeline, files_of
from report_world import MS, S, record_of

from warren.core.history import History
from warren.model.timeline import Timeline
from warren.report.check import check

WORLDS = [
    {"world": "simulation", "network": "constant"},
    {"world": "simulation", "network": "lane"},
    {"world": "simulation", "network": "constant", "tight": True, "counts": (3, 2, 2)},
    {"world": "simulation", "network": "constant", "failed": (1, 3)},
    {"world": "live", "network": "lane"},
    {"world": "live", "network": "constant", "failed": (0,)},
]


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_good_folder_has_no_faults(kind, seed):
    assert check(files_of(record_of(seed=seed, **kind))) == []


@pytest.mark.parametrize("bound_share", [1.0, None])
def test_a_tight_bound_or_none_is_no_fault(bound_share):
    assert check(files_of(record_of(bound_share=bound_share))) == []


def test_a_run_without_jobs_done_is_no_fault():
    record = record_of(jobs=3, failed=(0, 1, 2), bound_share=None)
    empty = replace(record.history, timeline=Timeline.from_events([]))
    assert check(files_of(replace(record, history=empty))) == []


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
    (long_sync, "synchronisation took"),
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


def test_live_steps_may_be_longer_than_their_pad_and_a_hair_shorter():
    rng = np.random.default_rng(5)
    longer = record_of(world="live", jitter=lambda: rng.uniform(-1, 30))
    assert check(files_of(longer)) == []
    exact = record_of(world="simulation", jitter=lambda: rng.uniform(1, 30))
    assert check(files_of(exact)) != []


def test_overlapping_synchronisations_are_a_fault_with_lane_only():
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


def cell(name, row, column, value):
    def plant(files):
        def change(rows):
            rows[row][rows[0].index(column)] = value

        return edit_csv(files, name, change)

    return plant


def renamed_types(files):
    def change(rows):
        for row in rows[1:]:
            row[1] = row[1].replace("T4", "T40")

    return edit_csv(files, "devices.csv", change)


def swapped_columns(files):
    def change(rows):
        for row in rows:
            row[2], row[3] = row[3], row[2]

    return edit_csv(files, "jobs.csv", change)


def swapped_values(files):
    def change(rows):
        for row in rows[1:]:
            row[2], row[3] = row[3], row[2]

    return edit_csv(files, "jobs.csv", change)


def twice(name):
    return lambda files: edit_csv(files, name, lambda rows: rows.append(list(rows[1])))


FILE_FAULTS = [
    (cell("jobs.csv", 2, "jct_s", "1.5"), "jct_s is 1.5"),
    (cell("jobs.csv", 2, "finish_s", "99999.0"), "finish_s is 99999.0"),
    (cell("jobs.csv", 2, "start_s", "0.125"), "start_s is 0.125"),
    (cell("jobs.csv", 2, "start_s", ""), "start_s is None"),
    (cell("jobs.csv", 2, "status", "failed"), "status failed with finish_s"),
    (cell("jobs.csv", 2, "status", "done"), "status done"),
    (cell("jobs.csv", 2, "rounds", "999"), "= scale x rounds"),
    (cell("jobs.csv", 2, "job", "ghost"), "unknown job job-01"),
    (cell("jobs.csv", 2, "weight", "77.0"), "summary.json weighted_jct_s"),
    (cell("jobs.csv", 2, "scale", "x"), "'x' is not a whole number"),
    (cell("jobs.csv", 2, "jct_s", "nan"), "is not finite"),
    (cell("jobs.csv", 2, "arrival_s", "1e20"), "outside the range of times"),
    (cell("devices.csv", 1, "device", "ghost"), "unknown device v100-0/V100-0"),
    (cell("profile.csv", 1, "comp_s", "0.001"), "by profile.csv"),
    (cell("profile.csv", 1, "job", "ghost"), "unknown job ghost"),
    (renamed_types, "which it does not fit"),
    (swapped_columns, "the columns must be"),
    (swapped_values, "start_s is"),
    (twice("jobs.csv"), "listed twice"),
    (twice("devices.csv"), "listed twice"),
    (lambda f: f | {"timeline.parquet": b"PAR1"}, "not a Parquet file"),
    (lambda f: f | {"summary.json": b"[]"}, "is not a JSON object"),
    (lambda f: f | {"summary.json": b"{"}, "summary.json"),
    (lambda f: {k: v for k, v in f.items() if k != "profile.csv"}, "profile.csv: is missing"),
    (lambda f: edit_summary(f, mean_jct_s=1.0), "summary.json mean_jct_s: is 1.0"),
    (lambda f: edit_summary(f, p95_jct_s=None), "summary.json p95_jct_s"),
    (lambda f: edit_summary(f, utilization=0.5), "summary.json utilization"),
    (lambda f: edit_summary(f, finished=7), "summary.json finished"),
    (lambda f: edit_summary(f, tasks=1), "summary.json tasks"),
    (lambda f: edit_summary(f, lower_bound={"makespan_s": "x"}), "mapping of names to numbers"),
    (lambda f: edit_summary(f, gap={"weighted_jct": 0.0, "makespan": 0.0}), "summary.json gap"),
    (lambda f: edit_summary(f, gap=None), "summary.json gap"),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "message"), FILE_FAULTS)
def test_a_fault_planted_in_a_file_is_found(plant, message):
    faults = [str(fault) for fault in check(plant(files_of(record_of())))]
    assert any(message in fault for fault in faults), faults
    assert all("\n" not in fault for fault in faults)


def test_an_unfinished_job_marked_finished_is_found():
    record = record_of(failed=(2,))
    files = files_of(record)
    last = record.history.timeline.end_ns_R[record.history.timeline.job_R == 2].max() / 1e9
    arrival = record.run.workload.jobs[2].arrival_ns / 1e9

    def change(rows):
        place = rows[0].index
        row = rows[3]
        row[place("status")] = "finished"
        row[place("finish_s")], row[place("jct_s")] = str(last), str(last - arrival)

    faults = [str(fault) for fault in check(edit_csv(files, "jobs.csv", change))]
    assert any("= scale x rounds" in fault for fault in faults)


def test_a_bound_above_its_value_is_found():
    files = files_of(record_of(bound_share=1.1))
    faults = [str(fault) for fault in check(files)]
    assert sum("lower_bound" in fault for fault in faults) == 2
    assert json.loads(files["summary.json"])["gap"]["makespan"] < 0


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


def test_a_stretch_shorter_than_its_own_synchronisations_is_found():
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


def test_a_million_rows_are_checked_in_a_few_seconds():
    record = record_of(jobs=30, counts=(8,), max_rounds=4)
    rounds, jobs = 8400, 120
    base = np.arange(rounds, dtype=np.int64)
    job_R = np.repeat(np.arange(jobs), rounds)
    start = np.tile(base * S, jobs)
    n = len(job_R)
    table = tuple(
        replace(record.run.workload.jobs[0], index=j, name=f"j{j}", scale=1, rounds=rounds,
                arrival_ns=0)
        for j in range(jobs)
    )  # fmt: skip
    from report_world import cluster_of, costs_of

    cluster = cluster_of((jobs,))
    costs = costs_of(table, cluster, np.random.default_rng(0))
    comp, sync = costs.comp_ns_JT[:, 0][job_R], costs.sync_ns_JT[:, 0][job_R]
    line = Timeline.from_columns(
        [job_R, np.tile(base, jobs), np.ones(n, np.int64), np.zeros(n, np.int64),
         np.ones(n, np.int64), job_R, start, start + comp, start + comp + sync, comp]
    )  # fmt: skip
    finish = np.zeros(jobs, np.int64)
    np.maximum.at(finish, line.job_R, line.end_ns_R)
    run = replace(record.run, cluster=cluster, workload=replace(record.run.workload, jobs=table))
    whole = replace(
        record,
        run=run,
        costs=costs,
        bound=None,
        history=replace(record.history, timeline=line, finish_ns_J=finish),
    )
    files = files_of(whole)
    began = time.perf_counter()
    assert check(files) == []
    assert time.perf_counter() - began < 15
