"""Temporary folders go with the process that made them, at whatever moment it is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_worlds import job, world
from processes import wait_until

from warren.live.control import engine as base
from warren.live.control.local_engine import LivePort
from warren.live.measure import ring_rounds as probing
from warren.live.measure import task_times as measure
from warren.live.oracle import determinism_check as check
from warren.live.process import process_pool as pool
from warren.live.process import scratch
from warren.live.process.scratch import ScratchFolder

pytestmark = pytest.mark.live


def _struck(*_: object) -> None:
    """The end; what is there at that moment is told by the files' names."""
    here = Path(os.environ["TMPDIR"])
    (here.parent / "seen").write_text(" ".join(os.listdir(here)))
    os.kill(os.getpid(), signal.SIGKILL)


def _then_struck(what: Callable[..., object]) -> Callable[..., None]:
    def both(*given: Any, **named: Any) -> None:
        what(*given, **named)
        _struck()

    return both


def _guard_started(_: Path) -> None:
    scratch.CleanupGuard = _then_struck(scratch.CleanupGuard)  # type: ignore[assignment, misc]
    ScratchFolder().__enter__()


def _folder_made(_: Path) -> None:
    Path.mkdir = _then_struck(Path.mkdir)  # type: ignore[method-assign]
    ScratchFolder().__enter__()


def _rings_start(_: Path) -> None:
    probing.RingProber._wait_for = _struck  # type: ignore[method-assign, assignment]
    probing.RingProber(probing.local_places(2)).__enter__()


def _check_starts(folder: Path) -> None:
    pool.ProcessPool.await_zygote = _struck  # type: ignore[method-assign, assignment]
    check.check_job(job(0), str(folder))


def _run_starts(folder: Path) -> None:
    base.Hub = _struck  # type: ignore[assignment, misc]
    run, costs = world(folder, [job(0)])
    LivePort(run, costs, folder / "out").__enter__()


def _jobs_are_measured(folder: Path) -> None:
    measure.LivePort = _struck  # type: ignore[assignment, misc]
    measure.measure(world(folder, [job(0)])[0], [0])


MOMENTS = {
    _guard_started: "",
    _folder_made: "warren-",
    _rings_start: "warren-rings-",
    _check_starts: "warren-",
    _run_starts: "warren-",
    _jobs_are_measured: "warren-measure-",
}
"""And the name of what is there then."""


@pytest.fixture
def short() -> Iterator[Path]:
    """A temporary folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as folder:
        (Path(folder) / "tmp").mkdir()
        yield Path(folder)


def _be_struck(moment: Callable[[Path], None], folder: Path) -> None:
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    moment(folder / "files")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_that_is_killed_leaves_no_folder(
    moment: Callable[[Path], None], short: Path
) -> None:
    (short / "files").mkdir()
    context = multiprocessing.get_context("fork")
    victim = context.Process(target=_be_struck, args=(moment, short))
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    assert (short / "seen").read_text().startswith(MOMENTS[moment])
    assert wait_until(lambda: not _names_in(short / "tmp")), _names_in(short / "tmp")


def _names_in(folder: Path) -> list[str]:
    """All that is in a folder, while it may be on its way out."""
    return [name for _, folders, files in os.walk(folder) for name in (*folders, *files)]


def test_a_folder_is_private_and_goes_when_its_context_ends_whatever_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fails_in_it() -> None:
        with ScratchFolder("warren-some-") as folder:
            assert folder.parent == tmp_path
            assert folder.name.startswith("warren-some-")
            assert folder.stat().st_mode & 0o777 == 0o700
            (folder / "in").mkdir()
            (folder / "in" / "it").write_text("x")
            raise KeyError

    with pytest.raises(KeyError):
        fails_in_it()
    assert not list(tmp_path.iterdir())


def test_a_run_removes_what_killed_runs_have_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_PATH_MAX", 4096)
    elsewhere = tmp_path / "elsewhere"
    names = {kind: f"warren-{k:012x}" for k, kind in enumerate(("left", "young", "held", "marked"))}
    for name in ("elsewhere", "warren-mine", "warren-rings-00000000abcd", *names.values()):
        (tmp_path / name / "in").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9, 1e9))
    os.utime(tmp_path / names["young"])
    link = tmp_path / "warren-0000000000ff"
    link.symlink_to(elsewhere)
    os.utime(link, (1e9, 1e9), follow_symlinks=False)
    held = scratch.hold(tmp_path / names["held"])
    marked = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={"WARREN_RUN": names["marked"]},
        stdin=subprocess.PIPE,
    )
    try:
        scratch.remove_left_folders()
    finally:
        os.close(held)
        marked.communicate(b"\n")
    kept = {"elsewhere", "warren-mine", link.name, *names.values()} - {names["left"]}
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert (elsewhere / "in").is_dir()
