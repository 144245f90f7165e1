"""The page of a run whose bytes were counted: what passed its links, by job and by class."""

import re

import numpy as np
import pytest
from test_report_links import linked_record
from test_report_page import Tree

from warren.model.link_use import LinkUseRecorder
from warren.report.page import links
from warren.report.page.colours import colouring
from warren.report.page.links import MOST_BANDS, MOST_ROWS, STEPS, link_charts, link_table
from warren.report.page.page import page
from warren.report.page.svg import HEIGHT, Scale


def charts_of(record, low=0.0, high=60.0):
    colours = colouring(record.run.workload.jobs)
    return dict(link_charts(record, colours, Scale(low=low, high=high)))


def test_a_page_tells_what_passed_links_and_stays_whole():
    text = page(linked_record())
    told = " ".join(Tree(text).text)
    assert "Bytes on links" in told
    assert "All hosts send, by job" in told
    assert "All hosts send, by class" in told
    assert "nan" not in re.findall(r' d="([^"]*)"', text)


def test_a_run_without_counted_bytes_has_no_such_part():
    record = linked_record()
    for use in (None, LinkUseRecorder(3).use()):
        record.history.link_use = use
        assert "Bytes on links" not in page(record)


def test_a_run_of_one_class_has_no_charts_by_class():
    record = linked_record()
    recorder = LinkUseRecorder(3)
    recorder.add((0, 3), 1, 4, 0, 10**9, 1e6)
    record.history.link_use = recorder.use()
    assert list(charts_of(record)) == ["All hosts send, by job", "v100-0 up, by job",
                                       "t4-0 down, by job"]  # fmt: skip


def test_the_busiest_hosts_have_a_chart_each_of_their_busier_link():
    record = linked_record()
    recorder = LinkUseRecorder(3)
    recorder.add((0, 3), 1, 0, 0, 10**9, 2e6)
    recorder.add((1, 2), 1, 0, 0, 10**9, 1e6)
    recorder.add((4, 1), 1, 0, 0, 10**9, 3e6)
    record.history.link_use = recorder.use()
    # Bytes on v100-0: 2 MB up, 4 MB down; t4-0: 1 up, 2 down; k80-0: 3 up.
    assert [title.partition(",")[0] for title in charts_of(record)] == [
        "All hosts send", "v100-0 down", "k80-0 up", "t4-0 down",
    ]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), [(0.0, 60.0), (-5.0, 500.0), (0.0, 7.3)])
def test_steps_hold_all_bytes_of_the_time_that_is_shown(low, high):
    use = linked_record().history.link_use
    every = np.ones(len(use), dtype=bool)
    shown = links._passed(use, every, Scale(low=low, high=high)).sum() * (high - low) / STEPS
    bins = use.bin_R * use.bin_ns / 1e9
    within = np.clip((high - bins) / (use.bin_ns / 1e9), 0, 1)
    assert shown == pytest.approx((use.bytes_R * within).sum(), rel=1e-9)


def test_bands_end_where_the_link_is_full():
    record = linked_record()
    recorder = LinkUseRecorder(3)
    # A full link, of two jobs that share it.
    for job in (2, 3):
        recorder.add((0,), job, job, 0, 60 * 10**9, 60 * 10e9 / 8 / 2)
    record.history.link_use = recorder.use()
    chart = str(charts_of(record)["v100-0 up, by job"])
    tops = [
        min(float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path))
        for path in re.findall(r'<path class="c\d+"[^>]* d="([^"]*)"', chart)
    ]
    assert tops == pytest.approx([HEIGHT / 2, 0.0], abs=0.1)
    assert "100 % is 10 Gbit/s." in chart


def test_many_jobs_share_a_band_but_for_those_with_most_bytes():
    record = linked_record(jobs=20, rings=False)
    recorder = LinkUseRecorder(3)
    for job in range(20):
        recorder.add((0,), job, 0, 0, 10**9, 1e6 * (1 + job))
    record.history.link_use = recorder.use()
    chart = Tree(str(charts_of(record)["v100-0 up, by job"]))
    labels = [text for text in chart.text if text.startswith("job-") or "others" in text]
    assert labels == [f"job-{k:02d}" for k in range(20 - MOST_BANDS + 1, 20)] + ["9 others"]


def test_the_table_tells_bytes_and_classes_of_each_link_and_job():
    record = linked_record()
    recorder = LinkUseRecorder(3)
    recorder.add((0, 3), 1, 2, 0, 10**9, 3e6)
    recorder.add((0, 5), 1, 7, 0, 10**9, 1e6)
    recorder.add((0, 5), 2, 0, 0, 10**9, 4e6)
    record.history.link_use = recorder.use()
    text = Tree(str(link_table(record, colouring(record.run.workload.jobs)))).text
    cells = [one for one in text if one.strip()][6:]
    rows = [tuple(cells[at : at + 5]) for at in range(0, len(cells), 6)]
    assert sorted(rows) == sorted([
        ("v100-0 up", "job-01", "2, 7", "4", "50.0"),
        ("v100-0 up", "job-02", "0", "4", "50.0"),
        ("t4-0 down", "job-01", "2", "3", "100.0"),
        ("k80-0 down", "job-01", "7", "1", "20.0"),
        ("k80-0 down", "job-02", "0", "4", "80.0"),
    ])  # fmt: skip


def test_a_table_of_too_many_pairs_says_so():
    record = linked_record(jobs=40)
    recorder = LinkUseRecorder(3)
    for job in range(40):
        recorder.add((0, 1, 2), job, 0, 0, 10**9, 1e6 + job)
    record.history.link_use = recorder.use()
    tree = Tree(str(link_table(record, colouring(record.run.workload.jobs))))
    assert len([1 for tag, _ in tree.tags if tag == "tr"]) == 1 + MOST_ROWS
    assert any("100 of 120 pairs" in one for one in tree.text)
