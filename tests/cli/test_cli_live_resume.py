"""Runs killed, interrupted or out of disk, with real processes: they go on, and end well."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import processes
import pytest
from cli_runs import CHECKOUT, JOBS, Warren, write_run
from test_cli_live import LIVE_FILES, Command, files_in, has_lines

import warren as from_python
from warren.core.journal import Step
from warren.core.journal_reader import decode
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.events import ParamsSaved, RoundsDone
from warren.profile.published import BATCHES
from warren.store.files import read
from warren.workload.run_file import load_run

pytestmark = pytest.mark.live

DRAWN = CHECKOUT / "tests" / "cli" / "drawn_apps.py"
ROUNDS = {"a": 60, "b": 40, "c": 40}


def run_file(folder: Path, more: str = "") -> str:
    """The tiny run with more rounds, its apps in a file of its own, ``in/apps.py``."""
    jobs = JOBS.replace(str(DRAWN), "apps.py")
    (folder / "in").mkdir()
    (folder / "in" / "apps.py").write_text(DRAWN.read_text())
    for old, new in zip(("6", "8", "9"), ROUNDS.values(), strict=True):
        jobs = jobs.replace(f"rounds: {old},", f"rounds: {new}, {more}")
    return write_run(folder / "in", jobs=jobs)


def hashes(out: Path) -> dict[str, str]:
    return {name: job.row["params_sha256"] for name, job in from_python.load(out).jobs.items()}


def check_metrics(out: Path) -> None:
    """One whole row a round."""
    for name, rounds in ROUNDS.items():
        rows = list(csv.DictReader((out / "metrics" / f"{name}.csv").read_text().splitlines()))
        assert [int(row["round"]) for row in rows] == list(range(rounds))
        assert all(float(row["loss"]) > 0 and None not in row.values() for row in rows)


def check_ends(journal: bytes) -> None:
    """A job's end and its hash are one record, so a torn journal has both or neither."""
    steps = [one.events for one in decode(journal) if isinstance(one, Step)]
    ends = [
        ({e.job for e in events if isinstance(e, RoundsDone) and e.finished},
         {e.job for e in events if isinstance(e, ParamsSaved)})
        for events in steps
    ]  # fmt: skip
    assert all(finished == saved for finished, saved in ends)
    assert sum(len(finished) for finished, _ in ends) == len(ROUNDS)


@dataclass(frozen=True)
class Story:
    """One run, interrupted, resumed and killed, and resumed to its end: what was seen.

    After the interruption the text of its apps was another one on disk.
    """

    folder: Path
    run: str
    interrupted: tuple[int, str, list[str]]
    interrupted_dir: Path
    killed_dir: Path
    ended: tuple[int, str, list[str]]
    plain: dict[str, str]

    @property
    def out(self) -> Path:
        """Of all three."""
        return self.folder / "out"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    run, out = run_file(folder, "checkpoint: {every: 7},"), folder / "out"
    plain = plain_hashes(run)
    how = "--place", "hare", "--set", "grain=20 rounds"
    command = Command(folder, "run", run, *how, "--out", out)
    command.wait_for(has_lines(out / "metrics" / "a.csv", 25))
    interrupted = command.end(signal.SIGINT)
    shutil.copytree(out, folder / "interrupted")
    (folder / "in" / "apps.py").write_text("raise SystemExit\n")
    before = processes.descendants(os.getpid())
    command = Command(folder, "run", "--resume", out)
    command.wait_for(has_lines(out / "metrics" / "a.csv", 45))
    command.kill()
    # A server may still be writing a checkpoint, whose file would be gone in the midst of a copy.
    processes.wait_until_gone(before)
    shutil.copytree(out, folder / "killed")
    ended = Command(folder, "run", "--resume", out).end()
    return Story(
        folder=folder, run=run, interrupted=interrupted,
        interrupted_dir=folder / "interrupted", killed_dir=folder / "killed", ended=ended,
        plain=plain,
    )  # fmt: skip


def plain_hashes(run_file: str) -> dict[str, str]:
    """What the plain loop gives, in this process."""
    run = load_run(run_file, read, {}, BATCHES)
    found = {}
    for one in run.workload.jobs:
        app = build_app(one, run.base)
        numerics.pin()
        found[one.name] = train(app, one).digest
    return found


def test_killed_and_interrupted_a_run_goes_on_and_trains_the_same_bits(
    story: Story, warren: Warren
) -> None:
    out, (code, _, err) = story.out, story.ended
    assert code == 0, err
    assert err[0].startswith(f"{out}: going on at ")
    assert err[1].startswith(f"{out}: changed since the run began: apps.py; going on with the text")
    assert hashes(out) == story.plain
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["finished"], summary["resumed"]) == (3, 2)
    assert summary["tasks"] == 60 * 2 + 40 * 3 + 40
    assert warren("report", out, "--check").code == 0
    assert not (out / "checkpoints").exists()
    check_metrics(out)
    check_ends((out / "journal").read_bytes())


def test_a_run_cut_off_in_training_keeps_what_ran_and_leaves_no_process(
    story: Story, warren: Warren
) -> None:
    code, printed, err = story.interrupted
    assert (code, printed) == (130, "")
    assert err[-2:] == [
        f"cut off; the journal and the tables of what ran are in {story.out}; "
        f"`warren run --resume {story.out}` goes on",
        "warren: interrupted",
    ]
    out = story.interrupted_dir
    assert files_in(out) == LIVE_FILES
    summary = json.loads((out / "summary.json").read_text())
    assert summary["unfinished"] > 0
    assert summary["tasks"] > 0
    assert warren("report", out).code == 0
    assert warren("compare", out, story.run, "--json").code == 0


def test_a_killed_run_leaves_no_process_and_a_journal_to_report_from(
    story: Story, warren: Warren
) -> None:
    found = warren("report", story.killed_dir, "--json")
    assert found.code == 0
    assert found.json["tasks"] > 0
    assert found.json["unfinished"] > 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes a disk of its own with these options, or changes it."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(options: str) -> Path:
        nonlocal mounted
        more = "remount," if mounted else ""
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", more + options, "tmpfs", place], capture_output=True
        )
        if done.returncode:
            pytest.skip("no disk can be mounted here")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", place], check=True)


def full(out: Path, *names: str) -> list[str]:
    """What is told when one of these could not be written."""
    return [f"warren: {out / name}: cannot be written: No space left on device" for name in names]


def test_a_disk_that_is_full_before_a_run_starts_is_reported_and_nothing_is_left(
    disk: Callable[[str], Path], tmp_path: Path
) -> None:
    out = disk("size=4k") / "out"
    code, printed, err = Command(tmp_path, "run", run_file(tmp_path), "--out", out).end()
    assert (code, printed) == (2, "")
    assert err[-1] in full(out, "profile.csv")
    assert not out.exists()


def test_a_disk_that_takes_no_more_ends_a_run_in_clear_lines_and_with_room_it_goes_on(
    disk: Callable[[str], Path], tmp_path: Path
) -> None:
    run, out = run_file(tmp_path), disk("size=32k") / "out"
    code, printed, err = Command(tmp_path, "run", run, "--out", out).end()
    assert (code, printed) == (2, "")
    assert err[-1] in full(out, "", "journal")  # while it runs
    disk("size=168k")
    for _ in range(2):  # when it has run, and when only tables are left to write
        code, _, err = Command(tmp_path, "run", "--resume", out).end()
        assert code == 2
        assert err[-1] in full(out, "trace.json", "report.html")
    disk("size=16m")
    code, _, err = Command(tmp_path, "run", "--resume", out).end()
    assert code == 0, err
    check_metrics(out)
    disk("ro")
    for arguments in (("run", "--resume", out), ("run", run, "--out", out.with_name("new"))):
        code, printed, err = Command(tmp_path, *arguments).end()
        assert (code, printed) == (2, "")
        assert err[-1].endswith("cannot be written: Read-only file system")
