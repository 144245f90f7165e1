"""The fixture that guards live tests can itself fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import processes
import pytest

_DOUBLE_FORK = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(60)"


@pytest.mark.live
def test_a_process_that_outlives_its_parent_is_found() -> None:
    before = processes.descendants(os.getpid())
    subprocess.run([sys.executable, "-S", "-c", _DOUBLE_FORK], check=True)
    left = processes.wait_until_gone(before, timeout_s=0.1)
    assert [process.command.endswith(_DOUBLE_FORK) for process in left] == [True]
    processes.kill(left[0])
    assert processes.wait_until_gone(before) == []


@pytest.mark.live
def test_a_process_that_has_ended_is_not_reported() -> None:
    before = processes.descendants(os.getpid())
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    assert processes.wait_until_gone(before) == []
    assert child.wait() == 0


def test_a_file_is_known_to_start_processes_where_one_of_its_tests_does(
    request: pytest.FixtureRequest,
) -> None:
    """Such files are given out first. At most those that are in this session are seen."""
    live = {item.path for item in request.session.items if item.get_closest_marker("live")}
    if not live:
        pytest.skip("no live tests in this session")
    assert all(map(processes.are_started_by, live))
    assert not processes.are_started_by(Path(__file__).with_name("worlds.py"))
