"""How the hot loops are compiled, and how their machine code is loaded again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Whoever asks for this module meanwhile is told that it is not installed."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


with _hidden("scipy"):  # numba looks at its version only
    from numba import njit
    from numba.core.caching import FunctionCache


class _MachineCode(FunctionCache):
    """Machine code of one kernel on disk.

    numba gets everything ready for compiling (its tables of all functions that it knows) before
    it looks here. That takes a quarter of a short run, and code that is there needs none of it;
    where it is not there, the compiler does it. Most kernels are called by others only, so the
    folder is looked at when one is called.
    """

    def __init__(self, function: Any) -> None:
        self._function, self._is_open = function, False

    def load_overload(self, signature: Any, target: Any) -> Any:
        if not self._is_open:
            super().__init__(self._function)  # type: ignore[no-untyped-call]
            self._is_open = True
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target)  # type: ignore[no-untyped-call]
        if found is None:
            _get_ready_to_compile()
        return found


def _nothing() -> None:
    """Before a kernel is called: its arguments are arrays and numbers, of no other package."""


def _get_ready_to_compile() -> None:
    """Load the part of numba that looks for a BLAS as if there were none.

    It would load all of ``scipy.linalg``, which takes longer than the rest of numba. No kernel
    asks for linear algebra; numba's own covariances in the same process are summed by a loop.
    """
    with _hidden("scipy.linalg"):
        import_module("numba.np.arraymath")


_OPTIONS: Final[Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def _compiled(**options: Any) -> Callable[[Any], Any]:
    def kernel(function: Any) -> Any:
        made: Any = njit(**_OPTIONS, **options)(function)
        if made is not function:  # as it is where NUMBA_DISABLE_JIT is set
            made._cache = _MachineCode(function)
            made._compilation_chain_init_hook = _nothing
        return made

    return kernel


kernel: Final[Any] = _compiled()
"""Kernels work on arrays that their caller owns and never allocate. Without numba's memory
runtime no array is counted when a tuple of arrays is handed on: half the time to compile and to
run. Integer division by zero is undefined under this error model; no kernel divides by input."""
inlined: Final[Any] = _compiled(forceinline=True)
"""For small functions of a hot loop that take tuples of arrays: handed on to a function that is not
inlined, these are some hundred words, which costs more than many a function does."""
