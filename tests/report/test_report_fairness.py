"""Slow-down, finish-time fairness and shares of users, against two jobs worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from report_files import edit_summary, files_of
from report_world import S, cluster_of, history_of, record_of

from warren.model.costs import CostTable
from warren.model.events import RoundsDone, TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler
from warren.model.units import NEVER_NS
from warren.report.checks.check import check
from warren.report.compare import columns_of, compare
from warren.report.fairness.slowdown import finished_jobs
from warren.report.fairness.users import user_shares
from warren.report.metrics import summary
from warren.report.page.page import page
from warren.report.record import Record
from warren.report.tables import users_csv
from warren.runs.results import result_files

# A V100 and a T4. Two tasks a round: one after the other on the V100 they take 2 x 1 s + 0.5 s,
# on both devices 3 s + 0.5 s. So job a, of three rounds, takes 7.5 s alone. Job b fits the T4 only:
# two rounds of 2 s take 4 s.
HALF = S // 2
A = Job(index=0, name="a", scale=2, rounds=3, arrival_ns=0, user="ana", weight=1.0, model="m")
B = Job(index=1, name="b", scale=1, rounds=2, arrival_ns=5 * S, user="bo", weight=1.0, model="m")


def two_jobs(**of_a):
    """Job a has a round each 5 s, to 15 s; job b ends at 25 s. Each device computes as said."""
    cluster = cluster_of((1, 1))
    costs = CostTable(
        comp_ns_JT=np.array([[S, 3 * S], [NEVER_NS, 2 * S]]),
        sync_ns_JT=np.array([[HALF, HALF], [NEVER_NS, 0]]),
        fits_JT=np.array([[True, True], [False, True]]),
    )
    done, rounds = [], []
    for at in range(3):
        begin, end = 5 * S * at, 5 * S * (at + 1)
        # The tasks compute from 2.5 s and 3.5 s before the end on, and synchronize to the end.
        done += [
            TasksDone(end - S, 0, at, 1, (0,), 0, end - S - S - HALF, end - S - HALF, S),
            TasksDone(end, 0, at, 1, (1,), 0, end - S - HALF, end - HALF, S),
        ]
        assert begin <= end - S - S - HALF
        rounds.append(RoundsDone(end, 0, at, 1, at == 2))
    for at in range(2):
        end = (20 + 5 * at) * S
        done.append(TasksDone(end, 1, at, 1, (0,), 1, end - 2 * S, end, 2 * S))
        rounds.append(RoundsDone(end, 1, at, 1, at == 1))
    run = Run(
        name="two",
        cluster=cluster,
        workload=Workload(jobs=(replace(A, **of_a), B)),
        scheduler=Scheduler(place="fifo"),
    )
    history = history_of(run, "simulation", (), done, rounds)
    return Record(run=run, history=history, costs=costs)


def test_slow_down_is_jct_over_the_time_alone_on_the_fastest_devices():
    record = two_jobs()
    # 15 s / 7.5 s, and (25 s - 5 s) / 4 s.
    assert finished_jobs(record).slowdown_J.tolist() == [2.0, 5.0]
    assert summary(record)["mean_slowdown"] == 3.5


def test_the_tasks_of_a_ring_are_alone_on_devices_of_their_own():
    # Three rounds of 3 s + 0.5 s, as the T4 sets the pace: 15 s / 10.5 s.
    (first, _) = finished_jobs(two_jobs(sync="ring")).slowdown_J
    assert first == pytest.approx(15 / 10.5, rel=1e-12)
    assert np.isnan(finished_jobs(two_jobs(sync="ring", scale=3)).slowdown_J[0])


def test_finish_time_fairness_is_against_one_nth_of_the_cluster_n_jobs_in_the_mean():
    record = two_jobs()
    # Job a is there for 15 s, 10 of them beside b: N = 25 / 15. Job b: N = (20 + 10) / 20.
    want = [15 / (7.5 * 25 / 15), 20 / (4 * 1.5)]
    assert finished_jobs(record).finish_time_fairness_J.tolist() == pytest.approx(want)
    assert summary(record)["max_finish_time_fairness"] == pytest.approx(10 / 3)


def test_without_the_costs_of_all_jobs_that_finished_no_slow_down_is_stated():
    record = two_jobs()
    never = np.full((2, 2), NEVER_NS)
    never[0] = record.costs.comp_ns_JT[0]
    costs = CostTable(comp_ns_JT=never, sync_ns_JT=never, fits_JT=never < NEVER_NS)
    found = summary(replace(record, costs=costs))
    assert found["mean_slowdown"] is found["max_finish_time_fairness"] is None
    assert "slow-down" not in [column.heading for column in columns_of(compare([found]))]
    assert "from arrival to first task<" in page(replace(record, costs=costs))


def test_each_user_has_a_share_of_the_device_time_and_a_mean_jct():
    ana, bo = user_shares(two_jobs())
    # Six tasks of 1 s, and two of 2 s.
    assert (ana.user, ana.jobs, ana.finished, ana.device_s, ana.device_share) == (
        "ana", 1, 1, 6.0, 0.6,
    )  # fmt: skip
    assert (bo.device_s, bo.device_share, bo.mean_jct_s) == (4.0, 0.4, 20.0)
    assert (ana.mean_jct_s, ana.mean_slowdown, bo.mean_slowdown) == (15.0, 2.0, 5.0)
    assert bo.max_finish_time_fairness == pytest.approx(10 / 3)


def test_figures_by_user_are_in_the_summary_and_in_a_table_where_jobs_have_users():
    record = two_jobs()
    ana, bo = summary(record)["users"]
    assert (ana["user"], ana["device_s"], ana["mean_slowdown"]) == ("ana", 6.0, 2.0)
    lines = users_csv(record).splitlines()
    assert lines[0].split(",") == list(ana)
    assert lines[1:] == [",".join(map(str, row.values())) for row in (ana, bo)]
    assert "users.csv" in result_files(record)
    jobs = tuple(replace(job, user="") for job in record.run.workload.jobs)
    alone = replace(record, run=replace(record.run, workload=Workload(jobs=jobs)))
    assert "users" not in summary(alone)
    assert "users.csv" not in result_files(alone)


def test_users_are_on_the_page_where_jobs_have_any():
    record = two_jobs()
    text = page(record)
    assert "<h2>Users</h2>" in text
    assert "60.0" in text.split("<h2>Users</h2>")[1].split("<h2>Jobs</h2>")[0]
    assert "from arrival to first task; slow-down 3.50<" in text
    jobs = tuple(replace(job, user="") for job in record.run.workload.jobs)
    alone = replace(record, run=replace(record.run, workload=Workload(jobs=jobs)))
    assert "<h2>Users</h2>" not in page(alone)


def test_users_whose_jobs_did_not_finish_have_device_time_and_no_jct():
    record = two_jobs()
    finish = record.history.finish_ns_J.copy()
    finish[1] = -1
    _, bo = user_shares(replace(record, history=replace(record.history, finish_ns_J=finish)))
    assert (bo.finished, bo.device_s, bo.mean_jct_s, bo.mean_slowdown) == (0, 4.0, None, None)


@pytest.mark.parametrize("key", ["mean_slowdown", "max_finish_time_fairness"])
def test_the_check_derives_slow_down_and_fairness_again(key):
    files = files_of(two_jobs())
    assert check(files) == []
    value = json.loads(files["summary.json"])[key]
    (fault,) = check(edit_summary(files, **{key: value * 1.001}))
    assert fault.place == f"summary.json {key}"
    # A folder that an earlier version wrote has neither.
    found = json.loads(files["summary.json"])
    del found[key]
    assert check(files | {"summary.json": json.dumps(found).encode()}) == []


@pytest.mark.parametrize("seed", range(4))
def test_no_job_is_faster_than_alone_and_the_means_over_users_give_that_over_jobs(seed):
    record = record_of(jobs=9, seed=seed)
    assert finished_jobs(record).slowdown_J.min() >= 1
    shares = user_shares(record)
    assert sum(one.device_share for one in shares) == pytest.approx(1.0)
    mean = sum(one.finished * one.mean_slowdown for one in shares) / 9
    assert summary(record)["mean_slowdown"] == pytest.approx(mean)


def test_the_number_of_jobs_that_share_is_their_overlap_over_the_jct():
    jobs = finished_jobs(record_of(jobs=9, seed=5))
    arrival, finish = jobs.arrival_ns_J.tolist(), jobs.finish_ns_J.tolist()
    for at, (begin, end) in enumerate(zip(arrival, finish, strict=True)):
        overlap = sum(
            max(0, min(end, other_end) - max(begin, other))
            for other, other_end in zip(arrival, finish, strict=True)
        )
        want = jobs.slowdown_J[at] * (end - begin) / overlap
        assert jobs.finish_time_fairness_J[at] == pytest.approx(want)
