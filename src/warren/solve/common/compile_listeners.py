"""Who is told before kernels are compiled. Apart from ``compile``, which takes long to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LISTENERS: Final[list[Callable[[], object]]] = []
"""Called once each, before the first kernel is compiled in this process: it takes seconds."""
BEGUN_OR_DONE: Final[list[Callable[[bool, bool], object]]] = []
"""Called when a function begins to be compiled (False), and when it is done (True). The second
argument tells a kernel of this project from functions that numba brings."""
KERNELS: Final[list[str]] = []
"""Names of the kernels in the modules loaded so far."""
NOT_KEPT: Final[list[str]] = []
"""Names of the kernels whose machine code no folder can keep."""


def tell_listeners() -> None:
    """Call each listener, and forget it."""
    while LISTENERS:
        LISTENERS.pop()()
