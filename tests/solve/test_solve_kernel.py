"""What a process loads to run kernels whose machine code is on disk."""

from __future__ import annotations

import subprocess
import sys

FOR_COMPILING = ("numba.np.arraymath", "numba.cpython.unicode", "scipy")
PROGRAM = f"""
import sys
import numpy as np
from warren.solve.mean_busy import mean_busy_delays

delay_J = mean_busy_delays(np.array([0, 10**9]), np.ones(2), np.array([3.0, 1.0]))
assert np.allclose(delay_J, [6.5 / 3, 0.5]), delay_J
print(*sorted(set({FOR_COMPILING}) & set(sys.modules)))
"""


def test_machine_code_on_disk_needs_nothing_of_the_compiler() -> None:
    runs = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[1].stdout == "\n"
