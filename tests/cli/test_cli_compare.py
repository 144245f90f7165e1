"""``warren compare``: run files, policies, seeds and folders, in any mixture."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from cli_runs import JOBS, Warren, write_run

from warren.core.journal import MAGIC, Header, encode
from warren.core.journal_reader import decode
from warren.report.seeds import half_interval
from warren.runs.comparison import compared as comparing


def rows(text: str) -> list[list[str]]:
    """The lines of the printed table, in words."""
    return [line.split() for line in text.splitlines()]


def make_live(folder: Path) -> None:
    """Let a simulated folder pass for a live one: the journal says in which world it ran."""
    header, *rest = decode((folder / "journal").read_bytes())
    assert isinstance(header, Header)
    values = {name: getattr(header, name) for name in header.__struct_fields__}
    records = [Header(**(values | {"world": "live"})), *rest]
    (folder / "journal").write_bytes(MAGIC + b"".join(map(encode, records)))


def test_a_run_file_is_simulated_under_every_policy_and_seed(warren: Warren, tiny: str) -> None:
    noise = ["--set", "truth.task_cv=0.3"]
    found = warren("compare", tiny, "--place", "srtf, hare", "--seeds", "2", *noise, "--json")
    assert [(one["run"], one["scheduler"]["place"], one["seed"]) for one in found.json] == [
        ("tiny seed 1", "srtf", 1), ("tiny seed 2", "srtf", 2),
        ("tiny seed 1", "hare", 1), ("tiny seed 2", "hare", 2),
    ]  # fmt: skip
    one, other = (summary["weighted_jct_s"] for summary in found.json[:2])
    assert one != other
    begins = [line for line in found.err if line.startswith("simulating ")]
    assert len(begins) == 4


def test_a_sweep_takes_every_value_and_processes_change_nothing(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    asked = ["compare", tiny, "--place", "srtf,hare", "--seeds", "2", "--set", "truth.task_cv=0.3"]
    asked += ["--sweep", "grain=1, 2 rounds", "--sweep", "truth.job_cv=0,0.1"]
    alone = warren(*asked, "--json", "--csv", tmp_path / "alone.csv")
    several = warren(*asked, "--json", "--csv", tmp_path / "several.csv", "--jobs", "3")
    one_by_one, at_once = alone.json, several.json
    assert len(one_by_one) == 16
    for one in (*one_by_one, *at_once):
        del one["wall_s"], one["decide_s"]
        one.pop("compile_s", None)
    assert at_once == one_by_one
    assert at_once[-1]["run"] == "tiny grain=2 rounds truth.job_cv=0.1 seed 2"
    assert sum(line.startswith("simulated tiny ") for line in several.err) == 16
    with (tmp_path / "several.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [(row["run"], row["place"]) for row in written] == [
        (one["run"], one["scheduler"]["place"]) for one in one_by_one
    ]
    assert float(written[0]["weighted_jct_s"]) == one_by_one[0]["weighted_jct_s"]
    assert [*written[0]][:4] == ["run", "place", "grain", "truth.job_cv"]
    assert (written[-1]["grain"], written[-1]["truth.job_cv"]) == ("2 rounds", "0.1")
    # A grain is a way to schedule, noise is another problem: one best a seed and noise.
    best = [row for row in written if float(row["vs_best"]) == 0]
    assert {(row["seed"], row["truth.job_cv"]) for row in best} == {
        (seed, noise) for seed in "12" for noise in ("0", "0.1")
    }


@pytest.mark.parametrize(
    "option", [("--place", "srtf"), ("--seeds", "3"), ("--sweep", "seed=1,2"), ("--set", "seed=2")]
)
def test_options_of_simulations_are_refused_where_only_folders_are_compared(
    warren: Warren, tiny: str, tmp_path: Path, option: tuple[str, str]
) -> None:
    assert warren("simulate", tiny, "--out", tmp_path / "done").code == 0
    told = warren("compare", tmp_path / "done", *option)
    assert (told.code, told.out) == (2, "")
    assert told.complaint.startswith(f"{option[0]}: is for run files that are simulated; only")


def test_policies_are_set_against_one_seed_by_seed(warren: Warren, tiny: str) -> None:
    asked = ("compare", tiny, "--place", "srtf,gavel-fifo", "--seeds", "3")
    noise = ("--set", "truth.task_cv=0.3", "--against", "srtf")
    lines = warren(*asked, *noise).out.splitlines()
    assert lines[0].endswith("against srtf")
    srtf, fifo = (line for line in lines if "mean of 3" in line)
    assert srtf.endswith("-")
    found = warren(*asked, *noise, "--json").json
    pairs = zip(found[:3], found[3:], strict=True)
    ratios = [b["weighted_jct_s"] / a["weighted_jct_s"] - 1 for a, b in pairs]
    assert f"{100 * sum(ratios) / 3:+.1f} ± " in fifo


def test_means_and_intervals_are_in_csv_and_json(warren: Warren, tiny: str, tmp_path: Path) -> None:
    asked = ("compare", tiny, "--place", "srtf,gavel-fifo", "--seeds", "3", "--against", "srtf")
    noise = ("--set", "truth.task_cv=0.3")
    told = warren(*asked, *noise, "--csv", tmp_path / "t.csv", "--json").json
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert len(rows) == len(told) == 6
    values = [one["weighted_jct_s"] for one in told[3:]]
    base = [one["weighted_jct_s"] for one in told[:3]]
    for row, one in zip(rows[3:], told[3:], strict=True):
        over = one["over_seeds"]
        assert (over["seeds"], row["seeds"]) == (3, "3")
        assert over["mean"]["weighted_jct_s"] == pytest.approx(sum(values) / 3)
        assert over["ci95"]["weighted_jct_s"] == pytest.approx(half_interval(values))
        assert float(row["weighted_jct_s_mean"]) == over["mean"]["weighted_jct_s"]
        assert float(row["weighted_jct_s_ci95"]) == over["ci95"]["weighted_jct_s"]
        ratios = [a / b - 1 for a, b in zip(values, base, strict=True)]
        assert over["against"]["weighted_jct"] == pytest.approx(sum(ratios) / 3)
        assert float(row["against_ci95"]) == pytest.approx(half_interval(ratios))
    assert told[0]["over_seeds"]["against"] == {
        "place": "srtf", "weighted_jct": None, "ci95": None
    }  # fmt: skip
    one_seed = warren("compare", tiny, "--csv", tmp_path / "one.csv", "--json").json
    assert "over_seeds" not in one_seed[0]
    assert "seeds" not in (tmp_path / "one.csv").read_text()


def test_seeds_of_a_resampled_trace_give_intervals_and_the_same_jobs_to_all_policies(
    warren: Warren, tmp_path: Path
) -> None:
    lines = [f"j{at},{at * at},resnet50,64,{1 + at % 2},{3 + 5 * at}" for at in range(10)]
    (tmp_path / "t.csv").write_text("\n".join(["job,arrival_s,model,batch,scale,rounds", *lines]))
    file = tmp_path / "run.yaml"
    file.write_text(
        "cluster: {hosts: [{name: h, devices: {V100: 2}}]}\nworkload: {trace: {path: t.csv}}\n"
    )
    asked = ("compare", file, "--place", "fifo,srtf", "--seeds", "4")
    plain = warren(*asked)
    assert plain.out.splitlines()[-1].startswith("Seeds change nothing under fifo, srtf")
    assert "--set workload.trace.resample=jobs" in plain.out
    for what in ("jobs", "windows"):
        varied = (*asked, "--set", f"workload.trace.resample={what}", "--against", "fifo")
        assert "Seeds change nothing" not in warren(*varied).out
        found = warren(*varied, "--json").json
        assert [one["over_seeds"]["seeds"] for one in found] == [4] * 8
        assert all(one["over_seeds"]["ci95"]["mean_jct_s"] > 0 for one in found)
        # The bound is one of the jobs as drawn: the same for both, and not that of the trace.
        bounds = [one["lower_bound"]["weighted_jct_s"] for one in found]
        assert bounds[:4] == bounds[4:]
        assert len(set(bounds)) > 1
        assert all(one["gap"]["weighted_jct"] >= 0 for one in found)
        assert found[2]["over_seeds"]["against"]["place"] == "fifo"


def test_the_folder_of_a_resampled_trace_simulates_to_the_same_results_again(
    warren: Warren, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(
        "job,arrival_s,model,batch,scale,rounds\n"
        + "".join(f"j{at},{7 * at},resnet50,64,1,{30 + at}\n" for at in range(8))
    )
    file = tmp_path / "run.yaml"
    file.write_text(
        "cluster: {hosts: [{name: h, devices: {V100: 2}}]}\nseed: 3\n"
        "workload: {trace: {path: t.csv, resample: windows, window: 20 s}}\n"
    )
    first = warren("simulate", file, "--out", tmp_path / "a", "--json").json
    again = warren("simulate", tmp_path / "a" / "run.yaml", "--out", tmp_path / "b", "--json").json
    assert first["weighted_jct_s"] == again["weighted_jct_s"]
    assert first["lower_bound"] == again["lower_bound"]
    assert (tmp_path / "a" / "jobs.csv").read_text() == (tmp_path / "b" / "jobs.csv").read_text()
    assert "resampled: windows of 20 s, seed 3" in (tmp_path / "b" / "run.yaml").read_text()
    assert warren("report", tmp_path / "a", "--check").code == 0


def test_seeds_that_change_nothing_are_said_to_and_have_no_interval(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    asked = ("compare", tiny, "--place", "srtf,gavel-fifo", "--seeds", "2", "--against", "srtf")
    told = warren(*asked, "--csv", tmp_path / "t.csv", "--out", tmp_path / "t.html")
    assert "±" not in told.out
    assert told.out.splitlines()[-1].startswith(
        "Seeds change nothing under srtf, gavel-fifo: each gave the same results"
    )
    assert "Seeds change nothing under srtf, gavel-fifo" in (tmp_path / "t.html").read_text()
    row = next(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert row["weighted_jct_s_mean"] == row["weighted_jct_s"]
    assert row["weighted_jct_s_ci95"] == ""
    (_, other) = (warren(*asked, "--json").json[at]["over_seeds"] for at in (0, 2))
    assert other["ci95"] is other["against"]["ci95"] is None
    assert other["against"]["weighted_jct"] is not None


def test_what_a_simulation_in_another_process_refuses_is_one_line(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    jobs = "jobs: [{name: a, model: vgg20, batch: 1, rounds: 3}]"
    other = write_run(tmp_path / "in", jobs=jobs)
    found = warren("compare", other, tiny, "--jobs", "2")
    assert found.code == 2
    assert "model 'vgg20' has no profile row" in found.err[-1]
    assert found.out == ""


def test_one_seed_is_the_run_files_own(warren: Warren, tiny: str) -> None:
    alone = warren("simulate", tiny, "--json").json
    compared = warren("compare", tiny, "--json").json[0]
    for one in (alone, compared):
        del one["wall_s"], one["decide_s"]
        one.pop("compile_s", None)
    assert compared == alone


def test_folders_and_run_files_mix_in_the_order_given(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    warren("simulate", tiny, "--out", out)
    found = warren("compare", out, tiny, "--place", "hare", "--json").json
    assert [one.get("dir") for one in found] == [str(out), None]
    assert [one["scheduler"]["place"] for one in found] == ["srtf", "hare"]
    told = rows(warren("compare", out, tiny, "--place", "hare").out)
    assert told[0][:3] == ["run", "place", "world"]
    assert [line[0] for line in told[1:]] == [str(out), "tiny"]


def test_folders_of_one_name_are_distinguished(warren: Warren, tiny: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        warren("simulate", tiny, "--out", folder)
    assert [line[0] for line in rows(warren("compare", *folders).out)[1:]] == list(
        map(str, folders)
    )


def test_a_live_folder_carries_the_error_of_every_simulation_of_it(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    live, simulated = tmp_path / "live", tmp_path / "simulated"
    warren("simulate", tiny, "--out", live)
    warren("simulate", tiny, "--out", simulated, "--set", "truth.job_cv=0.2")
    make_live(live)
    found = warren("compare", live, simulated, tiny, "--json").json
    assert ["jct_errors" in one for one in found] == [True, False, False]
    errors = {error["simulated"]: error for error in found[0]["jct_errors"]}
    assert list(errors) == [str(simulated), "tiny"]
    assert errors["tiny"]["mean_error_pct"] == 0.0
    assert errors[str(simulated)]["mean_error_pct"] > 0.0
    assert [job["job"] for job in errors["tiny"]["per_job"]] == ["a", "b", "c"]
    text = warren("compare", live, simulated, tiny).out
    assert text.count("JCT error of 3 jobs: mean") == 2


def test_a_page_is_written_and_replaced(warren: Warren, tiny: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    found = warren("compare", tiny, "--place", "srtf,hare", "--out", page)
    assert found.code == 0
    assert found.err[-1] == f"page: {page}"
    assert page.read_text().startswith("<!")
    assert "2 runs side by side" in page.read_text()


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (["none"], "none: cannot be read: no such file"),
        (["."], ". : is not the folder of a run"),
        (["RUN", "--place", "srtf,"], "empty name"),
        (["RUN", "--place", "srtf,best"], "unknown policy 'best'"),
        (["RUN", "--out", "."], ". : is a folder"),
        (["RUN", "--out", "none/page.html"], "none: no such folder"),
        (["RUN", "none"], "none: cannot be read: no such file"),
    ],
)
def test_wrong_input_is_reported_before_anything_is_simulated(
    warren: Warren,
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: list[str],
    told: str,
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("simulated")

    monkeypatch.setattr(comparing, "simulated", never)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    found = warren("compare", *[tiny if one == "RUN" else one for one in what])
    assert found.code == 2
    assert told.replace(". :", ".:") in found.complaint
    assert list(Path.cwd().iterdir()) == []


def test_runs_of_different_workloads_compare_without_errors(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    other = write_run(tmp_path / "other", jobs=JOBS.partition("  - {name: c")[0])
    warren("simulate", other, "--out", tmp_path / "live")
    make_live(tmp_path / "live")
    found = warren("compare", tmp_path / "live", tiny, "--json")
    assert found.code == 0
    assert found.json[0]["jct_errors"] == []


def test_two_live_folders_of_the_same_jobs_say_whether_their_parameters_agree(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    """Nothing was trained here, so no job has parameters in both."""
    for name in ("one", "other"):
        warren("simulate", tiny, "--out", tmp_path / name)
        make_live(tmp_path / name)
    folders = [tmp_path / "one", tmp_path / "other", tiny]
    told = warren("compare", *folders)
    assert (told.code, told.out.splitlines()[-1]) == (
        0, f"parameters: no job finished in {tmp_path}/one and {tmp_path}/other",
    )  # fmt: skip
    one, other, simulated = warren("compare", *folders, "--json").json
    assert one["same_params"][0]["other"] == other["same_params"][0]["live"] == other["dir"]
    assert "same_params" not in simulated
