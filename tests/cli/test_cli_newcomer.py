"""What a first hour gets wrong: each mistake is told where it stands, with what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest
from cli_runs import CHECKOUT, ROUND_ROBIN, RUN, Warren, write_run
from processes import wait_until
from pyarrow import parquet

from warren.cli.commands import run as runs
from warren.cli.views import progress as lines
from warren.core.loop import Core, Observer
from warren.model.run import Run
from warren.report.record import Record
from warren.runs import simulate_many as simulating
from warren.runs.compose import Options, simulate

pytestmark = pytest.mark.slow


def test_a_mistyped_device_type_is_reported_with_its_line(warren: Warren, tiny: str) -> None:
    cluster = Path(tiny).with_name("cluster.yaml")
    cluster.write_text(cluster.read_text().replace("{V100: 2}", "{V10O: 2}"))
    told = warren("simulate", tiny).complaint
    assert told.startswith(f"{cluster}:3: hosts[0].devices.V10O: ")
    assert told.endswith("did you mean V100? allowed: V100, K80")


def test_a_policy_that_is_not_there_is_reported_with_those_that_are(
    warren: Warren, tiny: str
) -> None:
    told = warren("simulate", tiny, "--place", "srft").complaint
    assert told.startswith(f"{tiny}: scheduler.place: unknown policy 'srft'; did you mean srtf? ")
    wrong = ROUND_ROBIN.replace("RoundRobin", "Robin")
    assert warren("simulate", tiny, "--place", wrong).complaint.endswith("it has: RoundRobin")


def test_an_option_of_a_policy_in_a_file_is_checked_by_its_type(warren: Warren, tiny: str) -> None:
    told = warren("simulate", tiny, "--place", ROUND_ROBIN, "--set", "policy.skip_slow=1").complaint
    assert told.startswith(f"{tiny}: policy.skip_slow: ")
    assert told.endswith("expects true or false, got 1")


def test_a_run_file_given_for_a_jobs_file_is_reported(warren: Warren, tiny: str) -> None:
    cluster = Path(tiny).with_name("cluster.yaml")
    told = warren("profile", tiny, "--cluster", cluster).complaint
    assert told == f"{tiny}: this is a run file; give its jobs file, 'jobs.yaml'"


def test_what_is_wrong_with_one_job_names_its_line(warren: Warren, tmp_path: Path) -> None:
    jobs = "jobs:\n  - {name: a, app: no.py:A, model: vgg20, batch: 1, rounds: 3}\n"
    path = write_run(tmp_path / "in", jobs=jobs)
    place = f"{tmp_path}/in/jobs.yaml:2: job a: "
    told = warren("run", path, "--out", tmp_path / "out").complaint
    assert told == f"{place}app: no.py:A: cannot be read: {tmp_path}/in/no.py: no such file"
    told = warren("simulate", path).complaint
    assert told.startswith(
        f"{place}model 'vgg20' has no profile row; did you mean vgg19? allowed: "
    )


def test_a_run_of_very_many_tasks_says_how_to_make_it_coarser(
    warren: Warren, tmp_path: Path
) -> None:
    jobs = "jobs: [{name: a, model: vgg19, batch: 1, scale: 1000, rounds: 50001}]"
    path = write_run(tmp_path / "in", jobs=jobs)
    (note,) = warren("simulate", path, "--dry-run").err
    assert note.startswith("50,001,000 tasks, ")
    # On three devices a round of 1000 tasks takes longer than a minute.
    assert "`grain: 10 min` (`--set grain='10 min'`)" in note
    assert warren("simulate", path, "--dry-run", "--set", "grain=10 min").err == []


def test_a_grain_that_is_far_too_fine_is_reported_with_one_that_would_do(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.9 million tasks of a minute, as of a trace: too many event by event, few as a plan."""
    cost = (
        "profiles: {minute: {model: 0, comp: {V100: 60 s, K80: 60 s}, sync: {V100: 0, K80: 0}}}\n"
    )
    jobs = "jobs: [{name: a, cost: minute, scale: 1000, rounds: 3900}]"
    path = write_run(tmp_path / "in", run=RUN + cost, jobs=jobs)

    def notes(*more: str) -> list[str]:
        return warren("simulate", path, "--dry-run", "--place", "srtf", *more).err

    (note,) = notes("--set", "grain=90 s")
    assert note.startswith("3,900,000 stretches of tasks at grain 90 s, ")
    # Three devices take 334 minutes for a round of 1000 tasks, so 6 h is no coarser than 90 s.
    assert "`grain: 1 d` (`" in note
    assert notes("--set", "grain=1 d") == notes("--place", "hare") == []
    assert notes("--place", "gavel-fifo", "--set", "grain=90 s") == []  # one stretch a job
    assert len(notes("--place", "hare", "--events")) == 1
    monkeypatch.setattr(simulating, "simulate", Mock(side_effect=KeyboardInterrupt))
    told = warren("compare", path, "--place", "hare,srtf,gavel-fifo").err
    assert [line.split()[0] for line in told[:2]] == ["3,900,000", "simulating"]


@pytest.mark.parametrize(("command", "name"), [(runs, "simulate_run"), (simulating, "simulate")])
def test_a_long_simulation_tells_how_far_it_is_where_there_is_no_terminal(
    warren: Warren, tiny: str, monkeypatch: pytest.MonkeyPatch, command: ModuleType, name: str
) -> None:
    """Nobody waits for lines of seconds here: each step that has to be told waits for its line."""
    monkeypatch.setattr(lines, "LINES_S", 1e-3)
    told: list[str] = []
    line_of = lines._line

    def noted(core: Core, passed_s: float) -> str:
        told.append(line_of(core, passed_s))
        return told[-1]

    monkeypatch.setattr(lines, "_line", noted)

    def waited(text: str) -> None:
        wait_until(lambda: any(text in line for line in told))

    def slow(run: Run, out: None, options: Options) -> Record:
        assert options.attend is not None
        inner = options.attend

        @contextmanager
        def attend(core: Core) -> Iterator[Observer]:
            with inner(core):
                waited("planning")
                yield lambda state, _: waited(" of 45 tasks") if state.round_J.any() else None

        return simulate(run, out, replace(options, attend=attend, compiled=False))

    monkeypatch.setattr(command, name, slow)
    err = warren("compare" if command is simulating else "simulate", tiny).err
    assert [one for one in told if one in err] == told
    assert told[0].startswith("  srtf: planning, ")
    assert " of 45 tasks, " in told[-1]


def test_a_run_yaml_is_named_after_its_folder_from_wherever_it_is_called(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "mine", run=RUN.replace("name: tiny\n", ""))
    (tmp_path / "mine" / "inner").mkdir()
    for folder, path in (
        ("mine", "run.yaml"),
        ("mine", "./run.yaml"),
        ("mine/inner", "../run.yaml"),
    ):
        monkeypatch.chdir(tmp_path / folder)
        assert warren("simulate", path, "--json").json["run"] == "mine"


def test_the_own_job_of_the_readme_can_be_run(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (CHECKOUT / "README.md").read_text().partition("## Your own job")[2]
    app, run, *_ = re.findall(r"^```(?:python|yaml)\n(.*?)^```", own, re.MULTILINE | re.DOTALL)
    (tmp_path / "line.py").write_text(app)
    (tmp_path / "run.yaml").write_text(run)
    assert run.count("\n") == 4
    monkeypatch.chdir(tmp_path)
    told = warren("run", "run.yaml", "--dry-run")
    assert (told.code, told.err) == (0, [])


def test_the_gaps_that_the_readme_states_are_those_of_its_command(warren: Warren) -> None:
    readme = (CHECKOUT / "README.md").read_text()
    (command,) = re.findall(r"^warren (compare \S+run.yaml .*)$", readme, re.MULTILINE)
    path, *options = command.split()[1:]
    rows = warren("compare", CHECKOUT / path, *options, "--json").json
    gap = {row["scheduler"]["place"]: round(100 * row["gap"]["weighted_jct"]) for row in rows}
    assert f"`hare` is at most {gap['hare']} % above" in readme
    assert f"`gavel-fifo` at most {gap['gavel-fifo']} %" in readme


LONG = """\
jobs:
  - {name: a, model: resnet50, scale: 2, rounds: 2000, batch: 64}
  - {name: b, model: graphsage, scale: 1, rounds: 9000, batch: 16, arrival: 5 s}
"""


def test_the_template_of_a_policy_honors_the_grain(warren: Warren, tmp_path: Path) -> None:
    path = write_run(tmp_path / "in", jobs=LONG)
    rows = {}
    for grain in ("1", "1 min"):
        out = tmp_path / grain.replace(" ", "-")
        found = warren(
            "simulate", path, "--place", ROUND_ROBIN, "--set", f"grain={grain}", "--out", out
        )
        assert found.code == 0
        assert not any("one round at a time" in line for line in found.err)
        rows[grain] = len(parquet.read_table(out / "timeline.parquet"))
        assert warren("report", out, "--check").code == 0
    assert rows["1"] == 2 * 2000 + 9000
    assert rows["1 min"] < 100


def test_the_template_keeps_the_grain_where_jobs_are_as_wide_as_the_cluster(
    warren: Warren, tmp_path: Path
) -> None:
    """Else two that are out of step take turns for ever, a round each."""
    wide = "jobs:\n" + "".join(
        f"  - {{name: {name}, model: resnet50, scale: {scale}, rounds: 900, batch: 64}}\n"
        for name, scale in (("a", 1), ("b", 2), ("c", 2), ("d", 5))
    )
    path, out = write_run(tmp_path / "in", jobs=wide), tmp_path / "out"
    found = warren(
        "simulate", path, "--place", ROUND_ROBIN, "--set", "grain=100 rounds", "--out", out
    )
    assert found.code == 0
    rounds = parquet.read_table(out / "timeline.parquet", columns=["job", "rounds"]).to_pylist()
    alone = [row["rounds"] for row in rounds if row["job"] in ("b", "c")]
    assert set(alone) == {100}, "b and c fit, and have whole stretches"


def test_a_policy_that_hands_out_single_rounds_at_a_coarse_grain_is_reported_of(
    warren: Warren, tmp_path: Path
) -> None:
    policy = tmp_path / "single.py"
    text = Path(ROUND_ROBIN.partition(":")[0]).read_text()
    policy.write_text(text.replace("view.grain.rounds_for(int(max(task_ns)), ENDLESS)", "1"))
    path = write_run(tmp_path / "in", jobs=LONG)
    asked = ("simulate", path, "--place", f"{policy}:RoundRobin", "--set")

    def told(grain: str) -> list[str]:
        """Of all lines: on a busy machine one may tell how far the simulation is."""
        lines = warren(*asked, f"grain={grain}").err
        return [line for line in lines if "one round at a time" in line]

    (line,) = told("1 min")
    assert "RoundRobin handed out one round at a time, 13,000 stretches, though the" in line
    assert told("1") == []
    assert told("1 ms") == [], "no more than a round fits"


def wide_run(folder: Path, *, scale: int, rounds: int) -> str:
    """Write a run of one job of tasks of a minute, on three devices."""
    cost = (
        "profiles: {minute: {model: 0, comp: {V100: 60 s, K80: 60 s}, sync: {V100: 0, K80: 0}}}\n"
    )
    jobs = f"jobs: [{{name: a, cost: minute, scale: {scale}, rounds: {rounds}}}]"
    return write_run(folder, run=RUN + cost, jobs=jobs)


def test_the_advised_grain_really_has_fewer_stretches(warren: Warren, tmp_path: Path) -> None:
    path = wide_run(tmp_path / "in", scale=3000, rounds=3900)
    asked = ("simulate", path, "--dry-run", "--place", "srtf", "--set")
    (note,) = warren(*asked, "grain=1 min").err
    before = int(note.partition(" ")[0].replace(",", ""))
    advised = note.partition("`grain: ")[2].partition("`")[0]
    # At 7 d there are still too many, but ten times fewer: then the note says how many.
    (after,) = warren(*asked, f"grain={advised}").err
    assert int(after.partition(" ")[0].replace(",", "")) <= before // 10


def test_where_no_grain_helps_the_jobs_wider_than_the_cluster_are_named(
    warren: Warren, tmp_path: Path
) -> None:
    path = wide_run(tmp_path / "in", scale=1_000_000, rounds=2)
    (note,) = warren("simulate", path, "--dry-run", "--place", "srtf", "--set", "grain=1 min").err
    assert "`grain:" not in note
    told = "1 job has more tasks a round than there are devices; `gpus_max: 3` of a trace leaves"
    assert told in note


def test_no_policy_is_blamed_where_a_round_is_longer_than_the_grain(
    warren: Warren, tmp_path: Path
) -> None:
    """500 tasks of a minute on three devices take hours: none but single rounds fit 10 minutes."""
    path = wide_run(tmp_path / "in", scale=500, rounds=3)
    found = warren("simulate", path, "--place", "srtf", "--set", "grain=10 min")
    assert found.code == 0
    assert not any("one round at a time" in line for line in found.err)


def test_a_dry_run_says_what_is_asked_of_ray_and_asks_nothing(
    warren: Warren, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    engine = "cluster.engine={ray: '10.0.0.1:6379'}"
    done = warren("run", "examples/quickstart/run.yaml", "--dry-run", "--set", engine)
    assert done.code == 0
    assert '"ray": "10.0.0.1:6379"' in done.out
    assert any(
        line.startswith("Ray at 10.0.0.1:6379: one actor of no processor") for line in done.err
    )
