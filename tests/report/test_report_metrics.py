"""summary.json and the rows of jobs.csv."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from report_world import record_of, with_bound

from warren.report.metrics import job_rows, summary, summary_text
from warren.report.overruns import needed_time_scale

CONTRACT = [
    "run", "scheduler", "grain", "jobs", "finished", "failed", "tasks", "weighted_jct_s",
    "mean_jct_s", "p50_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s", "utilization",
    "lower_bound", "gap", "decide_s", "wall_s",
]  # fmt: skip


def rows_by_hand(record):
    """JCT and weight of finished jobs straight from the history, in exact integers."""
    jobs = record.run.workload.jobs
    done = [j for j in jobs if record.history.finish_ns_J[j.index] >= 0]
    return done, [int(record.history.finish_ns_J[j.index]) - j.arrival_ns for j in done]


def linear_percentile(values, q):
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


@pytest.mark.parametrize("world", ["simulation", "live"])
@pytest.mark.parametrize("bound_share", [0.8, None])
def test_summary_opens_with_the_keys_of_the_contract_in_their_order(world, bound_share):
    got = summary(record_of(world=world, bound_share=bound_share))
    assert list(got)[: len(CONTRACT)] == CONTRACT


def test_metrics_equal_a_computation_by_hand():
    record = record_of(jobs=11, seed=4)
    got = summary(record)
    done, jct_ns = rows_by_hand(record)
    weighted_ns = sum(int(job.weight) * jct for job, jct in zip(done, jct_ns, strict=True))
    assert got["weighted_jct_s"] == pytest.approx(weighted_ns / 1e9, rel=1e-12)
    assert got["mean_jct_s"] == pytest.approx(statistics.mean(jct_ns) / 1e9, rel=1e-12)
    for q in (50, 95, 99):
        want = linear_percentile(jct_ns, q) / 1e9
        assert got[f"p{q}_jct_s"] == pytest.approx(want, rel=1e-12)
    last = max(int(end) for end in record.history.timeline.end_ns_R)
    first = min(job.arrival_ns for job in record.run.workload.jobs)
    assert got["makespan_s"] == (last - first) / 1e9
    busy = sum(int(b) for b in record.history.timeline.busy_ns_R)
    assert got["utilization"] == pytest.approx(busy / (5 * (last - first)), rel=1e-12)
    assert got["tasks"] == sum(job.scale * job.rounds for job in record.run.workload.jobs)


def test_utilization_by_type_averages_to_the_whole():
    record = record_of(jobs=10, counts=(3, 2))
    got = summary(record)
    by_type = got["utilization_by_type"]
    mean = (3 * by_type["V100"] + 2 * by_type["T4"]) / 5
    assert mean == pytest.approx(got["utilization"], rel=1e-12)


def test_metrics_cover_finished_jobs_with_failed_beside_them():
    record = record_of(jobs=6, failed=(1, 4))
    got = summary(record)
    assert (got["jobs"], got["finished"], got["failed"], got["unfinished"]) == (6, 4, 2, 0)
    _, jct_ns = rows_by_hand(record)
    assert len(jct_ns) == 4
    assert got["mean_jct_s"] == pytest.approx(sum(jct_ns) / 4e9)
    assert got["gap"] is None
    assert got["gap_reason"] == "2 jobs did not finish"
    assert got["lower_bound"] is not None
    assert got["utilization"] < 1


def test_gap_is_value_over_bound_minus_one():
    got = summary(record_of(bound_share=0.8))
    assert got["gap"]["weighted_jct"] == pytest.approx(0.25)
    assert got["gap"]["makespan"] == pytest.approx(0.25)
    assert got["lower_bound_by"] == {"weighted_jct": "interval LP", "makespan": "critical path"}
    assert list(got["lower_bound"]) == ["weighted_jct_s", "makespan_s"]


def test_without_a_bound_bound_and_gap_are_null_with_a_reason():
    got = summary(with_bound(record_of(), None))
    assert got["lower_bound"] is None
    assert got["gap"] is None
    assert got["lower_bound_reason"]
    assert got["gap_reason"]


def test_a_run_in_which_nothing_finished_has_null_metrics():
    record = record_of(jobs=2, failed=(0, 1), bound_share=None)
    got = summary(record)
    assert got["finished"] == 0
    assert got["weighted_jct_s"] is None
    assert got["makespan_s"] is None
    assert all(row["finish_s"] is None and row["status"] == "failed" for row in job_rows(record))


def test_summary_is_plain_json():
    got = summary(record_of(world="live"))
    assert json.loads(summary_text(got)) == got
    assert got["numerics"] == ["cpu-avx2"]
    assert got["time_scale"] == 0.05
    assert summary_text([got, got]).count('"run"') == 2


def test_measured_figures_are_copied_and_unknown_ones_are_null():
    from dataclasses import replace

    record = replace(record_of(), extra={"wall_s": 3.0, "moves": 17})
    got = summary(record)
    assert (got["decide_s"], got["wall_s"], got["overruns"], got["moves"]) == (None, 3.0, None, 17)


def test_job_rows_start_at_the_first_task_and_end_at_the_last_barrier():
    record = record_of(jobs=7, seed=9)
    timeline = record.history.timeline
    for row, job in zip(job_rows(record), record.run.workload.jobs, strict=True):
        mine = timeline.job_R == job.index
        assert row["start_s"] == int(timeline.start_ns_R[mine].min()) / 1e9
        assert row["finish_s"] == int(timeline.end_ns_R[mine].max()) / 1e9
        assert row["jct_s"] == pytest.approx(row["finish_s"] - row["arrival_s"])
        assert row["rounds"] == job.rounds


def test_a_job_that_stopped_early_reports_the_rounds_it_ran():
    from dataclasses import replace

    record = record_of(jobs=3)
    jobs = tuple(replace(job, rounds=job.rounds + 5) for job in record.run.workload.jobs)
    longer = replace(record.run, workload=replace(record.run.workload, jobs=jobs))
    rows = job_rows(replace(record, run=longer))
    assert [row["rounds"] for row in rows] == [job.rounds for job in record.run.workload.jobs]


def test_live_rows_carry_hash_loss_and_numerics():
    record = record_of(jobs=3, world="live", failed=(2,))
    rows = job_rows(record)
    assert rows[0]["params_sha256"] == "0" * 64
    assert rows[0]["numerics"] == "cpu-avx2"
    assert np.isfinite(rows[0]["final_loss"])
    assert rows[2]["params_sha256"] is None
    assert "params_sha256" not in job_rows(record_of(jobs=3))[0]


def test_the_time_scale_that_tasks_need_is_that_of_all_but_a_share_of_them():
    record = record_of(world="live")
    timeline = record.history.timeline
    factor_R = np.linspace(1.0, 3.0, len(timeline.job_R))
    slow = replace(timeline, busy_ns_R=(timeline.busy_ns_R * factor_R).astype(np.int64))
    slow = replace(record, history=replace(record.history, timeline=slow))
    scale = record.run.cluster.emulate.time_scale
    assert needed_time_scale(record, 0.05) == pytest.approx(scale)
    for share in (0.0, 0.05, 0.5):
        needed = needed_time_scale(slow, share)
        assert np.mean(factor_R * scale > needed * (1 + 1e-6)) <= share
        assert np.mean(factor_R * scale > needed / 1.15) > share
    assert needed_time_scale(record_of(), 0.05) is None
