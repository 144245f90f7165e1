"""The HTML page: whole, self-contained, safe with any name, and small."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_world import MS, cluster_of, costs_of, jobs_of, record_of

from warren.core.journal_reader import TimedAnswers
from warren.model.decision import Decision, Group, Shape
from warren.model.events import ServersMoved
from warren.model.job import Workload
from warren.model.run import Run
from warren.model.timeline import Timeline
from warren.report.metrics import summary
from warren.report.number_text import seconds
from warren.report.page.answers import MOST_LINES, MOST_MARKS, answer_lines, answers_of
from warren.report.page.boxes import MOST_BOXES, boxes_of
from warren.report.page.colours import COLOURS, colouring
from warren.report.page.fill import escaped
from warren.report.page.head import tiles
from warren.report.page.page import page
from warren.report.page.svg import HEIGHT, Scale, ticks
from warren.report.page.use import BINS, busy_share, jobs_over_time

VOID = {"meta", "br", "link", "input"}


class Tree(HTMLParser):
    """Checks nesting and gathers tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


PAGES = {
    "simulation": lambda: page(record_of(jobs=12)),
    "live": lambda: page(record_of(world="live", failed=(1,))),
    "nothing done": lambda: page(record_of(jobs=2, failed=(0, 1), bound_share=None)),
    "compared": lambda: page([record_of(), record_of(world="live"), record_of(place="fifo")]),
}


def answered(name="job-00", **more):
    """A run whose jobs have got classes, a shape and a group."""
    decisions = [
        Decision(shapes={0: Shape((0,), (1, 0))}),
        Decision(groups=(Group((0, 1), (0, 1)),), classes={0: 3, 1: 1}),
        Decision(host_classes={(1, 0): 2}),
        Decision(groups=(), classes={0: 1}),
        *more.pop("decisions", ()),
    ]
    record = record_of(jobs=4, **more)
    first_ns = record.run.workload.jobs[0].arrival_ns
    jobs = tuple(
        replace(job, name=name) if job.index == 0 else job for job in record.run.workload.jobs
    )
    answers = [
        TimedAnswers(time_ns=first_ns + at * 100 * MS, decision=one)
        for at, one in enumerate(decisions)
    ]
    run = replace(record.run, workload=Workload(jobs=jobs))
    return replace(record, run=run, history=replace(record.history, answers=answers))


PAGES["answered"] = lambda: page(answered("</b> <i>"))


def tree_info(record):
    """What tooltips say."""
    text = page(record).split('<script type="application/json">')[1].split("</script>")[0]
    return json.loads(text)


def test_answers_are_reported_in_words_and_classes_marked_where_they_change():
    record = answered()
    hosts = [host.name for host in record.run.cluster.hosts]
    text = " ".join(Tree(page(record)).text)
    assert f"job-00: servers on {hosts[1]}, {hosts[0]}, workers on {hosts[0]}" in text
    assert f"job-00, job-01 share {hosts[0]}, {hosts[1]}; job-00: class 3; job-01: class 1" in text
    assert f"job-00: class 2 on {hosts[1]}" in text
    assert "no groups; job-00: class 1" in text
    marks = [attrs["title"] for _, attrs in Tree(page(record)).tags if attrs.get("class") == "kind"]
    assert marks == [
        "job-00: class 3",
        "job-01: class 1",
        f"job-00: class 2 on {hosts[1]}",
        "job-00: class 1",
        f"job-00: server on {hosts[1]}",
        f"job-00: server on {hosts[0]}",
    ]
    told = [said for name, said in tree_info(record)["jobs"] if name == "job-00"]
    assert told[0].endswith(f", class 3, 1, servers on {hosts[1]}, {hosts[0]}")
    assert "kind" not in [a.get("class") for _, a in Tree(page(record_of())).tags]
    assert "Shapes, groups" not in page(record_of())


def test_a_shape_that_was_void_is_reported_with_its_reason():
    record = answered(decisions=[Decision(shapes={0: Shape(None, (0, 0))})])
    last_ns = record.history.answers[-1].time_ns
    void = ServersMoved(last_ns + MS, 0, 1, 0, 0, (1, 0), (), "a new server ended")
    record = replace(record, history=replace(record.history, void_moves=[void]))
    lines = answer_lines(record)
    assert lines[-1][1] == "job-00: servers stay where they were, a new server ended"
    hosts = [host.name for host in record.run.cluster.hosts]
    assert answers_of(record, 0)[-1] == f"servers on {hosts[1]}, {hosts[0]}"


def test_many_answers_are_cut_short():
    many = [Decision(classes={0: 1 + at % 2}) for at in range(MOST_MARKS + 50)]
    tree = Tree(page(answered(decisions=many)))
    assert not [attrs for _, attrs in tree.tags if attrs.get("class") == "kind"]
    left = len(many) + 4 - MOST_LINES
    assert f"{left} more; the journal has all." in tree.text


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_well_nested_and_fetches_nothing(kind):
    text = PAGES[kind]()
    tree = Tree(text)
    assert not any({"src", "srcset"} & set(attrs) for _, attrs in tree.tags)
    links = [attrs["href"] for _, attrs in tree.tags if "href" in attrs]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert "nan" not in re.findall(r' d="([^"]*)"', text)


@pytest.mark.parametrize("kind", PAGES)
def test_all_coordinates_are_numbers(kind):
    for path in re.findall(r' d="([^"]*)"', PAGES[kind]()):
        assert re.fullmatch(r"[MLHVhvz0-9. \-]*", path), path[:80]


NASTY = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP--",
    "&lt;b&gt;",
    "\u202eabc\x00",
    "<!--",
]


@pytest.mark.parametrize("world", ["simulation", "live"])
def test_no_job_name_can_become_markup(world):
    record = record_of(jobs=6, world=world, names=NASTY, failed=(2,))
    plain = Tree(page(record_of(jobs=6, world=world, failed=(2,))))
    tree = Tree(page(record))
    count = lambda t: sorted(tag for tag, _ in t.tags)  # noqa: E731
    assert count(tree) == count(plain)
    assert not any(key.startswith("on") for _, attrs in tree.tags for key in attrs)
    shown = "".join(tree.text)
    assert NASTY[1] in shown
    assert "\x00" not in shown


def test_the_numbers_of_the_summary_stand_at_the_top():
    record = record_of()
    text = "".join(Tree(page(record)).text)
    found = summary(record)
    assert seconds(found["weighted_jct_s"]) in text
    assert "at most 25.0 % above optimal" in text
    assert "could save at most 20.0 % of its sum of weighted JCTs" in text
    assert "8 of 8" in text


def test_without_a_bound_the_page_says_why():
    text = "".join(Tree(page(record_of(bound_share=None))).text)
    assert "No lower bound is stated: no bound is known for this run." in text


def test_live_pages_draw_losses_and_reasons_of_failure():
    text = page(record_of(world="live", failed=(1,)))
    assert 'aria-label="loss of each job over time"' in text
    assert "out of luck" in text


def test_a_comparison_shows_each_run_and_the_prediction():
    text = page([record_of(), record_of(world="live"), record_of(place="fifo")])
    assert "3 runs side by side" in text
    assert text.count("<details") == 3
    assert "Predicted against live" in text


def test_colors_are_one_a_job_then_one_a_model():
    rng = np.random.default_rng(0)
    few = colouring(jobs_of(COLOURS, rng))
    assert len(set(few.class_J)) == COLOURS
    many = colouring(jobs_of(COLOURS + 1, rng))
    assert many.by == "model"
    assert len(set(many.class_J)) == len(many.legend) == 4


def test_many_jobs_of_one_model_are_distinguished_by_colors_in_turn():
    jobs = [replace(job, model="m") for job in jobs_of(2 * COLOURS, np.random.default_rng(0))]
    found = colouring(jobs)
    assert (found.by, found.legend) == ("job, in turn", ())
    assert len(set(found.class_J)) == COLOURS


def test_a_figure_too_wide_for_its_tile_is_set_smaller():
    shown = {"jobs": 23645, "finished": 23645, "weighted_jct_s": 5.52211920e12}
    found = tiles({**summary(record_of()), **shown})
    assert {one.value for one in found if one.is_long} == {"63,913,417 d", "23,645 of 23,645"}
    assert '<div class="value">' in page(record_of())


def test_headings_wrap_but_never_before_their_unit():
    text = page([record_of(), record_of(place="fifo")])
    assert "mean JCT\u00a0s</button>" in text
    assert " s</button>" not in text


def dense(rows, devices=40, jobs=60):
    """A crowded timeline: ``rows`` short tasks one after another on each device."""
    rng = np.random.default_rng(1)
    record = record_of(jobs=jobs, counts=(devices,))
    per = rows // devices
    comp = rng.integers(10, 300, (devices, per)) * MS
    start = np.cumsum(comp, axis=1) - comp
    flat = comp.ravel(), start.ravel(), np.repeat(np.arange(devices), per)
    ones, job = np.ones(devices * per, np.int64), rng.integers(0, jobs, devices * per)
    line = Timeline.from_columns(
        [job, ones * 0, ones, ones * 0, ones, flat[2], flat[1], flat[1] + flat[0],
         flat[1] + flat[0], flat[0]]
    )  # fmt: skip
    finish = np.zeros(jobs, np.int64)
    np.maximum.at(finish, line.job_R, line.end_ns_R)
    jobs_ = tuple(replace(job, arrival_ns=0) for job in record.run.workload.jobs)
    run: Run = replace(record.run, workload=Workload(jobs=jobs_))
    return replace(
        record, run=run, history=replace(record.history, timeline=line, finish_ns_J=finish)
    )


def test_a_job_that_was_taken_off_its_devices_waits_again():
    record = record_of(jobs=2)
    jobs = tuple(replace(job, arrival_ns=0) for job in record.run.workload.jobs)
    # Job 0 runs from 0 to 20 s on two devices, stops, and runs again from 60 to 100 s; job 1 waits
    # until 20 s and ends at 60 s.
    rows = [(0, 0, 10), (0, 5, 20), (1, 20, 60), (0, 60, 100)]
    job, start, end = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    start, end, ones = start * 1000 * MS, end * 1000 * MS, np.ones(4, np.int64)
    line = Timeline.from_columns(
        [job, ones * 0, ones, ones * 0, ones, ones * 0, start, end, end, end - start]
    )
    history = replace(record.history, timeline=line, finish_ns_J=np.array([100, 60]) * 1000 * MS)
    run = replace(record.run, workload=Workload(jobs=jobs))
    span_s = Scale(low=0.0, high=100.0)
    waiting, running = jobs_over_time(replace(record, run=run, history=history), span_s)
    at = [int(len(waiting) * second / 100) for second in (2, 12, 30, 50, 70, 99)]
    assert running[at].tolist() == [1, 1, 1, 1, 1, 1]
    assert waiting[at].tolist() == [1, 1, 1, 1, 0, 0]
    text = page(replace(record, run=run, history=history))
    assert "waiting: not running now</span>" in text


def test_labels_of_quantiles_stand_below_the_curve_in_rows_of_their_own():
    text = page(record_of(jobs=30))
    marks = re.findall(r'<span class="mark \w+" style="left:([\d.]+)%;top:(\d+)px">p(\d+)', text)
    assert [share for *_, share in marks] == ["50", "95"]
    assert [int(top) for _, top, _ in marks] == [HEIGHT - 18, HEIGHT - 38]


def test_a_name_without_room_for_all_of_it_is_hidden():
    names = ["a", "b" * 120]
    text = page(record_of(jobs=2, names=names))
    assert re.findall(r'<span class="(in[^"]*)" [^>]*>(\w)', text) == [("in", "a"), ("in cut", "b")]
    assert ".in.cut {" in text


def test_the_column_against_stands_behind_the_policy():
    records = [
        record_of(name=f"mix seed {seed}", seed=seed, place=place)
        for place in ("hare", "fifo")
        for seed in (1, 2)
    ]
    headings = re.findall(
        r'<th [^>]*><button type="button">([^<]*)<', page(records, against="hare")
    )
    assert headings[:3] == ["run", "place", "against hare"]
    assert headings.count("against hare") == 1


def test_half_a_million_tasks_stay_below_three_megabytes():
    text = page(dense(500_000, devices=160, jobs=200))
    assert len(text.encode()) < 3_000_000
    Tree(text)


def test_binned_boxes_cover_the_devices_as_the_tasks_do():
    record = dense(40_000)
    line = record.history.timeline
    span = Scale(low=0.0, high=float(line.end_ns_R.max()) / 1e9)
    boxes = boxes_of(record, span, 40)
    assert not boxes.exact
    assert len(boxes.job_B) <= MOST_BOXES
    covered = np.zeros(40)
    assert set(boxes.level_B.tolist()) <= {1, 2, 3, 4}
    np.add.at(covered, boxes.device_B, boxes.width_B / 1000 * span.high)
    busy = np.zeros(40)
    np.add.at(busy, line.device_R, line.busy_ns_R / 1e9)
    np.testing.assert_allclose(covered, busy, rtol=0.01)


def test_device_use_integrates_to_the_busy_time():
    record = record_of(jobs=10, counts=(3, 2))
    line = record.history.timeline
    span = Scale(low=0.0, high=float(line.end_ns_R.max()) / 1e9)
    total = sum(
        busy_share(record, kind, span).sum() / BINS * span.high * count
        for kind, count in enumerate((3, 2))
    )
    assert total == pytest.approx(line.busy_ns_R.sum() / 1e9, rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0, 7, False), (3, 3.01, False), (0.02, 900, True), (0, 1e9, False)]
)
def test_ticks_lie_inside_their_scale_and_differ(low, high, log):
    found = ticks(Scale(low=low, high=high, log=log))
    assert 2 <= len(found) <= 9
    assert all(-1e-9 <= tick.at <= 1 + 1e-9 for tick in found)
    assert len({tick.label for tick in found}) == len(found)


def test_escaped_text_has_nothing_that_ends_a_tag_or_attribute():
    assert not set("<>\"'") & set(escaped("<a href=\"x\" id='y'>"))


def test_a_cluster_of_a_thousand_devices_and_one_job_has_a_page():
    cluster = cluster_of((1000,))
    record = record_of(jobs=1)
    jobs = record.run.workload.jobs
    run = replace(record.run, cluster=cluster)
    costs = costs_of(jobs, cluster, np.random.default_rng(0))
    text = page(replace(record, run=run, costs=costs))
    assert "The first 320 of 1000 devices are shown." in text
