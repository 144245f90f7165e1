"""Listeners that are called before kernels are compiled.

Apart from ``compile``, which takes long to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LISTENERS: Final[list[Callable[[], object]]] = []
"""Called once each, before the first kernel is compiled in this process: it takes seconds."""
BEGUN_OR_DONE: Final[list[Callable[[bool, bool], object]]] = []
"""Called when a function begins to be compiled (False), and when it is done (True).

The second argument is True for a kernel of this project, False for a function of numba's.
"""
KERNELS: Final[list[str]] = []
"""Names of the kernels in the loaded modules."""
NOT_KEPT: Final[list[str]] = []
"""Names of the kernels whose machine code no folder can keep."""


def tell_listeners() -> None:
    """Call each listener, and forget it."""
    while LISTENERS:
        LISTENERS.pop()()
