"""``warren trace inspect``: figures of a trace, against others' and against known distributions."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from warren.workload.traces.read_trace import TraceRows, read_rows
from warren.workload.traces.registry import detected, trace_format
from warren.workload.traces.rows import TraceRequest, TraceRow, UnusedRows
from warren.workload.traces.summary import summary_of

NS = 10**9


def found(*rows: TraceRow) -> TraceRows:
    return TraceRows(format="x", rows=rows, unused=UnusedRows())


def row(at_s: float, run_s: float | None, gpus: int = 1, **more: str) -> TraceRow:
    run_ns = None if run_s is None else round(run_s * NS)
    name = f"j{at_s}-{run_s}-{gpus}"
    return TraceRow(
        line=1, name=name, submitted_ns=round(at_s * NS), gpus=gpus, run_ns=run_ns, **more
    )


def sized(works: np.ndarray) -> TraceRows:
    return found(*(row(index, float(work)) for index, work in enumerate(works)))


def test_a_small_trace_by_hand() -> None:
    summary = summary_of(
        found(row(10, 5, 2, model="a"), row(0, 10, model="b"), row(10, 5, 2, model="a"))
    )
    assert (summary["jobs"], summary["span_s"], summary["in_order"]) == (3, 10.0, False)
    assert (summary["equal_rows"], summary["gaps_of_0"]) == (1, 1)
    # Until the last job ends, at 15 s, and not until the last one comes.
    assert summary["gpus_busy"] == (2 * 2 * 5 + 10) / 15
    assert summary["gpus"] == [
        {"gpus": 1, "jobs": 1, "share": 1 / 3, "work_share": 1 / 3},
        {"gpus": 2, "jobs": 2, "share": 2 / 3, "work_share": 2 / 3},
    ]
    assert summary["run_s"]["p50"] == 5
    assert summary["models"] == {"a": 2, "b": 1}
    assert summary["tail"]["hill"] is None, "three jobs tell nothing of a tail"


def test_every_figure_of_two_jobs_is_what_a_hand_finds() -> None:
    """Job a: 2 GPUs from 0 to 3600 s. Job b: 1 GPU from 100 to 700 s."""
    summary = summary_of(found(row(0, 3600, 2, user="u", pool="p"), row(100, 600, 1, user="v")))
    whole = {"p1", "p10", "p25", "p50", "p75", "p90", "p99", "mean", "least", "most"}
    assert summary["span_s"] == 100
    assert summary["gap_s"] == dict.fromkeys(whole, 100.0)
    assert summary["gap_cv"] is None, "one gap does not vary"
    assert summary["gpus_busy"] == pytest.approx((2 * 3600 + 600) / 3600)
    assert summary["gpus"] == [
        {"gpus": 1, "jobs": 1, "share": 0.5, "work_share": 600 / 7800},
        {"gpus": 2, "jobs": 1, "share": 0.5, "work_share": 7200 / 7800},
    ]
    run_s = summary["run_s"]
    assert (run_s["least"], run_s["p50"], run_s["mean"], run_s["most"]) == (600, 2100, 2100, 3600)
    tail = summary["tail"]
    assert tail["top_1_pct_work"] is tail["top_10_pct_work"] is None, "less than one job"
    assert tail["top_job_work"] == 7200 / 7800
    assert tail["work_cv"] == pytest.approx(3300 / 3900)
    assert (summary["users"], summary["pools"], summary["equal_rows"]) == (2, {"p": 1}, 0)


def test_a_job_whose_run_time_is_unknown_is_no_work_and_ends_nowhere() -> None:
    summary = summary_of(found(row(0, 10, 2), row(90, None)))
    assert summary["gpus_busy"] == 2.0


@pytest.mark.parametrize("alpha", [0.8, 1.5, 3.0])
def test_hills_estimate_finds_the_index_of_a_pareto_distribution(alpha: float) -> None:
    """Its standard error is alpha / sqrt(k), k = 1,000 here."""
    draws = (1 - np.random.default_rng(5).random(20_000)) ** (-1 / alpha)
    tail = summary_of(sized(draws))["tail"]
    assert tail["hill_jobs"] == 1000
    assert abs(tail["hill"] - alpha) < 4 * alpha / math.sqrt(1000)
    assert tail["heavy"] is (alpha < 2)


def test_an_exponential_distribution_has_variation_1_and_known_shares() -> None:
    """The largest part p of the jobs has p (1 - ln p) of the work."""
    tail = summary_of(sized(-np.log1p(-np.random.default_rng(5).random(40_000)) + 1e-6))["tail"]
    assert abs(tail["work_cv"] - 1) < 0.03
    for part in (0.01, 0.1):
        expected = part * (1 - math.log(part))
        assert abs(tail[f"top_{round(part * 100)}_pct_work"] - expected) < 0.02
    assert not tail["heavy"]


def test_jobs_of_equal_work_have_no_tail_index() -> None:
    assert summary_of(sized(np.ones(400)))["tail"]["hill"] is None


def test_without_run_times_there_is_no_work() -> None:
    summary = summary_of(found(row(0, None), row(1, None)))
    assert (summary["run_s"], summary["tail"]) == (None, None)
    assert summary["gpus"][0]["work_share"] is None


def test_an_empty_trace_has_a_summary() -> None:
    assert summary_of(found())["jobs"] == 0


def read(path: Path, **more: object) -> TraceRows:
    content = path.read_bytes()
    name = detected(str(path), content)
    types = trace_format(name).types
    request = {"file": path.name, "content": content, "types": types, "look": True, **more}
    return read_rows(name, TraceRequest(**request))  # type: ignore[arg-type]


def test_philly_has_the_quantiles_and_quirks_that_are_known_of_it(data_dir: Path) -> None:
    summary = summary_of(read(data_dir / "traces/philly/philly_12vc.csv.gz"))
    run_s = summary["run_s"]
    known = {"p1": 10, "p10": 53, "p25": 65, "p50": 77, "p75": 1_426, "most": 4_628_226}
    assert {name: round(run_s[name]) for name in known} == known
    assert (summary["jobs"], summary["equal_rows"], summary["gaps_of_0"]) == (23_645, 17, 535)
    assert not summary["in_order"]
    assert summary["pools"]["11cb48"] == 16_091
    assert summary["tail"]["heavy"]


KNOWN = {
    "gavel/generated_t120.trace": ("gavel", 120, {1: 87, 2: 7, 4: 26}),
    "gavel/physical_max_min_fairness.trace": ("gavel", 96, None),
    "gavel/msr_seed0_103959.trace.gz": ("gavel", 986, {1: 500, 2: 40, 4: 446}),
    "shockwave/120_dynamic.trace": ("gavel", 120, None),
    "shockwave/220_dynamic.trace": ("gavel", 220, None),
    "muri/trace1.csv": ("muri", 1494, {1: 536, 2: 5, 4: 423, 8: 465, 16: 40, 32: 25}),
    "muri/trace3.csv": ("muri", 992, None),
    "muri/cluster_trace.csv": ("muri", 400, None),
    "tiresias/60_job.csv": ("tiresias", 60, {1: 30, 2: 10, 4: 10, 8: 10}),
    "elasticflow/philly_103959.csv": ("elasticflow", 876, {1: 513, 2: 33, 4: 330}),
    "elasticflow/elasticVpollux_e.csv": ("elasticflow", 195, None),
    "pollux/workload-6.csv": ("pollux", 160, None),
    "sia/newtrace/workload-1.csv": ("pollux", 960, None),
    "sia/saturn/workload-1.csv": ("pollux", 160, None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_every_row_of_a_published_trace_is_a_job(data_dir: Path, name: str) -> None:
    form, jobs, gpus = KNOWN[name]
    rows = read(data_dir / "traces" / name)
    assert (rows.format, len(rows.rows), rows.unused.total) == (form, jobs, 0)
    assert gpus in (None, Counter(row.gpus for row in rows.rows))


def test_muris_durations_are_its_iterations_times_their_time(data_dir: Path) -> None:
    """In trace1 the column that the reader does not use agrees within 0.01 %."""
    path = data_dir / "traces/muri/trace1.csv"
    durations_ms = [int(line.split(",")[6]) for line in path.read_text().splitlines()[1:]]
    runs_ms = [(row.run_ns or 0) / 1e6 for row in read(path).rows]
    assert np.allclose(runs_ms, durations_ms, rtol=1e-4, atol=1000)
