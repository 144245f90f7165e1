"""The charts of a run's page: what a reader sees of jobs, devices and curves."""

import re
from dataclasses import replace

import numpy as np
from report_world import MS, record_of

from warren.model.job import Workload
from warren.model.timeline import Timeline
from warren.report.page.page import page
from warren.report.page.waits import MOST_JOBS

S = 1000 * MS


def run_of(rows, arrivals_s, names=None, **more):
    """A record whose tasks are these (job, device, start s, end s); other jobs never run."""
    record = record_of(jobs=len(arrivals_s), names=names, **more)
    jobs = tuple(
        replace(job, arrival_ns=arrival * S)
        for job, arrival in zip(record.run.workload.jobs, arrivals_s, strict=True)
    )
    job, device, start, end = (np.array(one, dtype=float) for one in zip(*rows, strict=True))
    start, end = (start * S).astype(np.int64), (end * S).astype(np.int64)
    job, device = job.astype(np.int64), device.astype(np.int64)
    ones = np.ones(len(rows), np.int64)
    line = Timeline.from_columns(
        [job, ones * 0, ones, ones * 0, ones, device, start, end, end, end - start]
    )
    finish = np.full(len(jobs), -1, np.int64)
    np.maximum.at(finish, job, end)
    return replace(
        record,
        run=replace(record.run, workload=Workload(jobs=jobs)),
        history=replace(record.history, timeline=line, finish_ns_J=finish),
    )


def chart(text, title):
    """The part of a page from this heading to the next."""
    return re.split(r"<h[23]>", text.split(f">{title}</h", 1)[1])[0]


def boxes(path):
    """Boxes (x, width, height) of a path."""
    return [
        (float(x), float(width), float(height))
        for x, width, height in re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v([\d.]+)h", path)
    ]


def paths(html):
    """(class, job, d) of the paths that stand for jobs."""
    return re.findall(r'<path class="([^"]*)" data-j="(\d+)"[^>]* d="([^"]*)"', html)


def test_jobs_over_time_is_the_first_chart_with_a_row_a_job_in_order_of_arrival():
    rows = [(0, 0, 20, 60), (1, 0, 0, 20), (2, 1, 30, 100)]
    text = page(run_of(rows, [10, 0, 20], ["late", "first", "last"]))
    assert text.index("<h2>Jobs over time</h2>") < text.index("<h2>Schedule by device</h2>")
    assert text.index("<svg") > text.index("<h2>Jobs over time</h2>")
    labels = re.findall(
        r"top:(\d+)px;height:\d+px\" title=\"(\w+)\"", chart(text, "Jobs over time")
    )
    assert labels == [("0", "first"), ("22", "late"), ("44", "last")]


def test_a_job_waits_in_gray_runs_in_its_color_and_merges_short_pauses():
    # Two devices overlap, a pause of 0.2 s is none, one of 40 s is a wait in gray.
    rows = [(0, 0, 10, 20), (0, 1, 15, 30), (0, 0, 30.2, 40), (0, 0, 80, 100)]
    html = chart(page(run_of(rows, [0])), "Jobs over time")
    found = {colour: boxes(path) for colour, job, path in paths(html)}
    assert found["wait b"] == [(0.0, 1000.0, 9.0)]
    assert found["b c0"] == [(100.0, 300.0, 18.0), (800.0, 200.0, 18.0)]
    assert re.search(r'class="arrival" d="M0 1v20"', html)
    assert re.search(r'class="end" d="M1000 1v20"', html)
    assert "Pauses up to 400 ms count as running." in html
    for chip in ("arrival", "waiting", "running, in the job&#39;s color", "end"):
        assert f"<span>{chip}</span>" in html


def test_a_job_that_never_ran_waits_to_the_end_of_the_chart_and_a_failed_one_is_marked():
    html = chart(page(run_of([(0, 0, 0, 50)], [0, 25])), "Jobs over time")
    assert [boxes(d) for colour, job, d in paths(html) if job == "1"] == [[(500.0, 500.0, 9.0)]]
    assert "end lost" not in html
    record = run_of([(0, 0, 0, 50), (1, 1, 25, 30)], [0, 25])
    history = replace(
        record.history, finish_ns_J=np.array([50 * S, -1]), failed={1: "out of memory"}
    )
    html = chart(page(replace(record, history=history)), "Jobs over time")
    assert re.search(r'class="end lost" d="M600 \d+v20"', html)
    assert "<span>failed or cancelled</span>" in html


def test_of_many_jobs_those_that_waited_longest_have_rows_and_the_rest_are_counted():
    many = MOST_JOBS + 7
    # Each job waits longer than the one before it.
    rows = [(job, 0, 10 * job, 10 * job + 10) for job in range(many)]
    html = chart(page(run_of(rows, [0] * many)), "Jobs over time")
    assert html.count('class="dev"') == MOST_JOBS
    assert "job-06" not in html
    assert "job-07" in html
    assert f"The {MOST_JOBS} jobs that waited longest are shown; 7 are left out." in html


def test_the_charts_of_losses_and_of_devices_by_job_name_their_lines():
    text = page(record_of(world="live"))
    for title in ("Loss", "Devices computing, by job"):
        named = re.findall(r'<li data-k="(\w+)"[^>]*><i class="(\w+)">', chart(text, title))
        assert named == [(f"j{k}", f"c{k}") for k in range(8)], title


def test_a_chart_names_only_the_models_that_it_draws():
    record = record_of(world="live", jobs=60)
    models = [job.model for job in record.run.workload.jobs]
    lost = [event for event in record.history.rounds if models[event.job] == "bert"]
    html = chart(page(replace(record, history=replace(record.history, rounds=lost))), "Loss")
    assert re.findall(r"<span>(\w+)</span></li>", html) == ["bert"]


def alternating(count, jobs=2, devices=1):
    """Rows of jobs that take turns on each device for 100 s, ``count`` turns on each."""
    length = 100 / count
    return [
        (turn % jobs, device, turn * length, (turn + 1) * length)
        for device in range(devices)
        for turn in range(count)
    ]


def test_ten_thousand_short_tasks_are_shares_of_time_and_not_a_comb():
    html = chart(page(run_of(alternating(2500, devices=4), [0, 0])), "Schedule by device")
    found = {int(job): boxes(path) for _, job, path in paths(html)}
    assert {len(found[0]), len(found[1])} == {4 * 60}
    for drawn in found.values():
        # Half of each column, which is as high as the row of 26 px less its gap.
        assert all(11.8 <= height <= 12.2 for *_, height in drawn)
    assert "jobs stand on each other, each as high as its share of the time." in html


def test_shares_of_jobs_in_a_column_are_as_their_time():
    # Job 0 computes 30 %, job 1 half of the time; a fifth is idle.
    rows = [
        row
        for turn in range(500)
        for row in ((0, 0, turn / 5, turn / 5 + 0.06), (1, 0, turn / 5 + 0.06, turn / 5 + 0.16))
    ]
    html = chart(page(run_of(rows, [0, 0])), "Schedule by device")
    found = {int(job): boxes(path) for _, job, path in paths(html)}
    area = {job: sum(w * h for _, w, h in drawn) / 1000 / 24 for job, drawn in found.items()}
    assert abs(area[0] - 0.3) < 0.02
    assert abs(area[1] - 0.5) < 0.03


def test_tasks_that_can_be_seen_are_drawn_one_by_one_beside_a_crowd():
    rows = [*alternating(1000), (0, 1, 0, 40), (1, 1, 60, 100)]
    html = chart(page(run_of(rows, [0, 0])), "Schedule by device")
    whole = [box for _, _, path in paths(html) for box in boxes(path) if box[2] == 24.0]
    assert whole == [(0.0, 400.0, 24.0), (600.0, 400.0, 24.0)]
    html = chart(page(run_of(alternating(40), [0, 0])), "Schedule by device")
    assert "stand on each other" not in html


def test_a_column_stacks_models_where_jobs_have_the_colors_of_models():
    record = run_of(alternating(2000, jobs=40), [0] * 40)
    models = {job.model for job in record.run.workload.jobs}
    html = chart(page(record), "Schedule by device")
    columns = {}
    for _, _, path in paths(html):
        for x, *_ in boxes(path):
            columns[x] = columns.get(x, 0) + 1
    assert set(columns.values()) == {len(models)}
    assert "models stand on each other" in html
    assert "Grey" not in html


def test_jobs_beyond_what_a_column_can_show_are_one_gray_box():
    record = run_of(alternating(2000, jobs=20), [0] * 20)
    html = chart(page(record), "Schedule by device")
    grey = boxes(re.search(r'<path class="b rest" d="([^"]*)"', html).group(1))
    assert len(grey) == 60
    assert "Gray: the others together." in html


def test_a_figure_has_one_unit():
    # Alone, the mean would be in minutes, the median in seconds, p95 in hours.
    rows = [(0, 0, 0, 60), (1, 1, 0, 60), (2, 2, 0, 20_000)]
    text = page(run_of(rows, [0, 0, 0]))
    marks = re.findall(r">p(?:50|95) [\d.,]+ (\w+)</span>", text)
    axis = re.search(r"JCT, (\w+)", text).group(1)
    assert set(marks) == {axis}
    tile = re.search(r"mean JCT</div>(.*?)</div></div>", text, re.DOTALL).group(1)
    assert set(re.findall(r"[\d.,]+[ \u00a0](min|ms|s|h|d)\b", tile)) == {"min"}


def test_the_style_is_dark_on_dark_screens_light_on_paper_and_holds_the_first_column():
    css = page(record_of()).split("<style>")[1].split("</style>")[0]
    assert css.count("@media screen and (prefers-color-scheme:dark)") == 2
    assert css.count("prefers-color-scheme") == 2
    first = re.search(r"td:first-child, th:first-child \{([^}]*)\}", css).group(1)
    assert "position: sticky" in first
    assert "left: 0" in first
    assert "break-inside: avoid" in css.split("@media print")[1].split("}}")[0]
    dark = css.split("@media screen and (prefers-color-scheme:dark)")[2]
    assert dark.startswith("{.c10,.l10,")
