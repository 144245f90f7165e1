"""Runs side by side and predicted against live JCT."""

import re
from dataclasses import replace

import numpy as np
import pytest
from report_world import record_of

from warren.model.events import ParamsSaved
from warren.report.compare import compare, comparison_lines, error_line, jct_errors, means
from warren.report.metrics import summary
from warren.report.page.page import page
from warren.report.page.seeds import by_group, seeds_chart
from warren.report.same_params import agreement_line, same_params


def late(record, share):
    """The record with every finish late by ``share`` of its JCT."""
    arrival = np.array([job.arrival_ns for job in record.run.workload.jobs])
    finish = record.history.finish_ns_J
    later = np.where(finish >= 0, finish + (share * (finish - arrival)).astype(np.int64), finish)
    return replace(record, history=replace(record.history, finish_ns_J=later))


def test_rows_come_in_order_from_records_or_summaries_alike():
    one, two = record_of(seed=1), record_of(seed=2, place="fifo")
    rows = compare([one, two])
    assert [row["place"] for row in rows] == ["hare", "fifo"]
    assert rows == compare([summary(one), summary(two)])
    assert min(row["vs_best"] for row in rows) == 0.0


def test_a_live_run_of_the_plain_engine_is_of_the_policy_plain_whatever_its_file_says():
    def places(engine, world):
        record = record_of(world=world)
        cluster = replace(record.run.cluster, engine=engine)
        record = replace(record, run=replace(record.run, cluster=cluster))
        return summary(record)["scheduler"]["place"], compare([record])[0]["place"]

    assert places("plain", "live") == ("plain", "plain")
    assert places("plain", "sim") == places("local", "live") == ("hare", "hare")


def test_a_run_with_failed_jobs_is_never_the_best():
    whole, broken = record_of(), record_of(failed=(0, 1, 2), bound_share=None)
    rows = compare([whole, broken])
    assert rows[0]["vs_best"] == 0.0
    assert rows[1]["vs_best"] is None
    assert rows[1]["gap"] is None


def test_jct_error_of_a_prediction_is_mean_p95_and_max_of_the_jobs():
    live = record_of(world="live")
    simulated = late(record_of(), 0.1)
    (error,) = jct_errors([simulated, live])
    assert error["jobs"] == 8
    assert error["mean_error_pct"] == pytest.approx(10, abs=1e-3)
    assert error["max_error_pct"] == pytest.approx(10, abs=1e-3)
    assert error["bias_pct"] == pytest.approx(10, abs=1e-3)
    half = replace(
        simulated,
        history=replace(
            simulated.history,
            finish_ns_J=np.where(
                np.arange(8) < 4, live.history.finish_ns_J, simulated.history.finish_ns_J
            ),
        ),
    )
    (error,) = jct_errors([live, half])
    assert error["mean_error_pct"] == pytest.approx(5, abs=1e-3)


def test_jobs_unfinished_in_one_run_are_left_out_and_counted():
    live, simulated = record_of(world="live", failed=(3,)), record_of()
    (error,) = jct_errors([live, simulated])
    assert (error["jobs"], error["left_out"]) == (7, 1)


def test_jobs_that_stopped_early_live_are_named_beside_the_error():
    live = record_of(world="live")
    jobs = tuple(
        replace(job, rounds=job.rounds + 5) if job.index in (1, 4) else job
        for job in live.run.workload.jobs
    )
    early = replace(live, run=replace(live.run, workload=replace(live.run.workload, jobs=jobs)))
    (error,) = jct_errors([early, record_of()])
    assert error["stopped_early"] == ["job-01", "job-04"]
    assert error_line(error).endswith(" %; stopped early live: job-01, job-04")
    (error,) = jct_errors([live, record_of()])
    assert error["stopped_early"] == []
    assert error_line(error).endswith(" %")


def test_only_the_same_workload_and_policy_are_compared():
    live = record_of(world="live")
    others = [record_of(place="fifo"), record_of(seed=5), record_of(jobs=4)]
    assert jct_errors([live, *others]) == []
    assert jct_errors([live, live]) == []


def test_nothing_finished_is_a_sentence_not_a_crash():
    live, simulated = (
        record_of(jobs=2, world="live"),
        record_of(jobs=2, failed=(0, 1), bound_share=None),
    )
    (error,) = jct_errors([live, simulated])
    assert error["mean_error_pct"] is None
    assert comparison_lines(compare([live, simulated]), [error])[-1].endswith(
        "no job finished in both"
    )


@pytest.mark.parametrize(("overruns", "told"), [(0, False), (1, False), (500, True)])
def test_a_live_run_too_slow_for_its_emulated_times_says_so_beside_its_jct_error(overruns, told):
    live = replace(record_of(world="live"), extra={"overruns": overruns})
    tasks = summary(live)["tasks"]
    (error,) = jct_errors([live, record_of()])
    cause = f"{overruns:,} of {tasks:,} tasks took longer than their emulated time"
    assert (cause in error_line(error)) is told
    assert error["slow_machine"] == (cause if told else "")
    text = page([live, record_of()])
    assert (text.count(f"{cause} in {live.run.name}") == 1) is told
    assert ('<p class="banner">' in page(live)) is told
    assert 'class="banner"' not in page(record_of())


def test_lines_are_aligned_text():
    rows = compare([record_of(), record_of(name="a much longer name")])
    lines = comparison_lines(rows)
    assert len(lines) == 3
    assert len({line.index("hare") for line in lines[1:]}) == 1


def hashed(name, hashes, apps=None, **more):
    """A live record whose jobs ended with these hashes; None: did not finish; ``apps``: theirs."""
    record = record_of(name=name, world="live", jobs=len(hashes), **more)
    saved = {
        job: ParamsSaved(1, job, sha256, "one class")
        for job, sha256 in enumerate(hashes)
        if sha256 is not None
    }
    texts = [[app] for app in apps or ()]
    return replace(record, history=replace(record.history, saved=saved, app_sha256_J=texts))


def test_live_runs_of_the_same_jobs_say_which_parameters_agree():
    one, other = hashed("one", "abc"), hashed("other", "abc", place="fifo")
    (found,) = same_params([one, record_of(jobs=3), other, hashed("few", "ab")])
    assert agreement_line(found) == ("parameters: 3 of 3 jobs have the same bits in one and other")
    (found,) = same_params([one, hashed("third", ("a", "x", None))])
    assert (found["jobs"], found["same"], found["left_out"]) == (2, 1, 1)
    assert found["differ"] == [one.run.workload.jobs[1].name]
    assert agreement_line(found).endswith("; other bits: job-01; not finished in both: 1")
    one, other = hashed("one", "abc", apps="xyz"), hashed("other", "ade", apps="XyZ")
    (found,) = same_params([one, other])
    assert (found["differ"], found["other_apps"]) == (["job-01", "job-02"], ["job-02"])
    assert agreement_line(found).endswith(
        "; other bits: job-01, job-02; their apps had another text: job-02"
    )


def seeded(seeds, places=("hare", "fifo")):
    """Records as of ``compare --seeds``."""
    return [
        record_of(name=f"mix seed {seed}", seed=seed, place=place, jobs=4)
        for place in places
        for seed in seeds
    ]


def test_the_best_is_that_of_the_same_seed_and_means_are_over_the_seeds_of_a_policy():
    rows = compare([late(seeded([1], ["hare"])[0], 0.5), *seeded([2], ["hare"]), *seeded([1, 2])])
    assert [row["vs_best"] for row in rows] == [pytest.approx(0.5), 0, 0, 0, 0, 0]
    records = seeded([1, 2, 3])
    rows = compare(records)
    found = means(rows)
    assert [(row["run"], row["place"]) for row in found] == [
        ("mix, mean of 3", "hare"), ("mix, mean of 3", "fifo"),
    ]  # fmt: skip
    for key in ("weighted_jct_s", "gap", "makespan_s"):
        assert found[0][key] == pytest.approx(sum(row[key] for row in rows[:3]) / 3)
    assert means(compare(seeded([1]))) == means(compare([record_of(), record_of()])) == []
    assert "mix, mean of 3" in comparison_lines(rows)[-1]
    text = page(records)
    assert text.count("<td>mix, mean of 3</td>") == 2
    assert "6 runs side by side" in text


def test_runs_of_several_seeds_have_one_color_and_one_band_a_policy():
    text = page(seeded([1, 2, 3]), against="hare")
    assert [text.count(f'class="range c{k}"') for k in (0, 1, 2)] == [1, 1, 0]
    assert text.count('<i class="c0"></i><a href="#run-') == 3
    assert text.count('<i class="c1"></i><a href="#run-') == 3
    assert "mix · hare</span>" in text
    assert "against hare" in text
    alone = page(seeded([1]))
    assert 'class="range ' not in alone
    assert "against" not in alone


def test_of_many_runs_some_of_each_policy_are_shown_in_full():
    text = page(seeded(list(range(1, 8)), ["hare", "srtf"]))
    shown = [int(one) for one in re.findall(r'<details id="run-(\d+)">', text)]
    assert len(shown) == 8
    places = re.findall(r'<details id="run-\d+"><summary>[^<]* · (\w+) ·', text)
    assert places.count("hare") == places.count("srtf") == 4
    assert "8 of 14 runs are shown in full" in text


def test_the_best_is_that_of_one_problem():
    records = seeded([1], ["hare", "srtf"])
    slow = [late(one, 100.0) for one in records]
    rows = compare([*records, *slow], ["short", "short", "long", "long"])
    assert [0.0 in (a["vs_best"], b["vs_best"]) for a, b in (rows[:2], rows[2:])] == [True, True]
    assert [row["vs_best"] > 0 for row in compare([*records, *slow])][2:] == [True, True]


def test_the_band_reaches_from_the_least_seed_to_the_most_and_the_line_is_the_median():
    delays = (0.0, 1.0, 3.0)
    slow = [late(one, by) for one, by in zip(seeded([1, 2, 3], ["hare"]), delays, strict=True)]
    found = by_group(slow, compare(slow))
    assert {title: len(own) for title, own in found.items()} == {"mix · hare": 3}
    chart = seeds_chart(found)
    (band,) = re.findall(r'class="range c0" data-k="r0" d="M([^"]*)z"', chart)
    (line,) = re.findall(r'class="line l0" data-k="r0" d="M([^"]*)"', chart)
    band_x, median = ([float(one.split()[0]) for one in path.split("L")] for path in (band, line))
    least, most = band_x[:101], band_x[:100:-1]
    assert len(least) == len(most) == len(median) == 101
    assert all(a <= b <= c for a, b, c in zip(least, median, most, strict=True))
    assert least[-1] < median[-1] < most[-1]
