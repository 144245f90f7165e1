"""``warren profile``: what is kept is shown, removed and handed on; nothing is measured here."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from cli_runs import JOBS, RUN, Warren, write_run

from warren.cli.commands.profile import _run
from warren.model.errors import SpecError
from warren.runs.check_apps import check_apps
from warren.runs.machine import check_device_types
from warren.store import history_database
from warren.store.files import read
from warren.store.history_database import Database, known_profiles
from warren.workload.run_file import load_cluster, load_run

sys.path.insert(0, str(Path(__file__).parents[1] / "profile"))
from profile_rows import BLANK, ended, rows

FIRST = replace(BLANK, job="a", comp_s=0.5, sync_s=0.25, samples=3, model_bytes=4 * 10**6)
SECOND = replace(
    FIRST,
    key="f" * 64,
    job="b",
    batch=16,
    comp_s=None,
    comp_avg_s=0.125,
    avg_tasks=9,
    updated_at=9.0,
)
KINDS = """\
jobs:
  - {name: mod-1, app: a.py:A, batch: 8, rounds: 3}
  - {name: mod-2, app: other/a.py:A, batch: 8, rounds: 3}
  - {name: line-1, app: a.py:A, batch: 20, rounds: 3}
  - {name: line-2, app: a.py:A, batch: 20, rounds: 3, params: {lr: 0.1}}
"""
COMMANDS = ("list", "show x", "forget x", "export", "export --jobs past.csv")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    with Database(path) as database, database.transaction():
        database.put([*rows()[:3], ended(position=2, rounds=9), FIRST, SECOND])
    return path


def test_what_is_kept_is_listed_and_shown_the_latest_first(warren: Warren, db: Path) -> None:
    found = warren("profile", "list", "--db", db)
    assert [line.split()[0] for line in found.out.splitlines()] == ["key", "f" * 12, FIRST.key[:12]]
    assert "125.000 ms" in found.out
    assert warren("profile", "list", "--db", db, "--json").json == [asdict(SECOND), asdict(FIRST)]
    shown = warren("profile", "show", FIRST.key[:6], "--db", db)
    assert dict(line.split(None, 1) for line in shown.out.splitlines())["comp_s"] == "0.5"
    one = warren("profile", "show", FIRST.key, "--db", db, "--json").json
    assert one == [asdict(FIRST)]


def test_a_list_says_when_where_and_under_which_load_a_profile_was_made(
    warren: Warren, db: Path
) -> None:
    busy = replace(FIRST, machine="a processor of 8 cores", updated_at=1e9, load=7.25)
    with Database(db) as database, database.transaction():
        database.put([busy])
    head, line, other = warren("profile", "list", "--db", db).out.splitlines()
    assert "when (UTC)" in head
    assert line.endswith("2001-09-09 01:46    7.2  a.py:A, a; a processor of 8 cores")
    assert other.endswith("     -  a.py:A, b; m")
    shown = warren("profile", "show", FIRST.key[:6], "--db", db)
    assert dict(line.split(None, 1) for line in shown.out.splitlines())["load"] == "7.25"


def test_a_database_without_loads_is_read_as_it_is_and_gets_them_once_it_is_written(
    warren: Warren, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(db)) as old:
        old.executescript("ALTER TABLE profiles DROP COLUMN load; PRAGMA user_version = 1")
    monkeypatch.setattr(history_database, "_may_write", lambda path: False)
    assert len(warren("profile", "list", "--db", db).out.splitlines()) == 3
    with closing(sqlite3.connect(db)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
    monkeypatch.undo()
    with Database(db) as database, database.transaction():
        database.put([replace(FIRST, load=1.5)])
    assert sorted(row.load or 0.0 for row in known_profiles(db)) == [0.0, 1.5]
    with closing(sqlite3.connect(db)) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_key_that_is_forgotten_is_gone_and_no_other(warren: Warren, db: Path) -> None:
    found = warren("profile", "forget", "fff", "--db", db, "--json")
    assert (found.code, found.json) == (0, {"forgotten": "f" * 64})
    assert warren("profile", "list", "--db", db, "--json").json == [asdict(FIRST)]
    told = warren("profile", "forget", "fff", "--db", db).complaint
    assert told == f"profile: KEY: 'fff': no such key and no such job; allowed: {FIRST.key[:12]}"


def test_the_database_is_named_by_the_option_or_the_environment(
    warren: Warren, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HISTORY", str(db))
    assert len(warren("profile", "list", "--json").json) == 2
    assert len(warren("profile", "list", "--json", "--db", db).json) == 2
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "none.db"))
    assert warren("profile", "list", "--json").json == []


def test_a_key_may_be_the_name_of_a_job_that_list_shows(warren: Warren, db: Path) -> None:
    assert warren("profile", "show", "b", "--db", db, "--json").json == [asdict(SECOND)]
    with Database(db) as database, database.transaction():
        database.put(replace(FIRST, key=f"{at}0" * 32) for at in range(9))
    told = warren("profile", "forget", "a", "--db", db).complaint
    assert told.startswith("profile: KEY: 'a': stands for several keys; allowed: 000000000000, 10")
    assert told.endswith(" and 2 more")
    assert warren("profile", "forget", "b", "--db", db).code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_named_and_not_there_is_reported(
    warren: Warren, tmp_path: Path, command: str
) -> None:
    found = warren("profile", *command.split(), "--db", tmp_path / "none.db")
    assert (found.code, found.out) == (2, "")
    assert found.complaint == f"{tmp_path}/none.db: no such file"
    assert not (tmp_path / "none.db").exists()


def test_exported_rows_price_jobs_of_a_run(warren: Warren, db: Path, tmp_path: Path) -> None:
    jobs = "jobs: [{name: b, app: a.py:A, batch: 8, rounds: 3}]"
    path = write_run(tmp_path / "in", jobs=jobs)
    out = tmp_path / "in" / "rows.yaml"
    cluster = tmp_path / "in" / "cluster.yaml"
    found = warren("profile", "export", "--db", db, "--cluster", cluster, "--out", out, "--json")
    assert found.code == 0, found.err
    assert found.json == yaml.safe_load(out.read_text())
    assert found.err == [f"written: {out}, 2 rows"]
    own, other = "measured:a.py:A, batch 8, ps", "measured:a.py:A, batch 16, ps"
    assert found.json[own]["comp"] == {"V100": 500.0, "K80": 500.0}  # time_scale 0.001
    run = load_run(path, read, {"profiles": "rows.yaml"})
    assert {row.model for row in run.profiles} == {own, other}
    told = warren("simulate", path, "--set", "profiles=rows.yaml", "--json")
    assert told.code == 0, told.err
    assert told.json["makespan_s"] == pytest.approx(3 * (500 + 250))
    plain = warren("profile", "export", "--db", db)
    assert yaml.safe_load(plain.out)[other]["comp"] == {"CPU": 0.125}


def test_exported_rows_replace_measuring_whatever_the_jobs_are_called(
    warren: Warren, tmp_path: Path
) -> None:
    db, path = tmp_path / "history.db", write_run(tmp_path / "in", jobs=KINDS)
    asked = {"mod-1": (8, "{}"), "line-1": (20, "{}"), "line-2": (20, '{"lr":0.1}')}
    with Database(db) as database, database.transaction():
        database.put(
            replace(
                FIRST, key=f"{at}" * 64, job="mod-1", batch=batch, params=params, comp_s=1.0 + at
            )
            for at, (batch, params) in enumerate(asked.values())
        )
        database.put([replace(FIRST, key="e" * 64, job="mod-1", updated_at=1.0, comp_s=9.0)])
    out, cluster = tmp_path / "in" / "rows.yaml", tmp_path / "in" / "cluster.yaml"
    told = warren("profile", "export", "--db", db, "--cluster", cluster, "--out", out)
    assert told.code == 0
    assert told.err[1].startswith("no job uses measured:a.py:A, batch 8, ps, eeeeeeeeeeee: ")
    out.write_text(out.read_text().replace(", eeeeeeeeeeee", ", a row that no job takes"))
    found = warren("simulate", path, "--set", "profiles=rows.yaml", "--out", tmp_path / "out")
    assert found.code == 0, found.err
    assert not any("measuring" in line for line in found.err)
    lines = (tmp_path / "out" / "profile.csv").read_text().splitlines()
    comp_s = {line.split(",")[0]: float(line.split(",")[2]) for line in lines[1:]}
    assert comp_s == {"mod-1": 1000, "mod-2": 1000, "line-1": 2000, "line-2": 3000}


def test_exported_jobs_are_a_workload_with_its_costs(
    warren: Warren, db: Path, tmp_path: Path
) -> None:
    to = tmp_path / "in" / "past.csv"
    path = write_run(tmp_path / "in", run=RUN.replace("jobs.yaml", "past.csv"),
                     cluster="hosts: [{name: h, devices: {CPU: 2}}]")  # fmt: skip
    found = warren("profile", "export", "--db", db, "--jobs", to, "--json")
    assert (found.code, found.json["jobs"], found.json["to"]) == (0, 2, str(to))
    assert len(found.json["digest"]) == 64
    lines = to.read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["job", "a", "a-2"]
    told = warren("simulate", path, "--set", "profiles=past.profiles.yaml", "--json")
    assert told.code == 0, told.err
    assert (told.json["jobs"], told.json["tasks"]) == (2, 2 * (5 + 9))
    assert told.json["makespan_s"] >= 9 * 0.75


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_history_is_no_error_where_all_is_asked_for(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARREN_HISTORY", str(tmp_path / "none.db"))
    found = warren("profile", *command.split(), "--json")
    if "x" in command.split():
        assert found.complaint == "profile: KEY: nothing was measured yet"
    else:
        assert found.code == 0
        assert isinstance(found.json, dict | list)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_database_that_cannot_be_used_is_one_line(
    warren: Warren, tmp_path: Path, command: str
) -> None:
    bad = tmp_path / "bad.db"
    bad.write_bytes(b"x" * 5000)
    found = warren("profile", *command.split(), "--db", bad)
    assert (found.code, found.out) == (2, "")
    assert found.complaint.startswith(f"{bad}: is no usable history database: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            "lst",
            "lst: no such file; allowed: a job file with --cluster, or measure, list, show, ",
        ),
        ("in/jobs.yaml", "profile: --cluster: is missing; allowed: a cluster file"),
        ("in/jobs.yaml --cluster no.yaml", "no.yaml: cannot be read: no such file"),
        (
            "in/jobs.yaml --cluster in/cluster.yaml --job z",
            "in/jobs.yaml: --job: no job 'z' here; ",
        ),
        ("in/jobs.yaml --cluster in/cluster.yaml --tasks 0", "profile measure: --tasks: "),
        ("show", "profile show: KEY is missing; "),
        ("export --jobs past.yaml", "past.yaml: allowed: a table of jobs, .csv"),
        ("export --jobs past.csv --averages", "--jobs: writes jobs; leave out --out, --cluster "),
    ],
)
def test_wrong_use_says_what_is_allowed(
    warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, told: str
) -> None:
    write_run(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    found = warren("profile", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert found.complaint.startswith(told)


@pytest.mark.parametrize(
    ("devices", "more", "absent"),
    [
        ("CPU: 2", "", ""),
        ("CPU-big: 1, cpu: 1", "", ""),
        ("V100: 1, CPU: 1, K80: 1", "", "V100, K80"),
        ("V100: 1", "emulate: {time_scale: 1}", ""),
    ],
)
def test_a_type_that_this_machine_lacks_is_refused_unless_it_is_played(
    tmp_path: Path, devices: str, more: str, absent: str
) -> None:
    path = str(tmp_path / "c.yaml")
    Path(path).write_text(f"hosts: [{{name: h, devices: {{{devices}}}}}]\n{more}\n")
    cluster = load_cluster(path, read)
    if not absent:
        check_device_types(cluster, path, "device_types")
        return
    with pytest.raises(SpecError) as error:
        check_device_types(cluster, path, "device_types")
    start = f"{path}: device_types: this machine has no {absent}; allowed: CPU, "
    assert str(error.value).startswith(start)


def test_several_jobs_may_be_asked_for_and_a_cluster_that_charges_switching_is_measured_for(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "in")
    cluster = tmp_path / "in" / "cluster.yaml"
    cluster.write_text(f"{cluster.read_text()}switching: {{time: 1 s}}\n")
    run = _run(str(tmp_path / "in" / "jobs.yaml"), str(cluster), ["c", "b", "b"])
    check_apps(run)
    assert [(job.index, job.name) for job in run.workload.jobs] == [(0, "b"), (1, "c")]
    with pytest.raises(SpecError, match="no job 'x', 'y' here; allowed: a, b, c"):
        _run(str(tmp_path / "in" / "jobs.yaml"), str(cluster), ["x", "b", "y"])


def test_jobs_without_an_app_are_skipped_and_refused_where_there_is_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = "\n  - {name: x, model: vgg19, rounds: 3}\n  - {name: y, model: vgg19, rounds: 3}"
    write_run(tmp_path / "in", jobs=JOBS.rstrip() + without)
    jobs, cluster = str(tmp_path / "in" / "jobs.yaml"), str(tmp_path / "in" / "cluster.yaml")
    run = _run(jobs, cluster, [])
    check_apps(run)
    assert [(job.index, job.name) for job in run.workload.jobs] == [(0, "a"), (1, "b"), (2, "c")]
    assert capsys.readouterr().err == "skipped, no app to measure: x, y\n"
    with pytest.raises(SpecError, match=f"{jobs}: app: no app to measure in x, y"):
        _run(jobs, cluster, ["y", "x"])
