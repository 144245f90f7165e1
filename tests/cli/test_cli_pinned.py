"""A run's folder holds the text of its apps: what goes on with it, and what says so."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import CHECKOUT, JOBS, Warren, write_run
from test_cli_resume import Stand, World

import warren as from_python
from warren.core.journal_reader import read_history
from warren.live.training.app.pinned_files import INDEX, load_pins, pin_files
from warren.model.errors import SpecError
from warren.model.job import AppSource
from warren.model.run import Run

DRAWN = CHECKOUT / "tests" / "cli" / "drawn_apps.py"


class Pinned(World):
    """Its apps are files of its own: one for ``a`` and ``b``, which has a neighbor, one for c."""

    def __init__(self, warren: Warren, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        super().__init__(warren, monkeypatch, folder)
        jobs = JOBS.replace(f"{DRAWN}:Largest", "c.py:Largest").replace(str(DRAWN), "own/ab.py")
        self.apps = folder / "in"
        write_run(self.apps, jobs=jobs)
        (self.apps / "own").mkdir()
        self.write("own/ab.py", "import near\n" + DRAWN.read_text())
        self.write("own/near.py", "")
        self.write("c.py", DRAWN.read_text())
        self.runs: list[Run] = []

    def _port(self, run: Any, costs: Any, out: object) -> Stand:
        self.runs.append(run)
        return super()._port(run, costs, out)

    def write(self, name: str, text: str) -> None:
        """One file of an app."""
        (self.apps / name).write_text(text)

    def source(self, file: str) -> AppSource:
        """Of the run that was started last."""
        sources = self.runs[-1].sources
        assert sources is not None
        return sources[file]

    @property
    def hashes(self) -> dict[str, str]:
        """What ``jobs.csv`` says, by job."""
        rows = csv.DictReader(io.StringIO((self.out / "jobs.csv").read_text()))
        return {row["job"]: row["app_sha256"] for row in rows}

    def kept(self) -> dict[str, bytes]:
        """All files of the folder of texts."""
        return {path.name: path.read_bytes() for path in (self.out / "apps").iterdir()}

    @property
    def index(self) -> Path:
        return self.out / "apps" / INDEX


@pytest.fixture
def world(warren: Warren, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pinned:
    return Pinned(warren, monkeypatch, tmp_path)


def changes(told: list[str]) -> list[str]:
    return [line for line in told if "changed" in line]


def test_a_run_goes_on_with_the_text_it_began_with_and_says_which_files_changed(
    world: Pinned,
) -> None:
    world.begin(12)
    first, of_c = world.source("own/ab.py"), world.source("c.py")
    assert sorted(first.texts) == ["ab.py", "near.py"]
    assert world.hashes == {"a": first.sha256, "b": first.sha256, "c": of_c.sha256}
    assert load_pins(world.out / "apps") == [world.runs[0].sources]
    kept = world.kept()
    assert changes(world.resume(3).err) == []
    world.write("own/ab.py", "import new\n" + DRAWN.read_text())
    world.write("own/new.py", "")
    (world.apps / "own" / "near.py").unlink()
    world.write("c.py", "raise SystemExit\n")
    told = world.resume(3).err
    assert told[1] == (
        f"{world.out}: changed since the run began: own/ab.py, own/near.py (gone), own/new.py "
        "(new), c.py; going on with the text it began with; `--app new` takes the other one"
    )
    shutil.rmtree(world.apps / "own")
    (line,) = changes(world.resume().err)
    assert "own/ab.py (gone), own/near.py (gone), c.py; going on" in line
    assert (world.source("own/ab.py"), world.source("c.py")) == (first, of_c)
    assert world.hashes == {"a": first.sha256, "b": first.sha256, "c": of_c.sha256}
    assert world.kept() == kept
    assert world.warren("report", world.out, "--check").code == 0


def test_new_text_is_taken_when_asked_for_and_stands_in_the_record(world: Pinned) -> None:
    cut_at = 12
    while True:  # until a job has ended and others have not
        world.begin(cut_at)
        history = read_history(world.journal)
        if (history.finish_ns_J >= 0).any():
            break
        shutil.rmtree(world.out)
        cut_at += 2
    old = world.hashes
    ended = [name for job, name in enumerate("abc") if history.finish_ns_J[job] >= 0]
    assert 0 < len(ended) < 3
    for name in ("own/ab.py", "c.py"):
        world.write(name, "x = 1\n" + DRAWN.read_text())
    told = world.resume(2, "--app", "new").err
    files = ", ".join(
        dict.fromkeys("c.py" if n == "c" else "own/ab.py" for n in "abc" if n not in ended)
    )
    assert changes(told)[0].startswith(
        f"{world.out}: going on with the apps on disk; changed since the run began: {files}"
    )
    new = world.runs[-1].app_sha256_J
    expected = {
        name: old[name] if name in ended else f"{old[name]} {new[job]}"
        for job, name in enumerate("abc")
    }
    assert world.hashes == expected
    assert len(load_pins(world.out / "apps")) == 2
    told = world.resume(None).err  # from now on it is the text of the run
    assert changes(told) == []
    assert world.runs[-1].app_sha256_J == new
    assert world.hashes == expected


def test_the_journal_says_which_text_it_is(world: Pinned) -> None:
    """As when a run was killed after new text was kept, and before it went on with it."""
    world.begin(12)
    first = world.runs[0].sources
    assert first is not None
    other = {file: AppSource(folder="/", main="o.py", texts={"o.py": b""}) for file in first}
    for name, data in pin_files([first, other]).items():
        (world.out / "apps" / name).write_bytes(data)
    assert world.resume(2).code == 130
    assert world.runs[-1].sources == first
    assert load_pins(world.out / "apps") == [first, other, first]


def spoil_text(world: Pinned) -> Path:
    path = world.out / "apps" / f"{world.source('c.py').sha256}.py"
    path.write_bytes(path.read_bytes() + b"\n")
    return path


def drop_text(world: Pinned) -> Path:
    path = world.out / "apps" / f"{world.source('c.py').sha256}.py"
    path.unlink()
    return path


def drop_all(world: Pinned) -> Path:
    shutil.rmtree(world.out / "apps")
    return world.index


def put_other(world: Pinned) -> Path:
    other = AppSource(folder="/", main="o.py", texts={"o.py": b""})
    for name, data in pin_files([{"own/ab.py": other, "c.py": other}]).items():
        (world.out / "apps" / name).write_bytes(data)
    return world.index


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_text, "is damaged: its text has another hash than its name says"),
        (drop_text, "is missing"),
        (drop_all, "is missing"),
        (put_other, "holds no texts of apps with the hashes that the journal names; `--app new` "
                    "goes on with those on disk"),
    ],
)  # fmt: skip
def test_texts_that_are_not_as_the_run_left_them_are_refused_and_new_ones_can_be_taken(
    world: Pinned, spoil: Callable[[Pinned], Path], words: str
) -> None:
    world.begin(12)
    path, before = spoil(world), world.journal
    told = world.resume()
    assert (told.code, told.err[-1]) == (2, f"warren: {path}: {words}")
    assert len(told.err) == 2
    assert world.journal == before
    world.write("c.py", "x = 1\n" + DRAWN.read_text())
    assert world.resume(None, "--app", "new").code == 0
    assert world.hashes["c"].split()[-1] == world.source("c.py").sha256


def test_what_cannot_be_taken_is_reported_in_one_line_and_changes_nothing(
    world: Pinned, warren: Warren
) -> None:
    world.begin(12)
    before, kept = world.journal, world.kept()
    world.write("c.py", "class Least: pass\n")
    (world.apps / "own" / "ab.py").unlink()
    told = world.resume(None, "--app", "new")
    assert told.code == 2
    assert [line.partition("job a: ")[2] for line in told.err if "ab.py" in line][:1] == [
        f"app: own/ab.py:Sides: cannot be read: {world.apps}/own/ab.py: no such file"
    ]
    world.write("own/ab.py", DRAWN.read_text())
    told = world.resume(None, "--app", "new")
    assert (told.code, told.err[-1].partition("job c: ")[2]) == (
        2, "app: c.py:Largest: has no class 'Largest'; it has: Least",
    )  # fmt: skip
    assert (world.journal, world.kept()) == (before, kept)
    for arguments, line in (
        (("run", "--resume", world.out, "--app", "old"),
         "run: --app: 'old' is unknown; allowed: pinned, new"),
        (("run", world.run_file, "--app", "new"), "run: --app: goes with --resume DIR"),
    ):  # fmt: skip
        told = warren(*arguments)
        assert (told.code, told.complaint) == (2, line)
    with pytest.raises(SpecError, match="'old' is unknown; allowed: pinned, new"):
        from_python.resume(world.out, app="old")
    world.cut_at = None
    world.write("c.py", DRAWN.read_text())
    assert from_python.resume(world.out, app="new").summary["finished"] == 3
    for _ in range(2):  # nothing is left, whatever became of the texts
        assert world.resume().code == 0
        shutil.rmtree(world.out / "apps", ignore_errors=True)


def test_a_run_cut_off_before_it_kept_texts_begins_with_what_is_on_disk(world: Pinned) -> None:
    world.begin(12)
    (world.out / "journal").write_bytes(b"")
    shutil.rmtree(world.out / "apps")
    world.write("c.py", "x = 1\n" + DRAWN.read_text())
    told = world.resume(4)
    assert (told.code, changes(told.err)) == (130, [])
    assert world.source("c.py").texts["c.py"].startswith(b"x = 1")
    assert load_pins(world.out / "apps") == [world.runs[-1].sources]
