"""Runs killed, interrupted or out of disk, with real processes: they go on, and end well."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_runs import JOBS, Warren, write_run
from test_cli_live import Command, has_lines

import warren as from_python
from warren.core.journal import Step, decode
from warren.model.events import ParamsSaved, RoundsDone

pytestmark = pytest.mark.live

ROUNDS = {"a": 60, "b": 40, "c": 40}


def run_file(folder: Path, more: str = "") -> str:
    """The tiny run with more rounds."""
    jobs = JOBS
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


def test_killed_and_interrupted_a_run_goes_on_and_trains_the_same_bits(
    warren: Warren, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    run, plain = run_file(tmp_path, "checkpoint: {every: 7},"), "cluster.engine=plain"
    assert Command(tmp_path, "run", run, "--set", plain, "--out", whole).end()[0] == 0
    how = "--place", "hare", "--set", "grain=20 rounds"
    command = Command(tmp_path, "run", run, *how, "--out", out)
    for rows, signum in ((15, signal.SIGKILL), (35, signal.SIGINT)):
        command.wait_for(has_lines(out / "metrics" / "a.csv", rows))
        command._process.send_signal(signum)
        command._process.communicate(timeout=60)
        command = Command(tmp_path, "run", "--resume", out)
    code, _, err, _ = command.end()
    assert code == 0, err
    assert err[0].startswith(f"{out}: going on at ")
    assert hashes(out) == hashes(whole)
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["finished"], summary["resumed"]) == (3, 2)
    assert summary["tasks"] == 60 * 2 + 40 * 3 + 40
    assert warren("report", out, "--check").code == 0
    assert not (out / "checkpoints").exists()
    check_metrics(out)
    check_ends((out / "journal").read_bytes())


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


@pytest.mark.parametrize(
    ("size", "where"),
    [
        ("4k", ["profile.csv"]),  # before anything runs
        ("24k", ["", "journal"]),  # while it runs
        ("160k", ["trace.json", "report.html"]),  # when it has run
    ],
)
def test_a_disk_that_takes_no_more_ends_a_run_in_clear_lines_and_with_room_it_goes_on(
    disk: Callable[[str], Path], tmp_path: Path, size: str, where: list[str]
) -> None:
    run, out = run_file(tmp_path), disk(f"size={size}") / "out"
    told = [f"warren: {out / name}: cannot be written: No space left on device" for name in where]
    code, printed, err, _ = Command(tmp_path, "run", run, "--out", out).end()
    assert (code, printed) == (2, "")
    assert err[-1] in told
    if size == "4k":
        assert not out.exists()
        return
    code, _, err, _ = Command(tmp_path, "run", "--resume", out).end()
    assert code == 2
    assert err[-1].endswith("cannot be written: No space left on device")
    disk("size=16m")
    code, _, err, _ = Command(tmp_path, "run", "--resume", out).end()
    assert code == 0, err
    check_metrics(out)
    disk("ro")
    for arguments in (("run", "--resume", out), ("run", run, "--out", out.with_name("new"))):
        code, printed, err, _ = Command(tmp_path, *arguments).end()
        assert (code, printed) == (2, "")
        assert err[-1].endswith("cannot be written: Read-only file system")
