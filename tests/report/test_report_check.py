"""A check finds each planted fault and none in a good run folder."""

import json
from dataclasses import replace

import numpy as np
import pytest
from report_files import edit_csv, edit_summary, files_of
from report_world import S, cluster_of, costs_of, record_of

from warren.model.timeline import Timeline
from warren.report.checks.check import check

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
    (lambda f: edit_summary(f, noise=None), "noise is not a mapping of names to numbers"),
    (lambda f: edit_summary(f, weighted_jct_s="x"), "weighted_jct_s is not a number"),
    (lambda f: edit_summary(f, time_scale=-1.0), "time_scale is not above 0"),
    (lambda f: edit_summary(f, world=[]), "world is not a text"),
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
    assert check(files) == []
