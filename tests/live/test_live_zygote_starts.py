"""A zygote that is lost while it starts is started again, and libraries loaded ahead are a help."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest
from live_worlds import drive, ended, job, of, plain_hashes, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.oracle.determinism_check import check_jobs
from warren.live.process import process_pool, zygote
from warren.live.process.preload import ALWAYS
from warren.live.process.process_pool import ZygoteLost, ZygoteStarts
from warren.model.decision import Assignment
from warren.model.errors import EngineError
from warren.model.events import JobFailed, ParamsSaved, RolledBack, TasksDone

Start = Callable[[Sequence[str], Mapping[str, str], IO[bytes], Sequence[int]], Any]
KILLED = ("sleep", "99")
WHOLE = (Assignment(0, 0, 0, 3, (0, 1)),)
CRASHES = ("sh", "-c", "echo it is broken; exit 3")


@pytest.fixture
def first_are(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Sequence[str]]]:
    """Let the first zygotes be other programs, of which ``KILLED`` is killed before it is ready."""

    def first_are(*programs: Sequence[str]) -> list[Sequence[str]]:
        left, started = list(programs), []
        real: Start = process_pool._start_zygote

        def start(
            arguments: Sequence[str],
            environment: Mapping[str, str],
            output: IO[bytes],
            fds: Sequence[int],
        ) -> Any:
            started.append(arguments)
            if not left:
                return real(arguments, environment, output, fds)
            program = left.pop(0)
            process = subprocess.Popen(program, stdout=output, env=environment, pass_fds=fds)
            if program is KILLED:
                process.kill()
            return process

        monkeypatch.setattr(process_pool, "_start_zygote", start)
        return started

    return first_are


@pytest.mark.live
def test_zygotes_killed_while_they_start_change_no_bit(
    tmp_path: Path, first_are: Callable[..., list[Sequence[str]]]
) -> None:
    run, costs = world(tmp_path, [job(0)])
    started = first_are(KILLED, KILLED, CRASHES)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert len(started) == 4
    hashes = {event.job: event.sha256 for event in of(events, ParamsSaved)}
    assert hashes == plain_hashes(tmp_path, [job(0)])


@pytest.mark.live
def test_so_it_is_in_the_plain_engine_and_where_apps_are_checked(
    tmp_path: Path, first_are: Callable[..., list[Sequence[str]]]
) -> None:
    run, _ = world(tmp_path, [job(0)])
    first_are(KILLED)
    with PlainPort(run, tmp_path / "out") as port:
        assert ended(drive(port, WHOLE)) == {0: "finished"}
    first_are(KILLED, KILLED)
    (report,) = check_jobs([job(0)], str(tmp_path))
    assert report.same


@pytest.mark.live
def test_a_zygote_that_ends_by_itself_twice_ends_the_run_with_what_it_printed(
    tmp_path: Path, first_are: Callable[..., list[Sequence[str]]]
) -> None:
    run, costs = world(tmp_path, [job(0)])
    started = first_are(CRASHES, KILLED, CRASHES, CRASHES)
    with (
        pytest.raises(EngineError, match=r"\(exit status 3\); it printed last: .*it is broken$"),
        LivePort(run, costs, tmp_path / "out"),
    ):
        pass
    assert len(started) == 3


@pytest.mark.live
def test_one_that_is_killed_again_and_again_ends_the_run(
    tmp_path: Path, first_are: Callable[..., list[Sequence[str]]]
) -> None:
    run, costs = world(tmp_path, [job(0)])
    started = first_are(*[KILLED] * 20)
    with (
        pytest.raises(EngineError, match=r"ended while it started \(killed by SIGKILL\)"),
        LivePort(run, costs, tmp_path / "out"),
    ):
        pass
    assert len(started) == 11


def test_a_zygote_that_ends_by_itself_is_started_again_without_what_is_loaded_ahead() -> None:
    starts = ZygoteStarts((*ALWAYS, "sklearn.datasets"))
    starts.lost(ZygoteLost("it", killed=True))
    assert "sklearn.datasets" in starts.libraries
    starts.lost(ZygoteLost("it", killed=False))
    assert starts.libraries == ALWAYS


@pytest.mark.live
def test_a_zygote_lost_under_the_plain_engine_lets_the_job_begin_again(tmp_path: Path) -> None:
    run, _ = world(tmp_path, [job(0)])
    lost: list[int] = []
    with PlainPort(run, tmp_path / "out") as port:
        pool: Any = port._pool
        fork = port._fork

        def struck(one: Any) -> None:
            fork(one)
            if not lost:
                lost.append(pool._zygote.pid)
                pool._zygote.kill()

        port._fork = struck  # type: ignore[method-assign]
        events = drive(port, WHOLE)
    assert ended(events) == {0: "finished"}
    assert [event.round for event in of(events, RolledBack)] == [0]
    assert len(of(events, TasksDone)) == 1


class Restarted(Exception):
    """In place of the end of this process."""


FAULTS = {
    "import error": "raise ImportError('of another torch')",
    "inner module": "import not_there_at_all",
    "runtime error": "raise RuntimeError('operator nms does not exist')",
    "exit": "raise SystemExit(1)",
    "odd text": r"raise ValueError('\udce9')",
    "threads": "from threading import *\nThread(target=Event().wait, daemon=True).start()",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_library_that_cannot_be_loaded_ahead_is_a_note_and_nothing_of_it_stays(
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"faulty_{fault.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(f"print('noise')\n{FAULTS[fault]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["zygote", "[]", "7", "numpy", name, "wave"])
    seen: list[Any] = []

    def restart(*what: Any) -> NoReturn:
        seen.extend(what)
        raise Restarted

    monkeypatch.setattr(zygote.os, "execve", restart)
    with pytest.raises(Restarted):
        zygote.load_ahead(["not_installed", "numpy", name, "wave"], zygote._start_without)
    _, program, environment = seen
    assert program[-4:] == ["[]", "7", "numpy", "wave"]
    assert environment[b"PATH"] == os.environb[b"PATH"]
    assert capsys.readouterr().err.startswith(f"{name} is not loaded ahead of its jobs: ")


@pytest.mark.live
@pytest.mark.usefixtures("cold_zygotes")
def test_a_broken_library_fails_only_the_job_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "torchvision.py").write_text("raise RuntimeError('of another torch')\n")
    path = [str(libraries), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    run, costs = world(tmp_path, [job(0), job(1, "Sees")], devices=1)
    with (tmp_path / "apps.py").open("a") as file:
        file.write("\n\nclass Sees(Tiny):\n    def loss(self, *_):\n        import torchvision\n")
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events) == {0: "finished", 1: "failed"}
    (failed,) = of(events, JobFailed)
    assert "RuntimeError: of another torch (torchvision.py:1)" in failed.reason
    log = (tmp_path / "out" / "run.log").read_text()
    assert "torchvision is not loaded ahead of its jobs: RuntimeError: of another torch" in log
