"""The folder of results: never overwritten, never half there after wrong input."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import RUN, Warren, write_run

from warren.model.errors import SpecError
from warren.runs.inputs import run_of
from warren.store.files import OUTPUT_FILES, write_atomic
from warren.store.run_folder import RunFolder, default_dir


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_simulation_writes_the_contracts_files_and_no_other(warren: Warren, tiny: str) -> None:
    out = Path(tiny).parent / "new" / "deeper" / "out"
    found = warren("simulate", tiny, "--out", out)
    assert found.code == 0
    assert sorted(tree(out)) == sorted([*OUTPUT_FILES, "users.csv"])  # a job has a user
    assert found.err == [f"report: {out}/report.html"]


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_folder_that_is_not_empty_is_refused_and_stays_as_it_is(
    warren: Warren, tiny: str, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    found = warren(command, tiny, "--out", out)
    assert found.code == 2
    assert "is not empty; give a new folder" in found.complaint
    assert tree(out) == {"mine": b"mine"}


@pytest.mark.parametrize("command", ["simulate", "run"])
def test_a_place_that_cannot_be_a_folder_is_refused(
    warren: Warren, tiny: str, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "out", Path("/proc/out")):
        found = warren(command, tiny, "--out", out)
        assert found.code == 2
        assert str(out) in found.complaint
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_is_taken_and_given_back_empty_after_wrong_input(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    wrong = ["--set", "cluster.network.model=air"]
    assert warren("simulate", tiny, "--out", tmp_path / "out", *wrong).code == 2
    assert list((tmp_path / "out").iterdir()) == []
    assert warren("simulate", tiny, "--out", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        "cluster.network.model=air",
        "grain=0",
        "scheduler.place=best",
        "workload={jobs: none.yaml}",
    ],
)
@pytest.mark.parametrize("command", ["simulate", "run"])
def test_wrong_input_leaves_no_folder_behind(
    warren: Warren, tiny: str, tmp_path: Path, command: str, wrong: str
) -> None:
    found = warren(command, tiny, "--out", tmp_path / "new" / "out", "--set", wrong)
    assert found.code == 2
    assert found.complaint
    assert not (tmp_path / "new").exists()


def test_a_job_without_its_app_cannot_be_trained(warren: Warren, tmp_path: Path) -> None:
    jobs = """
- {name: a, app: none.py:App, model: resnet50, scale: 1, rounds: 1}
- {name: b, app: in.py:Other, model: resnet50, scale: 1, rounds: 1}
- {name: c, app: lda, model: resnet50, scale: 1, rounds: 1}
- {name: d, model: resnet50, scale: 1, rounds: 1}
"""
    path = write_run(tmp_path, jobs=jobs)
    (tmp_path / "in.py").write_text("class App: pass\n")
    found = warren("run", path, "--out", tmp_path / "out")
    assert found.code == 2
    told = dict(zip("dabc", found.err, strict=True))
    assert "no app to train in d" in told["d"]
    assert f"cannot be read: {tmp_path}/none.py: no such file" in told["a"]
    assert "has no class 'Other'; it has: App" in told["b"]
    assert 'allowed: "path/file.py:Class"' in told["c"]
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_up_ends_a_simulation_in_one_line_and_leaves_nothing(
    tiny: str, tmp_path: Path
) -> None:
    """A limit on the size of files stands in for a full disk."""
    for limit in (100, 3000, 20_000):
        done = subprocess.run(
            [sys.executable, "-m", "warren", "simulate", tiny, "--out", tmp_path / "out"],
            capture_output=True,
            text=True,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit,) * 2),  # type: ignore[misc]
        )
        assert done.returncode == 2
        assert done.stderr.startswith(f"warren: {tmp_path / 'out'}")
        assert done.stderr.endswith("cannot be written: File too large\n")
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_a_journal_is_on_disk_at_once_where_that_was_asked_for(tmp_path: Path) -> None:
    for durable in (True, False):
        with RunFolder(str(tmp_path / str(durable)), durable=durable) as folder:
            folder.journal(b"one")
            folder.journal(b"two")
            on_disk = (folder.path / "journal").read_bytes()
            assert on_disk == (b"onetwo" if durable else b"")
            assert folder.journal_bytes() == b"onetwo"
            assert not (folder.path / "journal").stat().st_mode & 0o111


def test_a_folder_goes_with_those_made_above_it_unless_it_is_kept(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with RunFolder(str(tmp_path / "there" / "a" / "b")) as folder:
        folder.write({"jobs.csv": "x"})
        (folder.path / "logs").mkdir()
    assert list((tmp_path / "there").iterdir()) == []
    with RunFolder(str(tmp_path / "there" / "a" / "b")) as folder:
        folder.keep()
    assert tree(tmp_path) == {"there/a/b/journal": b""}


def test_a_file_that_cannot_be_written_leaves_no_part_of_it(tmp_path: Path) -> None:
    with RunFolder(str(tmp_path / "out")) as folder:
        (folder.path / "jobs.csv").mkdir()
        with pytest.raises(SpecError, match="cannot be written"):
            folder.write({"jobs.csv": "x"})
        assert sorted(os.listdir(folder.path)) == ["jobs.csv", "journal"]


def test_the_folder_of_a_live_run_is_named_after_run_and_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_run(tmp_path, run=RUN.replace("name: tiny", "name: '../a b'"))
    assert default_dir(run_of(path, None, [])) == "out/a-b-srtf"
    (tmp_path / "out" / "a-b-Mine").mkdir(parents=True)
    name = default_dir(run_of(path, "some/file.py:Mine", []))
    assert name == "out/a-b-Mine"
    with RunFolder(name, numbered=True) as folder:
        assert str(folder.path) == "out/a-b-Mine-2"


class Meanwhile:
    """Lets another process act once, right before a call of the file system."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str, act: Callable[[], Any]) -> None:
        self.acted = False
        real = getattr(os, call)

        def called(*args: Any, **more: Any) -> Any:
            if not self.acted:
                self.acted = True
                act()
            return real(*args, **more)

        monkeypatch.setattr(os, call, called)


def other_run(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "journal").write_bytes(b"of another run")


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_run_that_names_no_folder_gets_the_next_name_if_another_run_takes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    out = tmp_path / "out" / "a-srtf"

    def act() -> None:
        if call == "open":  # this run has made the folder
            (out / "journal").write_bytes(b"of another run")
        else:
            other_run(out)

    meanwhile = Meanwhile(monkeypatch, call, act)
    with RunFolder(str(out), durable=True, numbered=True) as folder:
        assert meanwhile.acted
        assert folder.path == out.with_name("a-srtf-2")
        folder.keep()
    assert tree(tmp_path) == {"out/a-srtf/journal": b"of another run", "out/a-srtf-2/journal": b""}


@pytest.mark.parametrize("what", ["journal", "notes.txt"])
def test_what_comes_into_a_named_folder_meanwhile_is_refused_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    out = tmp_path / "out"
    Meanwhile(monkeypatch, "open", lambda: (out / what).write_bytes(b"mine"))
    with pytest.raises(SpecError, match="exists already; give a new folder"), RunFolder(str(out)):
        pass
    assert tree(tmp_path) == {f"out/{what}": b"mine"}


def test_the_folder_of_a_run_that_was_killed_before_it_began_is_taken(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal").touch()
    assert warren("simulate", tiny, "--out", out).code == 0
    assert (out / "report.html").is_file()
    assert warren("simulate", tiny, "--out", out).err == [
        f"warren: {out}: exists already and is not empty; give a new folder"
    ]


def test_the_folder_of_a_run_that_was_cut_off_is_refused_with_the_way_to_go_on(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal").write_bytes(b"records")
    refused = warren("simulate", tiny, "--out", out)
    assert refused.code == 2
    assert refused.err[-1].endswith(f"or go on with its run: warren run --resume {out}")


def test_an_empty_journal_that_a_run_holds_is_left_to_it(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with RunFolder(str(out)):
        refused = warren("simulate", tiny, "--out", out)
        assert refused.code == 2
        assert "is in use by a run that goes on" in refused.err[-1]
        assert os.listdir(out) == ["journal"]


def test_a_folder_that_another_run_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "a"
    # A run beside this one ended before its begin, and removed ``out``, which it had made.
    Meanwhile(monkeypatch, "open", lambda: (out.rmdir(), out.parent.rmdir()))
    with RunFolder(str(out)) as folder:
        folder.keep()
    assert tree(tmp_path) == {"out/a/journal": b""}


def test_two_that_write_one_file_at_once_leave_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, mine = tmp_path / "page.html", os.getpid()

    def act() -> None:
        monkeypatch.setattr(os, "getpid", lambda: mine + 1)
        write_atomic(page, "of the other")
        monkeypatch.setattr(os, "getpid", lambda: mine)

    Meanwhile(monkeypatch, "replace", act)
    write_atomic(page, "mine")
    assert tree(tmp_path) == {"page.html": b"mine"}


def test_a_file_that_comes_while_simulations_run_is_no_page_and_stays(
    warren: Warren, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "results"
    Meanwhile(monkeypatch, "link", lambda: kept.write_bytes(b"mine"))
    told = warren("compare", tiny, "--out", kept)
    assert (told.code, kept.read_bytes()) == (2, b"mine")
    assert "results: cannot be written: File exists" in told.err[-1]
    kept.unlink()
    assert warren("compare", tiny, "--out", kept).code == 0
    assert kept.read_bytes().startswith(b"<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_a_dry_run_writes_nothing_and_prints_a_run_file_that_is_the_same_run(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    before = tree(tmp_path)
    for command in ("simulate", "run"):
        shown = warren(command, tiny, "--dry-run", "--place", "hare", "--out", tmp_path / "out")
        assert (shown.code, shown.err) == (0, [])
        assert tree(tmp_path) == before
    again = tmp_path / "again.yaml"
    again.write_text(shown.out)
    assert warren("simulate", again, "--dry-run").out == shown.out
    assert warren("simulate", tiny, "--dry-run", "--json").json["scheduler"]["place"] == "srtf"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    assert warren("run", tiny, "--dry-run", "--out", tmp_path / "out").code == 2


def test_a_live_run_refuses_a_charge_that_only_simulations_know(
    warren: Warren, tmp_path: Path
) -> None:
    (tmp_path / "in.py").write_text("class App: pass\n")
    jobs = "- {name: a, app: in.py:App, model: resnet50, scale: 1, rounds: 1}"
    path = write_run(tmp_path, jobs=jobs)
    switching = ["--set", "cluster.switching.scheme=hare"]
    found = warren("run", path, "--out", tmp_path / "out", *switching)
    assert found.code == 2
    (line,) = found.err
    assert "cluster.switching: is charged in simulations only" in line
    assert not (tmp_path / "out").exists()
    assert warren("simulate", path, *switching).code == 0
