"""``warren plot`` and tables of pandas: what is in a run's folder, for a paper."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import Warren, write_run
from matplotlib.text import Text

import warren as from_python
from warren.cli.main import call
from warren.cli.views.pictures import save_figure
from warren.model.errors import SpecError
from warren.report.fairness.users import user_shares
from warren.report.figures import of_runs
from warren.report.figures.drawing import unit_of
from warren.report.number_text import number
from warren.runs.comparison.table_file import read_table
from warren.runs.results import load_record
from warren.store.files import read_dir

pytestmark = pytest.mark.slow


@pytest.fixture
def folders(warren: Warren, tiny: str, tmp_path: Path) -> list[Path]:
    found = []
    for place in ("srtf", "hare"):
        found.append(tmp_path / place)
        assert warren("simulate", tiny, "--place", place, "--out", found[-1]).code == 0
    return found


@pytest.mark.parametrize(
    ("kind", "asked"),
    [("pdf", ("cdf", "users")), ("svg", ("gantt", "cdf")), ("png", ("use", "gantt"))],
)
def test_pictures_of_the_same_runs_are_the_same_files(
    warren: Warren, folders: list[Path], tmp_path: Path, kind: str, asked: tuple[str, str]
) -> None:
    for what in asked:
        dirs = folders if what == "cdf" else folders[:1]
        made = []
        for turn in range(2):
            out = tmp_path / f"{what}{turn}.{kind}"
            found = warren("plot", what, *dirs, "--out", out)
            assert (found.code, found.err) == (0, [f"picture: {out}"])
            made.append(out.read_bytes())
        assert made[0] == made[1]
        assert len(made[0]) > 1000


def test_a_cdf_has_a_line_a_run_and_a_gantt_a_name_a_job(
    warren: Warren, folders: list[Path], tmp_path: Path
) -> None:
    warren("plot", "cdf", *folders, "--out", tmp_path / "cdf.svg")
    drawn = (tmp_path / "cdf.svg").read_text()
    for folder in folders:
        assert f"<!-- {folder} -->" in drawn
    warren("plot", "gantt", folders[0], "--out", tmp_path / "gantt.svg")
    drawn = (tmp_path / "gantt.svg").read_text()
    rows = (folders[0] / "devices.csv").read_text().splitlines()[1:]
    for name in ("a", "b", "c", *(row.split(",")[0] for row in rows)):
        assert f"<!-- {name} -->" in drawn


def test_of_many_jobs_the_longest_have_names(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_runs, "_NAMED", 1)
    record = load_record(str(folders[0]), read_dir(str(folders[0])))
    save_figure(of_runs.gantt_figure(record), tmp_path / "gantt.svg")
    drawn = (tmp_path / "gantt.svg").read_text()
    assert "other jobs gray" in drawn


@pytest.mark.parametrize(
    ("out", "told"),
    [("jct.gif", "jct.gif: is no picture; allowed: names that end in .png, .svg, .pdf"),
     ("no/jct.pdf", "no: no such folder; make it first")],
)  # fmt: skip
def test_what_cannot_be_a_picture_is_refused_first(
    warren: Warren, folders: list[Path], out: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders[0].parent)
    assert warren("plot", "cdf", folders[0], "--out", out).complaint == told
    assert "gone" in warren("plot", "use", "gone", "--out", "use.pdf").complaint


def test_rows_have_types_and_frames_are_those_rows(folders: list[Path]) -> None:
    pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
    result = from_python.load(folders[0])
    row = result.job("b").row
    assert (row["rounds"], row["arrival_s"], row["user"]) == (8, 1.0, "ana")
    frame = result.frame()
    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame["jct_s"].tolist() == [job.row["jct_s"] for job in result.jobs.values()]
    assert frame["jct_s"].dtype == np.float64
    timeline = result.timeline()
    assert timeline["tasks"].sum() == result.summary["tasks"]
    ends = timeline.groupby("job")["end_s"].max()
    assert ends.to_dict() == pytest.approx(frame["finish_s"].to_dict())


def test_a_result_without_a_folder_has_no_timeline(tiny: str) -> None:
    pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
    result = from_python.simulate(tiny)
    assert result.frame().loc["a", "status"] == "finished"
    with pytest.raises(SpecError, match="tiny: has no folder; simulate with out="):
        result.timeline()


def texts_of(figure: Any) -> list[str]:
    """All texts of a figure, of its axes and of what is written beside their lines."""
    figure.draw_without_rendering()
    return [one.get_text() for one in figure.findobj(Text) if one.get_text()]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table of two policies, two numbers of hosts and three seeds, of command and of Python."""
    pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
    folder = tmp_path_factory.mktemp("swept")
    run, file = write_run(folder / "in"), folder / "swept.csv"
    key = "cluster.hosts[0].count"
    command = ["compare", run, "--place", "srtf,gavel-fifo", "--seeds", "3", "--csv", str(file)]
    with redirect_stdout(StringIO()):
        assert call([*command, "--sweep", f"{key}=1,2", "--set", "truth.task_cv=0.2"]) == 0
    table = from_python.compare(
        run,
        place=["srtf", "gavel-fifo"],
        seeds=3,
        sweep={key: [1, 2]},
        override={"truth.task_cv": 0.2},
    )
    return {"file": file, "table": table, "key": key}


def test_a_table_of_the_command_is_that_of_python(swept: dict[str, Any]) -> None:
    rows = read_table(str(swept["file"]))
    assert rows == [dict(row) for row in swept["table"].to_dict("records")]
    assert [row[swept["key"]] for row in rows] == ["1", "1", "2", "2"]


def test_means_are_drawn_with_their_intervals_and_say_their_numbers(swept: dict[str, Any]) -> None:
    rows = read_table(str(swept["file"]))[:2]
    (axes,) = from_python.plot_means(rows).axes
    drawn = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    unit_s = unit_of(max(row["mean_jct_s"] for row in rows)).size_s
    assert drawn[::3] == pytest.approx([row["mean_jct_s"] / unit_s for row in rows])
    ends = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    wide = [2 * row["mean_jct_s_ci95"] / unit_s for row in rows]
    assert [ends[2] - ends[1], ends[5] - ends[4]] == pytest.approx(wide)
    texts = texts_of(axes.figure)
    assert "Mean JCT by policy: mean of 3 seeds, 95 % interval" in texts
    assert any(text.startswith("srtf") for text in texts)
    assert sum(" ± " in text for text in texts) == 2


def test_a_sweep_has_a_labeled_line_a_policy_over_the_swept_values(swept: dict[str, Any]) -> None:
    (axes,) = from_python.plot_sweep(swept["table"]).axes
    assert [float(tick) for tick in axes.get_xticks()] == [1.0, 2.0]
    texts = texts_of(axes.figure)
    assert {"srtf", "gavel-fifo", swept["key"]} <= {*texts}
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    expected = swept["table"][swept["table"]["place"] == "srtf"]["mean_jct_s"]
    unit_s = unit_of(float(swept["table"]["mean_jct_s"].max())).size_s
    assert any(list(line.get_ydata()) == pytest.approx(list(expected / unit_s)) for line in lines)


def test_what_cannot_be_drawn_of_a_comparison_is_one_line(
    warren: Warren, swept: dict[str, Any], folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders[0].parent)
    said = warren("plot", "means", swept["file"], "--value", "speed", "--out", "m.png").complaint
    assert said == (
        "value: 'speed' cannot be drawn; allowed: weighted_jct_s, mean_jct_s, p95_jct_s, "
        "mean_slowdown, makespan_s, gap"
    )
    said = warren("plot", "sweep", swept["file"], "--by", "seed", "--out", "s.png").complaint
    assert said == f"by: 'seed' was not swept; swept keys: {swept['key']}"
    jobs = folders[0] / "jobs.csv"
    said = warren("plot", "means", jobs, "--out", "m.png").complaint
    assert said == f"{jobs}:1: has no column 'run'; give a table of warren compare --csv"
    assert not list(Path().glob("*.png"))


def test_users_are_drawn_by_name_with_their_figures(folders: list[Path]) -> None:
    record = load_record(str(folders[0]), read_dir(str(folders[0])))
    figure = from_python.plot_users(folders[0])
    assert len(figure.axes) == 3
    texts = texts_of(figure)
    for one in user_shares(record):
        assert f"{one.user or '(no user)'} ({one.finished}/{one.jobs})" in texts
        assert number(round(100 * one.device_share, 2)) in texts


@pytest.mark.parametrize(
    ("span_s", "word"), [(90, "seconds"), (300, "minutes"), (9_000, "hours"), (273_600, "days")]
)
def test_long_times_are_drawn_in_hours_or_days(span_s: float, word: str) -> None:
    assert unit_of(span_s).word == word
    rows = [{"run": "r", "place": "p", "seeds": 1, "finished": 1, "mean_jct_s": span_s}]
    (axes,) = from_python.plot_means(rows).axes
    assert axes.get_xlabel() == f"mean JCT, {word}"
