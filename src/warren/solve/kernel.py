"""How the hot loops are compiled."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from numba import njit


def _load_without_scipy() -> None:
    """Load the part of numba that looks for a BLAS as if there were none.

    It would load all of ``scipy.linalg``, which takes longer than the rest of numba. No kernel
    asks for linear algebra; numba's own covariances in the same process are summed by a loop.
    """
    if "scipy.linalg" in sys.modules:
        return
    sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
    try:
        import_module("numba.np.arraymath")
    finally:
        del sys.modules["scipy.linalg"]


_load_without_scipy()
_OPTIONS: Final[Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
kernel: Final[Any] = njit(**_OPTIONS)
"""Kernels work on arrays that their caller owns and never allocate. Without numba's memory
runtime no array is counted when a tuple of arrays is handed on: half the time to compile and to
run. Integer division by zero is undefined under this error model; no kernel divides by input."""
inlined: Final[Any] = njit(forceinline=True, **_OPTIONS)
"""For small functions of a hot loop that take tuples of arrays: handed on to a function that is not
inlined, these are some hundred words, which costs more than many a function does."""
