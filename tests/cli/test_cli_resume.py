"""``--resume`` with a stand-in for the processes: what goes on, what is refused, what is told."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cli_runs import JOBS, Told, Warren, write_run

import warren as from_python
from warren.core.journal import MAGIC, Record, Step
from warren.core.journal_reader import frames, read_history
from warren.live.control.engine import refuse_another_class
from warren.model.errors import SpecError
from warren.model.events import AnyEvent
from warren.policy.place.hare.srtf import Srtf
from warren.runs import train as training

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import core_faults

JOURNAL_OPENS = len(MAGIC)


class Stand(core_faults.FaultyPort):
    """A port without processes; at its ``cut_at``-th step somebody presses Ctrl-C."""

    numerics = "torch 1; x86_64 AVX2; 1 thread"

    def start(self) -> None:
        if self.restart is not None:
            refuse_another_class(
                Path("out/journal"), self._run.workload.jobs, self.restart, self.numerics
            )

    def close(self) -> None:
        return

    def next_events(self) -> tuple[AnyEvent, ...]:
        try:
            return super().next_events()
        except core_faults.Cut:
            raise KeyboardInterrupt from None


class World:
    """Runs of the command whose processes are ``Stand``; checkpoints outlive each."""

    def __init__(self, warren: Warren, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.warren, self.out = warren, folder / "out"
        self.run_file = write_run(folder / "in")
        self._disk = core_faults.Disk()
        self.cut_at: int | None = None
        self.trouble = core_faults.Trouble(seed=1, rate=0.05, older=0.0)
        monkeypatch.setattr(training, "_live_port", self._port)

    def _port(self, run: Any, costs: Any, out: object) -> Stand:
        return Stand(run, costs, self.trouble, self._disk, self.cut_at)

    def begin(self, cut_at: int | None, *more: str) -> Told:
        self.cut_at = cut_at
        return self.warren("run", self.run_file, "--out", self.out, *more)

    def resume(self, cut_at: int | None = None, *more: str) -> Told:
        self.cut_at = cut_at
        return self.warren("run", "--resume", self.out, *more)

    @property
    def journal(self) -> bytes:
        return (self.out / "journal").read_bytes()


@pytest.fixture
def world(warren: Warren, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    return World(warren, monkeypatch, tmp_path)


WAYS = [("--place", "hare"), ("--place", "gavel-fifo"), ("--set", "grain=2 rounds")]


@pytest.mark.parametrize("more", WAYS)
def test_a_run_that_was_cut_off_goes_on_and_says_how(world: World, more: tuple[str, str]) -> None:
    told = world.begin(12, *more)
    assert told.code == 130
    assert told.err[-2:] == [
        f"cut off; the journal and the tables of what ran are in {world.out}; "
        f"`warren run --resume {world.out}` goes on",
        "warren: interrupted",
    ]
    before = world.journal
    told = world.resume(8)
    assert told.code == 130
    told = world.resume()
    assert told.code == 0
    assert told.err[0].startswith(f"{world.out}: going on at ")
    assert "the run was cut off and went on 2 times" in told.out
    assert world.journal.startswith(before)
    summary = json.loads((world.out / "summary.json").read_text())
    assert (summary["finished"], summary["resumed"]) == (3, 2)
    assert world.warren("report", world.out, "--check").code == 0
    assert from_python.load(world.out).job("a").row["status"] == "finished"


def _whole(journal: bytes) -> list[Record]:
    """The records that are whole."""
    return [] if MAGIC.startswith(journal) else [record for record, _ in frames(journal)]


def test_a_journal_torn_at_any_byte_goes_on_and_is_whole_again(world: World) -> None:
    world.begin(25)
    whole, places = world.journal, [end for _, end in frames(world.journal)]
    for size in (0, 3, JOURNAL_OPENS, places[0] - 1, places[0], places[3], places[7] + 5):
        (world.out / "journal").write_bytes(whole[:size])
        told = world.resume()
        assert told.code == 0, size
        begun = any(isinstance(one, Step) and one.events for one in _whole(whole[:size]))
        assert (f"{world.out}: nothing had run yet, starting at 0 s" in told.err) is not begun
        assert told.err[0].startswith(f"{world.out}: going on at ") is begun
        history = read_history(world.journal)
        assert (history.finish_ns_J >= 0).all()
        assert history.resumed == (size > places[0])
        assert world.warren("report", world.out, "--check").code == 0


def test_json_is_alone_and_python_does_the_same(world: World) -> None:
    world.begin(10)
    told = world.resume(None, "--json")
    assert told.json == json.loads((world.out / "summary.json").read_text())
    world.out = world.out.with_name("other")
    world.begin(10)
    world.cut_at = None
    assert from_python.resume(world.out).summary["finished"] == 3


class Given(Srtf):
    """A policy that only Python knows."""


def test_a_run_under_a_class_of_python_goes_on_only_with_that_class(world: World) -> None:
    world.cut_at = 10
    with pytest.raises(KeyboardInterrupt):
        from_python.run(world.run_file, out=world.out, place=Given)
    told = world.resume()
    assert told.code == 2
    assert "python:Given: place: Given is a class or object of the Python session" in told.err[-1]
    with pytest.raises(SpecError, match=r"^place: the run began with python:Given, not with srtf"):
        from_python.resume(world.out, place="srtf")
    world.cut_at = None
    assert from_python.resume(world.out, place=Given).summary["finished"] == 3
    assert world.warren("report", world.out, "--check").code == 0


def test_a_run_that_has_ended_has_nothing_left_and_ends_as_it_did(world: World) -> None:
    assert world.begin(None).code == 0
    for name in ("summary.json", "report.html"):
        (world.out / name).unlink()
    before = world.journal
    told = world.resume()
    assert told.code == 0
    assert told.err[0] == f"{world.out}: every job has ended; nothing is left to run"
    assert (world.out / "report.html").exists()
    assert world.journal == before
    world.out = world.out.with_name("failed")
    world.trouble = core_faults.Trouble(seed=2, rate=0.5, failing=True)
    assert world.begin(None).code == 1
    assert world.resume().code == 1


def test_a_failed_job_stays_failed(world: World) -> None:
    world.trouble = core_faults.Trouble(seed=2, rate=0.5, failing=True)
    cut_at = 5
    while True:
        world.out = world.out.with_name(f"out-{cut_at}")
        world.begin(cut_at)
        failed = read_history(world.journal).failed
        if failed:
            break
        cut_at += 1
    world.trouble = core_faults.Trouble(rate=0)
    assert world.resume().code == 1
    assert read_history(world.journal).failed == failed


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(out: Path) -> None:
        text = (out / name).read_text()
        assert old in text
        (out / name).write_text(text.replace(old, new))

    return edit


def not_begun(out: Path) -> None:
    (out / "journal").write_bytes(b"")
    for name in ("run.yaml", "profile.csv"):
        (out / name).unlink()


def damaged(out: Path) -> None:
    data = bytearray((out / "journal").read_bytes())
    data[len(data) // 2] ^= 1
    (out / "journal").write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damaged, "journal: damaged record at byte"),
        (edited("run.yaml", '"name": "b"', '"name": "bb"'), "journal: has other jobs or devices"),
        (edited("run.yaml", '"V100": 2', '"V100": 3'), "journal: has other jobs or devices"),
        (edited("run.yaml", '"batch": 64', '"batch": 65'), "were changed since it began"),
        (edited("run.yaml", '"srtf"', '"hare"'), "written by a run with another place policy"),
        (edited("profile.csv", "a,V100,0", "a,V100,1"), "were changed since it began"),
        (edited("run.yaml", "grain:", "grian:"), "run.yaml:5: grian: unknown field"),
        (lambda out: (out / "run.yaml").unlink(), "run.yaml: is missing"),
        (lambda out: (out / "profile.csv").unlink(), "profile.csv: is missing"),
        (not_begun, "killed before it began; start the run again"),
        (lambda out: (out / "journal").unlink(), "is not the folder of a run (no journal)"),
    ],
)
def test_a_folder_that_is_not_as_the_run_left_it_is_refused_and_stays_so(
    world: World, spoil: Callable[[Path], object], words: str
) -> None:
    world.begin(10)
    spoil(world.out)
    before = {path.name: path.read_bytes() for path in world.out.iterdir() if path.is_file()}
    told = world.resume()
    assert (told.code, told.out) == (2, "")
    complaint = [line for line in told.err if line.startswith("warren: ")]
    assert len(complaint) == 1
    assert words in complaint[0]
    assert before == {p.name: p.read_bytes() for p in world.out.iterdir() if p.is_file()}


def test_what_stands_in_the_way_of_a_run_that_goes_on_is_renamed_and_named(world: World) -> None:
    world.begin(10)
    out = world.out
    for name in ("checkpoints/a", "logs", "metrics", "params"):
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / "checkpoints/b").write_text("no folder")
    (out / "metrics/a.csv").mkdir()
    (out / "metrics/b.csv").write_bytes(b"")
    (out / "logs/a.log").symlink_to("/nonexistent/log")
    for name in ("checkpoints/a/10.json", "checkpoints/a/marks.0-of-1", "params/a.safetensors"):
        os.mkfifo(out / name)
    (out / "report.html").unlink()
    (out / "report.html").mkdir()
    told = world.resume()
    assert told.code == 0
    assert [line for line in told.err if "damaged" in line] == [
        *(f"{out / name} is not what a run puts there; it is called {Path(name).name}.damaged now"
          for name in ("checkpoints/b", "report.html", "checkpoints/a/10.json",
                       "checkpoints/a/marks.0-of-1", "logs/a.log", "metrics/a.csv",
                       "params/a.safetensors")),
        f"{out}/metrics/b.csv is damaged; it is written again from the journal",
    ]  # fmt: skip
    assert (out / "report.html").is_file()
    assert world.warren("report", out, "--check").code == 0


def test_a_run_that_was_killed_before_anything_ran_is_reported_as_that(world: World) -> None:
    world.begin(25)
    whole = world.journal
    for size in (0, 3, JOURNAL_OPENS, JOURNAL_OPENS + 5):
        (world.out / "journal").write_bytes(whole[:size])
        for command in ("report", "compare"):
            told = world.warren(command, world.out)
            assert told.code == 2
            assert told.complaint == (
                f"{world.out}/journal: is empty: nothing had run yet; "
                f"`warren run --resume {world.out}` starts the run"
            )


def test_a_check_of_a_run_that_was_killed_says_that_its_tables_are_not_there(world: World) -> None:
    world.begin(25)
    for name in ("jobs.csv", "timeline.parquet", "summary.json"):
        (world.out / name).unlink()
    told = world.warren("report", world.out, "--check")
    assert (told.code, told.out.splitlines()) == (1, [
        f"{world.out}: tables: are not there: the run was killed, or goes on; "
        "expected those `warren report` writes",
        f"{world.out}: 1 fault",
    ])  # fmt: skip
    assert world.warren("report", world.out).code == 0
    assert world.warren("report", world.out, "--check").code == 0


def test_a_run_of_another_numerics_class_does_not_go_on_and_learns_both(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin(10)
    assert read_history(world.journal).header.numerics == Stand.numerics
    before = world.journal
    monkeypatch.setattr(Stand, "numerics", "torch 2; x86_64 AVX512; 1 thread")
    told = world.resume()
    assert told.code == 2
    assert told.err[-1] == (
        "warren: out/journal: the run computes in numerics class 'torch 1; x86_64 AVX2; 1 thread' "
        "and would go on in 'torch 2; x86_64 AVX512; 1 thread': job a (numerics: strict) would get "
        "other bits"
    )
    assert world.journal == before
    monkeypatch.undo()


def test_what_is_no_folder_of_a_live_run_is_refused(world: World, tmp_path: Path) -> None:
    assert world.warren("simulate", world.run_file, "--out", tmp_path / "sim").code == 0
    for path, words in (
        (tmp_path / "sim", "is of a simulation; only a run of `warren run` can go on"),
        (tmp_path / "none", "no such folder"),
        (tmp_path / "in", "is not the folder of a run"),
        (Path(world.run_file), "is not a folder"),
    ):
        told = world.warren("run", "--resume", path)
        assert told.code == 2
        assert words in told.complaint


def test_a_folder_in_use_is_refused_and_so_is_a_policy_that_changed_its_mind(
    world: World, tmp_path: Path
) -> None:
    policy = (Path(__file__).parents[2] / "examples/policies/round_robin.py").read_text()
    (tmp_path / "mine.py").write_text(policy)
    world.begin(12, "--place", f"{tmp_path}/mine.py:RoundRobin")
    with (world.out / "journal").open("rb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        assert "is in use by a run that goes on" in world.resume().complaint
    assert policy.count("free = (view.queued_D == 0)") == 1
    other = policy.replace("0).nonzero()[0]", "0).nonzero()[0][::-1]", 1)
    (tmp_path / "mine.py").write_text(other)
    told = world.resume()
    assert told.code == 1
    assert "policy round-robin decided otherwise when asked again at record" in told.err[-1]


def test_a_live_run_holds_its_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def look(port: Stand) -> None:
        with (world.out / "journal").open("rb") as journal, pytest.raises(BlockingIOError):
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(True)

    monkeypatch.setattr(Stand, "start", look)
    world.begin(10)
    world.resume()
    assert seen == [True, True]


def test_a_run_that_its_policy_refuses_starts_no_process_and_leaves_no_folder(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Stand, "start", lambda port: pytest.fail("was started"))
    monkeypatch.setattr("warren.policy.place.hare.published.LARGEST", 900)
    world.run_file = write_run(tmp_path / "in", jobs=JOBS.replace("rounds: 9", "rounds: 900"))
    told = world.begin(None, "--place", "hare-published")
    assert (told.code, told.out) == (2, "")
    assert told.err[-1].endswith("936 tasks; hare-published takes at most 900; use hare")
    assert not world.out.exists()


def test_a_run_says_at_once_that_it_starts_before_its_policy_plans(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "TimedPolicies", Mock(side_effect=KeyboardInterrupt))
    told = world.begin(None)
    assert told.err[0] == "tiny: planning 3 jobs, starting 3 devices"
