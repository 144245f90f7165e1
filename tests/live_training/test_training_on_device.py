"""What a process that steps does with tensors whose memory no processor can read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STANDIN = Path(__file__).parents[1] / "standin"
sys.path.append(str(STANDIN))

from standin_device import why_not  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]


def test_state_on_a_device_is_stepped_saved_and_compared_as_in_main_memory() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", str(STANDIN / "on_device.py")]
    environment = {name: one for name, one in os.environ.items() if "XDIST" not in name}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
