"""Where the time of tasks went: shares, the line on what to change, and the summary's keys."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report_world import record_of

from warren.cli.views.summary_text import summary_lines
from warren.live.phase_totals import PhaseTotals
from warren.live.transport.message import TaskStamp
from warren.live.transport.server_messages import RoundReport
from warren.model.cluster import Emulate
from warren.model.measured import PhaseTimes, added
from warren.model.units import NS_PER_S
from warren.report.metrics import summary, summary_text
from warren.report.page.page import page
from warren.report.phases import advice, tasks_per_s, times_of
from warren.runs.results import _phases

SLOW_INPUT = PhaseTimes(computing_ns=38 * NS_PER_S, data_ns=62 * NS_PER_S)


def test_shares_are_of_the_time_of_all_phases_and_there_are_none_without_time() -> None:
    times = added([SLOW_INPUT, PhaseTimes(stepping_ns=100 * NS_PER_S)])
    assert times.shares() == {
        "computing": 0.19, "data": 0.31, "copying": 0.0,
        "adding": 0.0, "stepping": 0.5, "controller": 0.0,
    }  # fmt: skip
    assert PhaseTimes().shares() == {}
    assert added([]) == PhaseTimes()


@pytest.mark.parametrize(
    ("workers", "processors", "wanted"),
    [
        # With 3 workers a batch takes one of them 3 tasks' time; computing is 0.38 of a task's.
        (3, 16, "workers: 8"),
        (3, 6, "workers: 6"),
        # Built by the trainer itself, a batch takes 62/38 of what a task computes.
        (0, 16, "workers: 2"),
        (6, 6, "all processors build it"),
        (None, 16, "let dataset() return tensors"),
    ],
)
def test_a_job_that_waits_for_data_is_reported_how_many_workers_feed_it(
    workers: int | None, processors: int, wanted: str
) -> None:
    line = advice(SLOW_INPUT, workers=workers, processors=processors)
    assert line is not None
    assert line.startswith("62 % of the time waits for data")
    assert wanted in line


def test_with_the_advised_workers_there_is_no_wait() -> None:
    """Against a count of tasks that end in a time, with one batch a worker at once."""
    build_s, compute_s = 7.3, 1.0
    for workers in range(1, 8):
        task_s = max(build_s / workers, compute_s)
        times = PhaseTimes(int(compute_s * 1e9), int((task_s - compute_s) * 1e9))
        line = advice(times, workers=workers, processors=64)
        if line is None:
            assert task_s - compute_s < 0.2 * task_s
            continue
        assert build_s / int(line.rsplit(" ", 1)[1]) <= compute_s


def test_only_long_waits_that_a_user_can_change_have_an_advice() -> None:
    assert advice(PhaseTimes(computing_ns=81, data_ns=19)) is None
    assert advice(PhaseTimes(computing_ns=10, adding_ns=50, stepping_ns=40)) is None
    assert advice(PhaseTimes()) is None
    waits = PhaseTimes(computing_ns=60, data_ns=10, controller_ns=30)
    assert advice(waits, grain=2) == "30 % of the time waits for the controller: grain: 20"
    assert advice(waits) == "30 % of the time waits for the controller"


def test_the_summary_and_its_text_and_page_have_speed_and_shares_and_a_folder_keeps_them() -> None:
    record = record_of(jobs=2, world="live")
    record = replace(record, phases={1: SLOW_INPUT})
    found = json.loads(summary_text(summary(record)))
    rows = found["phases"]
    assert [row["job"] for row in rows] == ["job-01"]
    assert (rows[0]["computing_s"], rows[0]["data_s"], rows[0]["adding_s"]) == (38.0, 62.0, 0.0)
    assert rows[0]["tasks_per_s"] == tasks_per_s(record, 1)
    line = record.history.timeline
    span_s = (line.end_ns_R.max() - line.start_ns_R.min()) / NS_PER_S
    assert found["tasks_per_s"] == pytest.approx(line.tasks_R.sum() / span_s)
    text = "\n".join(summary_lines(found))
    assert "tasks a second; computing 38.0 %, waiting for data 62.0 %" in text
    assert "job-01: 62 % of the time waits for data" in text
    assert "job-01: 62 % of the time waits for data" in page(record)
    assert "waiting for data" in page(record)
    assert _phases(found, record.run) == {1: SLOW_INPUT}
    assert _phases({"phases": [3, {"job": "another"}, {}]}, record.run) == {}


def test_a_simulation_has_no_such_keys() -> None:
    found = summary(record_of(jobs=2))
    assert not {"phases", "tasks_per_s"} & found.keys()


def test_odd_values_of_a_file_count_as_no_time() -> None:
    row = {"computing_s": "1", "data_s": 2.0, "copying_s": -1.0, "adding_s": 1e300}
    assert times_of(row) == PhaseTimes(data_ns=2 * NS_PER_S)


def test_reports_of_barriers_add_up_unless_times_are_emulated() -> None:
    cluster = record_of(jobs=1).run.cluster
    stamps = (TaskStamp(0, 10, 40, 50, 0, 12), TaskStamp(1, 10, 20, 50, 1, 99))
    report = RoundReport(3, 0, 0, 1.0, None, False, 50, stamps, phases=PhaseTimes(stepping_ns=7))
    totals = PhaseTotals(cluster)
    totals.add(report)
    totals.add(replace_phases(report))
    # A wait that is longer than all tasks were on COMP cannot be.
    assert totals == {3: PhaseTimes(computing_ns=0, data_ns=80, stepping_ns=7)}
    emulated = PhaseTotals(replace(cluster, emulate=Emulate(time_scale=1.0)))
    emulated.add(report)
    assert emulated == {}


def replace_phases(report: RoundReport) -> RoundReport:
    """The same report without times of its own."""
    return RoundReport(*(getattr(report, name) for name in report.__struct_fields__[:-1]))
