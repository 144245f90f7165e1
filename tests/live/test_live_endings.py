"""However the controller ends, nothing it started outlives it."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import warm_program
from live_worlds import job, session, world
from processes import PATIENCE_S, wait_until
from warm_zygote import Forked

from warren.core.ports import Restart
from warren.live.control import engine as base
from warren.live.control.engine import refuse_another_class
from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.process.linux import fork_below, leave
from warren.live.process.process_pool import ProcessPool
from warren.model.errors import EngineError, SpecError

pytestmark = pytest.mark.live

_VICTIM = Path(__file__).with_name("live_victim.py")


def _started(folder: Path) -> tuple[Forked, int]:
    """A victim that trains, and its session."""
    victim, said = warm_program.start_and_hear([_VICTIM, folder], _environment(folder))
    return victim, int(said)


def _starting(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A victim whose zygote has only begun to load its libraries, and its session."""
    command = [sys.executable, str(_VICTIM), str(folder), "start"]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment(folder))
    assert victim.stdout is not None
    with victim.stdout:
        return victim, int(victim.stdout.readline())


def _environment(folder: Path) -> dict[str, str]:
    # It runs beside the runs of whoever runs the tests, and claims no device.
    return {"TMPDIR": str(folder), "PATH": "/usr/bin:/bin", "WARREN_CLAIMS": ""}


def _folders(folder: Path) -> list[str]:
    """What runs have left in a temporary folder."""
    return glob.glob(str(folder / "warren-*"))


@pytest.mark.parametrize("begin", [_starting, _started], ids=["start", "training"])
def test_ctrl_c_leaves_no_process_and_no_socket(
    tmp_path: Path, begin: Callable[[Path], tuple[Forked | subprocess.Popen[str], int]]
) -> None:
    victim, pid = begin(tmp_path)
    assert session(pid)
    victim.send_signal(signal.SIGINT)
    assert victim.wait(PATIENCE_S) == 130
    assert session(pid) == []
    assert _folders(tmp_path) == []


def test_a_killed_controller_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    victim, pid = _started(tmp_path)
    assert len(session(pid)) > 6
    victim.kill()
    victim.wait(PATIENCE_S)
    assert wait_until(lambda: not session(pid)), session(pid)
    assert _folders(tmp_path) == []


def test_killed_together_controller_and_zygote_leave_nothing_either(tmp_path: Path) -> None:
    victim, pid = _started(tmp_path)
    children = [one for one in session(pid) if one != pid]
    assert children
    subprocess.run(["kill", "-9", str(victim.pid), str(pid)], check=True)
    victim.wait(PATIENCE_S)
    assert wait_until(lambda: not session(pid)), session(pid)
    assert wait_until(lambda: not _folders(tmp_path)), _folders(tmp_path)


def test_a_run_of_another_numerics_class_ends_before_anything_of_it_starts(tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0), job(1, numerics="mixed")])
    restart = Restart(
        now_ns=5, rounds_J=(1, 1), arrived_J=(True, True), ended_J=(False, False), numerics="other"
    )
    port = LivePort(run, costs, tmp_path / "out")
    port.resume(restart)
    both = r"class 'other' and would go on in 'torch .*job job-0"
    with pytest.raises(SpecError, match=both), port:
        pass
    assert glob.glob(str(tmp_path / "out" / "*/*")) == []
    mine = "torch 2"
    for changes in ({"ended_J": (True, False)}, {"numerics": mine}, {"numerics": ""}):
        again = replace(restart, **changes)  # type: ignore[arg-type]
        refuse_another_class(tmp_path, run.workload.jobs, again, mine)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        "free_path",
        "Hub",
        "cgroups_of",
        "CleanupGuard",
        "memory_limit",
        "Poller",
        "libraries",
        "ProcessPool",
        "ProcessPool.await_zygote",
    ],
)
def test_whatever_fails_to_start_is_reported_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, plain: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EngineError(f"no {part} today")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    owner, _, name = f"base.{part}".rpartition(".")
    monkeypatch.setattr(base if owner == "base" else base.ProcessPool, name, refuse)
    run, costs = world(tmp_path, [job(0)])
    out = tmp_path / "out"
    port = PlainPort(run, out) if plain else LivePort(run, costs, out)
    with pytest.raises(EngineError, match=f"^no {part} today$"), port:
        pass
    port.close()
    assert _folders(tmp_path) == []


def test_the_folder_of_a_run_goes_with_its_zygote_so_that_a_kill_after_that_leaves_none(
    tmp_path: Path,
) -> None:
    """Even one that comes before the controller has removed it, its guard being dead already."""
    folder = tmp_path / "run"
    folder.mkdir()
    pool = ProcessPool(folder, tmp_path / "log")
    pool.await_zygote()
    pool.close(last=True)
    assert not folder.exists(), (tmp_path / "log").read_text()


def test_a_program_ends_with_the_tests_that_started_it(tmp_path: Path) -> None:
    """However those end: a controller that trains on would slow all that runs here."""
    program = tmp_path / "asks.py"
    program.write_text(
        "import ctypes\n"
        "signum = ctypes.c_int()\n"
        "ctypes.CDLL(None).prctl(2, ctypes.byref(signum))  # PR_GET_PDEATHSIG\n"
        "print(signum.value, flush=True)\n"
    )
    started, said = warm_program.start_and_hear([program], _environment(tmp_path))
    assert started.wait(PATIENCE_S) == 0
    assert int(said) == signal.SIGKILL


def test_who_ends_does_so_behind_those_that_compute() -> None:
    """A process and the parent that it was given, as the zygote forks them, both end nicer."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        fork_below()
        inner = os.fork()
        if not inner:
            leave(4)
        os.write(write, bytes([_nice_at_the_end(inner)]))
        leave(3)
    nice = _nice_at_the_end(pid)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    # This process may be nice itself, and nobody is nicer than 19.
    assert [os.read(read, 2)[0], nice] == [min(19, os.nice(0) + 10)] * 2
    os.close(read)
    os.close(write)


def _nice_at_the_end(pid: int) -> int:
    """The niceness with which a child has ended; it is not reaped."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])
