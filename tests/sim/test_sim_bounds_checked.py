"""Compiled code stays inside its arrays, and no clock or network is needed to see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
FOLDERS = [str(HERE), str(HERE.parent / "solve")]
SEEDS = 6


def test_kernels_answer_the_same_where_the_interpreter_checks_every_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uncompiled, an index outside its array is an error; compiled, it reads what lies there.

    The same answers say that both took the same way through the same source.
    """
    code = (
        f"import sys; sys.path[:0] = {FOLDERS}; import kernel_cases; "
        "import warren.solve.common.heaps as pool; "
        f"assert type(pool.rebuild).__name__ == 'function'; print(kernel_cases.digest({SEEDS}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for folder in FOLDERS:
        monkeypatch.syspath_prepend(folder)
    from kernel_cases import digest

    assert done.stdout.strip() == digest(SEEDS)
