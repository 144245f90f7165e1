"""A run that is struck while it starts or trains leaves no process, no socket and no folder.

``experiments/start_kill.py`` makes 200 such cycles, of which these are the first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "start_kill.py"


def test_a_run_that_is_struck_at_a_drawn_moment_leaves_nothing() -> None:
    command = [sys.executable, str(PROGRAM), "--cycles", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 cycles, 0 left something" in done.stdout
