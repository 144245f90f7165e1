"""What is shown while a run goes on."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cli_runs import JOBS, Warren, write_run
from rich.console import Console

from warren.cli.views import live_view as screen
from warren.cli.views import progress
from warren.cli.views.job_progress import JobProgress
from warren.cli.views.live_table import LiveTable
from warren.core.loop import Core
from warren.core.state import Phase, State
from warren.model.events import AnyEvent, JobFailed, RoundsDone
from warren.model.job import Workload
from warren.model.run import Run
from warren.runs.compose import Options, simulate
from warren.runs.inputs import run_of


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(tiny: str) -> Run:
    return run_of(tiny, None, [])


def drawn(run: Run, width: int, height: int = 30) -> Iterator[str]:
    """The table after every step of a simulated run."""
    pictures: list[str] = []

    def attend(core: Core) -> object:
        far = JobProgress(run, {})
        table = LiveTable(run, core, far)

        def observe(state: State, events: tuple[AnyEvent, ...]) -> None:
            for event in events:
                if isinstance(event, RoundsDone):
                    far.note(event)
            console = Console(file=io.StringIO(), width=width, height=height)
            console.print(table.draw(width, height))
            pictures.append(console.file.getvalue())  # type: ignore[attr-defined]

        from contextlib import nullcontext

        return nullcontext(observe)

    simulate(run, None, Options(attend=attend))  # type: ignore[arg-type]
    return iter(pictures)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal_and_holds_still(run: Run, width: int) -> None:
    pictures = list(drawn(run, width))
    for picture in pictures:
        assert all(len(line) <= width for line in picture.splitlines())
        assert all(name in picture for name in ("job", "phase", "rounds", "loss", "finish"))
    widths = [len(picture.splitlines()[3]) for picture in pictures]
    assert widths == sorted(widths)


def test_the_table_tells_where_every_job_is(run: Run) -> None:
    first, *_, last = drawn(run, 120)
    assert "at 1 s" in first
    assert "at 2 s" in first
    assert "0/3 jobs" in first
    assert last.count("finished") == 3
    assert "6/6" in last
    assert "3/3 jobs" in last


def test_running_jobs_come_first_where_not_all_fit(tmp_path: Path) -> None:
    many = "".join(
        f"  - {{name: j{i:02}, model: resnet50, scale: 1, rounds: 2, arrival: {i} s}}\n"
        for i in range(40)
    )
    run = run_of(write_run(tmp_path, jobs=f"format: 1\njobs:\n{many}"), None, [])
    pictures = list(drawn(run, 80, height=12))
    assert all(len(picture.splitlines()) <= 12 for picture in pictures)
    middle = pictures[len(pictures) // 2]
    assert "running" in middle
    assert "more jobs" in middle


def test_elsewhere_than_on_a_terminal_a_line_tells_of_every_end(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(run, None, Options(attend=screen.live_view(run, "DIR")))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training 3 jobs on 3 devices under srtf into DIR; times are cluster seconds"
    assert sorted(line.split()[2] for line in lines[1:]) == ["a", "b", "c"]
    assert all("finished after" in line for line in lines[1:])


@pytest.mark.parametrize("is_predicted", [False, True])
def test_now_and_then_each_active_job_has_a_line_with_rounds_and_the_end_that_is_expected(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_predicted: bool,
) -> None:
    if not is_predicted:
        monkeypatch.setattr(screen, "predicted_ends", lambda run: {})
    monkeypatch.setattr(screen, "LINES_S", 0.0)
    monkeypatch.setattr(screen, "_SELDOM", 0.0)
    simulate(run, None, Options(attend=screen.live_view(run, "DIR")))
    lines = capsys.readouterr().err.splitlines()
    jobs = [line.split() for line in lines if line.startswith(" " * 12) and " rounds" in line]
    assert (["b:", "0/8", "rounds"] in jobs) is not is_predicted
    assert {words[0] for words in jobs} == {"a:", "b:", "c:"}
    ends = [float(words[4].strip("~")) for words in jobs if words[:3] == ["c:", "8/9", "rounds,"]]
    assert ends
    (end,) = [line.split() for line in lines if " c finished" in line]
    assert abs(ends[-1] - float(end[0])) <= 1


def test_an_end_that_was_predicted_and_has_passed_is_reported_by_the_pace_since_the_first_round(
    run: Run,
) -> None:
    far = JobProgress(run, {0: 20 * 10**9})
    state = SimpleNamespace(now_ns=10 * 10**9, round_J=[1, 0, 0], phase_J=[Phase.ACTIVE] * 3)
    far.note(RoundsDone(10 * 10**9, 0, 0, 1, False))
    assert far.finish(state, 0) == "~20 s"  # type: ignore[arg-type]
    assert far.finish(state, 1) == ""  # type: ignore[arg-type]
    state.now_ns, state.round_J = 30 * 10**9, [3, 0, 0]
    assert far.finish(state, 0) == "~60 s", "3 of 6 rounds are left, and 2 took 20 s"  # type: ignore[arg-type]


def test_lines_of_a_long_run_come_seldom_and_tell_of_ten_jobs(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(screen, "monotonic", lambda: now_s)
    jobs = replace(run.workload.jobs[0], rounds=None)
    many = replace(run, workload=Workload(jobs=(jobs,) * 14))
    state = SimpleNamespace(
        done_J=np.zeros(14, bool), queued_D=np.ones(3), now_ns=0, round_J=np.arange(14),
        phase_J=np.full(14, Phase.ACTIVE),
    )  # fmt: skip
    told = []
    with screen._watch_lines(many, SimpleNamespace(), JobProgress(many, {})) as observe:  # type: ignore[arg-type]
        observe(state, (RoundsDone(1, 3, 0, 1, False, loss=0.25),))  # type: ignore[arg-type]
        for now_s in np.arange(0.0, 3600.0, 1.0):
            observe(state, ())  # type: ignore[arg-type]
            if lines := capsys.readouterr().err.splitlines():
                told.append(now_s)
                last = lines
    assert told[:2] == [5.0, 10.0]
    assert max(np.diff(told)) == 60.0
    assert len(told) < 100
    assert last[0].endswith("0/14 jobs ended"), "no word on devices, idle as a round ends"
    assert last[4].strip() == "a: 3/? rounds, loss 0.25"
    assert (len(last), last[-1].strip()) == (12, "and 4 more")


def test_a_failure_is_reported_with_its_reason(run: Run) -> None:
    line = screen._end_line(run, JobFailed(2_500_000_000, 1, "out of memory"))
    assert line.split() == ["2.5", "s", "b", "FAILED:", "out", "of", "memory"]


def test_a_terminal_gets_a_table_and_a_bar_that_go_away(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attend in (lambda: screen.live_view(run, "DIR"), lambda: progress.progress(run)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        simulate(run, None, Options(attend=attend()))
        assert "srtf" in terminal.getvalue()
        assert terminal.getvalue().rstrip().endswith(("\x1b[?25h", "\x1b[2K"))


def test_a_simulation_predicts_the_ends_of_a_live_run(run: Run, tmp_path: Path) -> None:
    ends = simulate(run).history.finish_ns_J.tolist()
    assert screen.predicted_ends(run) == dict(enumerate(ends))
    unknown = JOBS.replace("rounds: 9, ", "")
    path = write_run(
        tmp_path / "u", jobs=unknown.replace("seed: 7", "stop: {metric: x, reaches: 1}")
    )
    assert screen.predicted_ends(run_of(path, "gavel-fifo", [])) == {}


STEPS = 100


def test_watching_a_run_costs_a_few_calls_a_step(run: Run) -> None:
    """What every observer does when it is not time to draw."""
    core = type("Core", (), {"state": None, "policy": type("P", (), {"name": "p"})})()
    with screen._watch_lines(run, core, JobProgress(run, {})) as observe:
        events = (RoundsDone(1, 0, 0, 1, False),)
        calls: list[object] = []
        sys.setprofile(lambda frame, event, what: calls.append(what) if "call" in event else None)
        try:
            for _ in range(STEPS):
                observe(None, events)  # type: ignore[arg-type]
        finally:
            sys.setprofile(None)
    assert len(calls) < 12 * STEPS


def test_results_go_to_standard_output_and_the_rest_to_standard_error(
    warren: Warren, tiny: str
) -> None:
    found = warren("simulate", tiny)
    assert found.err == []
    assert found.out.startswith("tiny: srtf, grain 1: 3/3 jobs finished, 45 tasks\n")
