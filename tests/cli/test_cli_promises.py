"""Same seed, same journal; every simulated folder passes its own check; Python sees the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import CLUSTER, JOBS, QUICKSTART, ROUND_ROBIN, RUN, Warren, write_run

import warren as from_python
from warren.model.errors import SpecError
from warren.policy.registry import POLICIES

pytestmark = pytest.mark.slow

NOISE = ["--set", "truth={task_cv: 0.2, job_cv: 0.1, seed: 5}"]
SAME_SEED = """
import sys
from warren.cli.main import call
run, out = sys.argv[1:]
for place in ("hare", "srtf", "gavel-fifo"):
    # A short search visits what a long one does.
    search = ["--set", "policy.budget=100000"] if place == "hare" else []
    for kind, more in (("plain", search), ("noisy", [*search, "--set", "truth.task_cv=0.3"])):
        code = call(["simulate", run, "--place", place, "--out", f"{out}/{place}-{kind}", *more])
        assert code == 0, code
"""


def journals(out: Path) -> dict[str, str]:
    """The hash of every journal below a folder."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("journal"))
    }


def test_the_same_seed_gives_the_same_journal_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, and in separate processes with other string hashes, from another folder."""
    monkeypatch.setattr(sys, "argv", ["-c", str(QUICKSTART), str(tmp_path / "here")])
    exec(SAME_SEED, {})
    found = journals(tmp_path / "here")
    assert len(set(found.values())) == len(found) == 6
    for seed in ("0", "1"):
        out = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", SAME_SEED, QUICKSTART, out],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        assert journals(out) == found


def test_another_seed_of_the_truth_gives_another_journal(warren: Warren, tmp_path: Path) -> None:
    for seed in (1, 2):
        noise = ["--set", "truth.task_cv=0.3", "--set", f"truth.seed={seed}"]
        assert warren("simulate", QUICKSTART, "--out", tmp_path / str(seed), *noise).code == 0
    one, other = journals(tmp_path).values()
    assert one != other


@pytest.mark.parametrize("place", [*sorted(POLICIES), ROUND_ROBIN])
@pytest.mark.parametrize("grain", ["1", "4 rounds", "2 s"])
def test_every_simulated_folder_passes_its_check(
    warren: Warren, tiny: str, tmp_path: Path, place: str, grain: str
) -> None:
    # The other pairs of grain, network and noise: experiments/checked.py, with many more cases.
    network, noise = ("constant", []) if grain == "4 rounds" else ("lane", NOISE)
    out = tmp_path / network
    sets = ["--set", f"grain={grain}", "--set", f"cluster.network.model={network}"]
    found = warren("simulate", tiny, "--place", place, "--out", out, *sets, *noise)
    assert found.code == 0, found.err
    checked = warren("report", out, "--check")
    assert (checked.code, checked.out) == (0, f"{out}: every check holds\n")


@pytest.mark.parametrize("place", sorted(set(POLICIES) - {"hare-published"}))
def test_the_check_of_the_quickstart_holds(warren: Warren, tmp_path: Path, place: str) -> None:
    out = tmp_path / "out"
    assert warren("simulate", QUICKSTART, "--place", place, "--out", out, "--check").code == 0
    assert warren("report", out, "--check").code == 0


def test_the_compiled_path_and_the_event_path_report_the_same(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    for name, more in (("compiled", []), ("events", ["--events", "--check"])):
        found = warren("simulate", tiny, "--place", "hare", "--out", tmp_path / name, *more)
        assert found.code == 0
    same = ("jobs.csv", "devices.csv", "profile.csv")
    for name in same:
        one, other = ((tmp_path / path / name).read_text() for path in ("compiled", "events"))
        assert one == other


def test_a_report_made_again_is_the_same_to_the_byte(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    warren("simulate", tiny, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for name in ("jobs.csv", "timeline.parquet", "report.html", "devices.csv"):
        (out / name).unlink()
    assert warren("report", out).code == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_run_that_was_cut_off_is_reported_from_its_journal(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    """What a killed run leaves: the inputs as used, and a journal that may end anywhere."""
    out = tmp_path / "out"
    warren("simulate", tiny, "--out", out)
    journal = (out / "journal").read_bytes()
    for path in out.iterdir():
        if path.name not in ("run.yaml", "profile.csv"):
            path.unlink()
    for share in (0.3, 0.5, 0.9):
        (out / "journal").write_bytes(journal[: int(len(journal) * share)])
        found = warren("report", out, "--json")
        assert found.code == 0
        assert found.json["finished"] + found.json["unfinished"] == found.json["jobs"] == 3
        assert warren("report", out, "--check").code == 0


@pytest.mark.parametrize(
    "name", ["journal", "run.yaml", "profile.csv", "summary.json", "jobs.csv", "timeline.parquet"]
)
def test_a_damaged_folder_is_reported_in_clear_lines(
    warren: Warren, tiny: str, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    warren("simulate", tiny, "--out", out)
    good = (out / name).read_bytes()
    middle = len(good) // 2
    for bad in (b"", b"\0\xff" * 50, good[:middle], good[:middle] + b"~" + good[middle + 1 :]):
        (out / name).write_bytes(bad)
        for command in (["report", out, "--check"], ["compare", out], ["report", out]):
            found = warren(*command)
            assert found.code in (0, 1, 2)
            assert not [line for line in found.err if "internal error" in line], found.err
            if found.code == 2:
                assert all(line.startswith(f"warren: {out}/") for line in found.err)
        (out / name).write_bytes(good)
        warren("report", out)


def test_a_journal_of_another_run_is_refused(warren: Warren, tmp_path: Path) -> None:
    fewer = JOBS.partition("  - {name: c")[0]
    for name, jobs in (("all", JOBS), ("fewer", fewer)):
        run = write_run(tmp_path / "in" / name, jobs=jobs)
        assert warren("simulate", run, "--out", tmp_path / name).code == 0
    (tmp_path / "all" / "journal").write_bytes((tmp_path / "fewer" / "journal").read_bytes())
    assert "other jobs or devices" in warren("report", tmp_path / "all").complaint


def test_python_simulates_a_file_a_mapping_and_a_run(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    told = warren("simulate", tiny, "--json").json
    whole = {
        "format": 1,
        "name": "tiny",
        "cluster": {
            "format": 1,
            "hosts": [
                {"name": "v", "count": 1, "devices": {"V100": 2}, "nic": "25 Gbps"},
                {"name": "k", "count": 1, "devices": {"K80": 1}, "nic": "10 Gbps"},
            ],
        },
        "workload": {"jobs": str(Path(tiny).parent / "jobs.yaml")},
        "scheduler": {"place": "srtf"},
        "seed": 1,
    }
    for result in (
        from_python.simulate(tiny),
        from_python.simulate(whole),
        from_python.simulate(Path(tiny), out=tmp_path / "out"),
    ):
        assert result.summary["weighted_jct_s"] == told["weighted_jct_s"]
        assert list(result.jobs) == ["a", "b", "c"]
        assert result.job("b").row["status"] == "finished"
    assert from_python.simulate(tiny, place="hare").summary["scheduler"]["place"] == "hare"


def test_python_loads_what_the_command_wrote(warren: Warren, tiny: str, tmp_path: Path) -> None:
    warren("simulate", tiny, "--out", tmp_path / "out")
    result = from_python.load(tmp_path / "out")
    assert result.summary["finished"] == 3
    assert result.folder == tmp_path / "out"
    with pytest.raises(SpecError, match="jobs: a, b, c"):
        result.job("z")
    with pytest.raises(SpecError, match="no parameters"):
        result.job("a").params()
    with pytest.raises(SpecError, match="no such folder"):
        from_python.load(tmp_path / "none")
    with pytest.raises(SpecError, match="not empty"):
        from_python.simulate(tiny, out=tmp_path / "out")


def test_a_trace_or_an_empty_workload_simulates(warren: Warren, tmp_path: Path) -> None:
    path = write_run(tmp_path, run=RUN.replace("{jobs: jobs.yaml}", "{jobs: []}"), cluster=CLUSTER)
    for place in sorted(POLICIES):
        found = warren("simulate", path, "--place", place, "--out", tmp_path / place)
        assert found.code in (0, 2), found.err
        assert (found.code == 2) == bool([line for line in found.err if line.startswith("warren")])
