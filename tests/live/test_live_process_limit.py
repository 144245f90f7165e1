"""Where too few processes are allowed, a run ends and says which limit and how many it needs."""

from __future__ import annotations

import glob
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from live_worlds import job, world

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.process import linux, process_pool, zygote
from warren.live.process.linux import FULL_CODE, in_words, no_more_processes
from warren.live.process.process_pool import NoMoreProcesses
from warren.live.process.specs import ProbeRole


def _refuses(*_: object, **__: object) -> NoReturn:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_the_lowest_limit_that_holds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/cgroup": ["4:memory:/other", "0::/user/me"],
        "/proc/sys/kernel/pid_max": ["4194304"],
        "/sys/fs/cgroup/user/me/pids.max": ["max"],
        "/sys/fs/cgroup/user/pids.max": ["40"],
        "/sys/fs/cgroup/other/pids.max": ["3"],
    }
    monkeypatch.setattr(linux, "kernel_lines", lambda path: files.get(str(path), []))
    monkeypatch.setattr(linux.resource, "getrlimit", lambda _: (60, 60))
    told = "no more processes can be started: {} are allowed ({})"
    assert no_more_processes() == told.format(40, "/sys/fs/cgroup/user/pids.max")
    files["/sys/fs/cgroup/user/pids.max"] = ["max"]
    assert no_more_processes() == told.format(60, "of this user, `ulimit -u`")
    monkeypatch.setattr(linux.resource, "getrlimit", lambda _: (-1, -1))
    assert no_more_processes() == told.format(4194304, "/proc/sys/kernel/pid_max")


@pytest.mark.parametrize("plain", [False, True])
def test_a_command_that_can_start_nothing_says_how_many_processes_it_needs(
    plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process_pool.subprocess, "Popen", _refuses)
    run, costs = world(tmp_path, [job(0), job(1)], devices=2)
    out = tmp_path / "out"
    if plain:
        run = replace(run, cluster=replace(run.cluster, engine="plain"))
    port: Any = PlainPort(run, out) if plain else LivePort(run, costs, out)
    need = 5 if plain else 21
    with pytest.raises(NoMoreProcesses, match=f"; this run needs about {need}: allow more, or"):
        port.start()
    port.close()
    assert glob.glob(str(tmp_path / "warren-*")) == []


@pytest.mark.live
def test_a_zygote_that_can_fork_nothing_ends_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(arguments: object, environment: Any, output: Any, fds: Any) -> Any:
        started.append(1)
        command = ["sh", "-c", f"exit {FULL_CODE}"]
        return subprocess.Popen(command, stdout=output, env=environment, pass_fds=fds)

    monkeypatch.setattr(process_pool, "_start_zygote", start)
    run, costs = world(tmp_path, [job(0)])
    with pytest.raises(NoMoreProcesses, match="this run needs about"):
        LivePort(run, costs, tmp_path / "out").__enter__()
    assert started == [1]


def test_a_process_that_cannot_fork_says_so_by_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", _refuses)
    monkeypatch.setattr(linux, "leave", lambda code: (_ for _ in ()).throw(SystemExit(code)))
    role = ProbeRole("", job(0), "", "", 1)
    forks: Any = zygote.Zygote(None, -1, 1)  # type: ignore[arg-type]
    for attempt in (linux.fork_below, lambda: forks._fork(role)):
        with pytest.raises(SystemExit) as ended:
            attempt()
        assert ended.value.code == FULL_CODE
    assert in_words(FULL_CODE) == no_more_processes()
