"""A run that is struck while it starts or trains leaves no process, no socket and no folder.

``experiments/start_kill.py`` makes 200 such cycles, of which these are the first.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from live_worlds import job, world
from processes import PATIENCE_S

from warren.live.control import engine as base
from warren.live.control.local_engine import LivePort
from warren.live.process.process_pool import ProcessPool

pytestmark = [pytest.mark.live, pytest.mark.machine]

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "start_kill.py"


def test_a_run_that_is_struck_at_a_drawn_moment_leaves_nothing() -> None:
    command = [sys.executable, str(PROGRAM), "--cycles", "3", "--within", str(PATIENCE_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 cycles, 0 left something" in done.stdout


def test_a_signal_that_comes_while_the_zygote_is_started_does_not_lose_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[ProcessPool, Path]] = []

    class Struck(ProcessPool):
        def __init__(self, folder: Path, *rest: Any) -> None:
            super().__init__(folder, *rest)
            begun.append((self, folder))
            signal.raise_signal(signal.SIGINT)  # taken before it returns, if it is not held

    monkeypatch.setattr(base, "ProcessPool", Struck)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run, costs = world(tmp_path, [job(0)], 1)
        with pytest.raises(KeyboardInterrupt):
            LivePort(run, costs, tmp_path / "out").__enter__()
    finally:
        signal.signal(signal.SIGINT, before)
    ((pool, folder),) = begun
    assert pool._zygote.poll() is not None
    assert not folder.exists()
