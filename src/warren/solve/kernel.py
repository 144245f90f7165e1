"""How the hot loops are compiled."""

from __future__ import annotations

import sys
from typing import Any, Final

from numba import njit

if "scipy.linalg" not in sys.modules:
    # numba would load it to see whether there is a BLAS; a fifth of a second, and no kernel asks.
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    import numba.np.arraymath

    del sys.modules["scipy.linalg"]

_OPTIONS: Final[Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
kernel: Final[Any] = njit(**_OPTIONS)
"""Kernels work on arrays that their caller owns and never allocate. Without numba's memory
runtime no array is counted when a tuple of arrays is handed on: half the time to compile and to
run. Integer division by zero is undefined under this error model; no kernel divides by input."""
