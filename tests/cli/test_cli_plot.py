"""``warren plot`` and tables of pandas: what is in a run's folder, for a paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_runs import Warren

import warren as from_python
from warren.cli.views import run_plots
from warren.model.errors import SpecError
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


@pytest.mark.parametrize("kind", ["pdf", "svg", "png"])
def test_pictures_of_the_same_runs_are_the_same_files(
    warren: Warren, folders: list[Path], tmp_path: Path, kind: str
) -> None:
    asked = {"cdf": folders, "gantt": folders[:1], "use": folders[:1]}
    for what, dirs in asked.items():
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
    monkeypatch.setattr(run_plots, "_NAMED", 1)
    record = load_record(str(folders[0]), read_dir(str(folders[0])))
    run_plots.plot_gantt(record, tmp_path / "gantt.svg")
    drawn = (tmp_path / "gantt.svg").read_text()
    assert "other jobs grey" in drawn


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
