"""What the terminal says of a summary."""

from __future__ import annotations

from typing import Any

import pytest

from warren.cli.views.summary_text import summary_lines
from warren.store.files import read


def values(**other: Any) -> dict[str, Any]:
    found = {
        "run": "r", "scheduler": {"place": "hare"}, "grain": "1", "finished": 1, "jobs": 1,
        "tasks": 100, "mean_jct_s": 1.0, "p95_jct_s": 1.0, "weighted_jct_s": 1.0,
        "makespan_s": 1.0, "utilization": 0.5, "gap": {"weighted_jct": 0.1}, "decide_s": 0.1,
        "wall_s": 0.2,
    }  # fmt: skip
    return found | other


@pytest.mark.parametrize(("overruns", "told"), [(0, False), (5, False), (6, True)])
def test_many_overruns_are_reported_with_the_way_out(overruns: int, told: bool) -> None:
    text = "\n".join(summary_lines(values(overruns=overruns), time_scale=0.34))
    way = "raise emulate.time_scale: `--set cluster.emulate.time_scale=0.34`"
    assert (way in text) is told


def test_a_missing_bound_is_reported_with_its_reason() -> None:
    text = "\n".join(summary_lines(values(gap=None, lower_bound_reason="times are not known")))
    assert "no lower bound: times are not known" in text


@pytest.mark.parametrize(
    ("switches", "cost_s", "told"),
    [
        (1060, 11.4, ["1,060 switches between jobs cost 11.4 s"]),
        (1, 0.5, ["1 switch between jobs cost 500 ms"]),
        (3, -2.0, ["3 switches between jobs cost nothing that could be measured"]),
        (0, 0.0, []),
    ],
)
def test_switching_is_reported_where_there_was_some(
    switches: int, cost_s: float, told: list[str]
) -> None:
    lines = summary_lines(values(switches=switches, switching_s=cost_s))
    assert [line for line in lines if "switch" in line] == told
    assert "switch" not in "".join(summary_lines(values()))


def test_nothing_but_a_page_is_overwritten_by_compare(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from warren.cli.main import call

    kept = tmp_path / "jobs.yaml"
    kept.write_text("mine")
    assert call(["compare", "examples/quickstart/run.yaml", "--out", str(kept)]) == 2
    assert "is no page" in capsys.readouterr().err
    assert read(str(kept)) == b"mine"


def test_another_policy_leaves_the_options_of_the_files_own(tmp_path: Any) -> None:
    from warren.runs.inputs import run_of

    path = tmp_path / "run.yaml"
    path.write_text(
        "cluster: {hosts: [{name: a, devices: {V100: 1}}]}\n"
        "workload: [{name: j, model: resnet50, batch: 64, rounds: 1}]\n"
        "scheduler: {place: hare}\npolicy: {budget: 7}\n"
    )
    assert run_of(str(path), "hare", []).scheduler.options == {"budget": 7}
    assert run_of(str(path), "srtf", []).scheduler.options == {}
    published = run_of(str(path), "hare-published", ["policy.budget=9"]).scheduler
    assert published.options == {"budget": 9}


def test_times_and_counts_read_as_in_tables_and_the_sum_is_no_average() -> None:
    many = values(
        mean_jct_s=28.8, p95_jct_s=7260.0, makespan_s=1e6, weighted_jct_s=40_820.0, tasks=51_000,
        jobs=2000, finished=1999, decide_s=0.0123, wall_s=300.0,
    )  # fmt: skip
    assert summary_lines(many) == [
        "r: hare, grain 1: 1,999/2,000 jobs finished, 51,000 tasks",
        "mean JCT 28.8 s, p95 2.02 h, makespan 11.57 d, sum of weighted JCTs 40,820 s, "
        "utilization 50.0 % (cluster time)",
        "the sum of weighted JCTs is at most 10.0 % above the best any schedule can do",
        "decided in 12.3 ms, 5 min in all (real time)",
    ]
