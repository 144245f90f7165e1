"""Resampled traces: seeds draw jobs or windows, and what each of them keeps stays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

import pytest
from workload_files import reader

from warren.model.errors import SpecError
from warren.model.job import Job
from warren.model.run import Run
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run
from warren.workload.traces.resample import resampled
from warren.workload.traces.rows import Resample, TraceRequest, TraceRow

S: Final = 10**9
# Uneven gaps, with a burst; each row differs from all others in its rounds.
ARRIVALS_S: Final = (5, 6, 7, 40, 90, 91, 200, 260, 261, 262, 330, 405)
ROWS: Final = tuple(
    TraceRow(line=at, name=f"j{at}", submitted_ns=time_s * S, gpus=1 + at % 4, steps=10 + at)
    for at, time_s in enumerate(ARRIVALS_S)
)
LENGTH_S: Final = 400
CIRCLE_NS: Final = LENGTH_S * S + LENGTH_S * S // 11
TABLE: Final = "job,arrival_s,model,batch,scale,rounds,weight,user,group\n" + "".join(
    f"j{at},{time_s},resnet50,64,{1 + at % 4},{10 + at},{1 + at},u{at % 3},\n"
    for at, time_s in enumerate(ARRIVALS_S)
)


def drawn(what: str, seed: int, window_s: float | None = None) -> list[TraceRow]:
    asked = Resample(what=what, window_s=window_s, file="r.yaml")
    request = TraceRequest(file="t", content=b"", types=("V100",), run_seed=seed, resample=asked)
    return list(resampled(ROWS, request)[0])


def source(row: TraceRow | Job) -> int:
    """Return the row of the trace that a drawn one is a copy of."""
    return int(row.name.partition("-j")[2])


def run_of(seed: int = 3, text: str = TABLE, **trace: Any) -> Run:
    workload = {"trace": {"format": "warren", "path": "t.csv", **trace}}
    hosts = [{"name": "h", "devices": {"V100": 4}}]
    data = {"cluster": {"hosts": hosts}, "workload": workload, "seed": seed}
    return run_from_dict(data, "d", reader({"d/t.csv": text}))


def test_resampled_jobs_keep_the_arrivals_and_take_all_else_from_a_row() -> None:
    plain, jobs = run_of().workload.jobs, run_of(resample="jobs").workload.jobs
    assert [job.arrival_ns for job in jobs] == [job.arrival_ns for job in plain]
    for job in jobs:
        row = plain[source(job)]
        assert (job.rounds, job.scale, job.user, job.weight, job.model) == (
            row.rounds, row.scale, row.user, row.weight, row.model,
        )  # fmt: skip
    assert len({source(job) for job in jobs}) < len(jobs)


@pytest.mark.parametrize("what", ["jobs", "windows"])
def test_a_seed_draws_the_same_jobs_with_other_names_and_another_seed_others(what: str) -> None:
    several = [run_of(seed, resample=what).workload.jobs for seed in range(20)]
    assert several[7] == run_of(7, resample=what).workload.jobs
    assert len({tuple(map(source, jobs)) for jobs in several}) == 20
    for jobs in several:
        assert len(jobs) == len({job.name for job in jobs}) == len({job.seed for job in jobs}) == 12
        assert [job.name for job in jobs] == sorted(job.name for job in jobs)
        assert jobs[0].arrival_ns == 0


def test_means_over_many_seeds_of_resampled_jobs_are_those_of_the_trace() -> None:
    seeds = 800
    means = [fmean(row.steps or 0 for row in drawn("jobs", seed)) for seed in range(seeds)]
    steps = [row.steps or 0 for row in ROWS]
    variance = fmean((one - fmean(steps)) ** 2 for one in steps) / len(ROWS)
    assert fmean(means) == pytest.approx(fmean(steps), abs=4 * (variance / seeds) ** 0.5)
    # Draws are independent, so the variance of a mean is that of a row over the number of rows.
    spread = fmean((one - fmean(means)) ** 2 for one in means)
    assert spread == pytest.approx(variance, rel=0.2)


def test_a_window_holds_the_rows_that_follow_one_another_with_their_gaps() -> None:
    window_ns, last = 100 * S, len(ROWS) - 1
    for seed in range(50):
        for one, other in pairwise(drawn("windows", seed, 100.0)):
            if one.submitted_ns // window_ns != other.submitted_ns // window_ns:
                continue
            first = source(one)
            assert source(other) == (first + 1 if first < last else 0)
            gap_ns = ROWS[source(other)].submitted_ns - ROWS[first].submitted_ns
            # From the last row to the first the circle has one more gap, of their mean length.
            gap_ns += CIRCLE_NS if first == last else 0
            assert other.submitted_ns - one.submitted_ns == gap_ns


def test_each_row_is_as_often_in_a_window_as_any_other() -> None:
    seeds, counts = 3000, dict.fromkeys(range(len(ROWS)), 0)
    for seed in range(seeds):
        for row in drawn("windows", seed, 100.0):
            if row.submitted_ns < 100 * S:
                counts[source(row)] += 1
    part = 100 * S / CIRCLE_NS
    for count in counts.values():
        assert count / seeds == pytest.approx(part, abs=4 * (part * (1 - part) / seeds) ** 0.5)


def test_without_a_length_a_window_is_a_tenth_of_the_trace() -> None:
    (note,) = run_of(resample="windows").workload.notes
    assert note == "d/t.csv: resampled: windows of 43.64 s, seed 3"
    stated = run_of(resample="windows", window=CIRCLE_NS // 10 / S)
    assert stated.workload.jobs == run_of(resample="windows").workload.jobs


def test_only_rows_that_the_run_takes_are_drawn() -> None:
    run = run_of(resample="jobs", limit=5, gpus_max=2)
    assert {source(job) for job in run.workload.jobs} <= {0, 1, 4, 5, 8}
    assert run.workload.notes[-1] == "d/t.csv: resampled: jobs, seed 3"
    assert len(run.workload.jobs) == 5


def test_a_run_with_a_resampled_trace_is_written_with_the_jobs_as_drawn() -> None:
    run = run_of(resample="windows", window="1 min")
    again = load_run("run.yaml", reader({"run.yaml": dump_run(replace(run, base="d"))}))
    assert again.workload.jobs == run.workload.jobs
    assert again.workload.notes == ("d/t.csv: resampled: windows of 1 min, seed 3",)


def test_long_names_of_a_trace_stay_names_of_files() -> None:
    long = TABLE.replace("j3,", "j3" + "x" * 78 + ",")
    names = [
        job.name for seed in range(9) for job in run_of(seed, long, resample="jobs").workload.jobs
    ]
    assert max(map(len, names)) == 80


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ({"resample": "rows"}, "trace.resample: 'rows' is unknown; allowed: jobs, windows"),
        ({"window": "1 min"}, "workload.trace: window needs resample: windows"),
        ({"resample": "jobs", "window": "1 min"}, "window needs resample: windows"),
        ({"resample": "windows", "window": "2 h"},
         "workload.trace.window: is 2 h; allowed: 0.004364 s or more, and less than the "
         "6.667 min from the first arrival to the last"),
        ({"resample": "windows", "window": "400 s"}, "trace.window: is 6.667 min; allowed"),
        ({"resample": "windows", "window": "4 ms"}, "trace.window: is 0.004 s; allowed: 0.0043"),
        ({"resample": "windows", "limit": 1},
         "workload.trace.resample: all jobs arrive at one time, so there are no windows; "
         "use resample: jobs"),
    ],
)  # fmt: skip
def test_what_cannot_be_resampled_is_refused_in_one_line(
    trace: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        run_of(**trace)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
