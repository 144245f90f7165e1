"""Who is told before kernels are compiled. Apart from ``compile``, which takes long to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LISTENERS: Final[list[Callable[[], object]]] = []
"""Called once each, before the first kernel is compiled in this process: it takes seconds."""


def tell_listeners() -> None:
    """Call each listener, and forget it."""
    while LISTENERS:
        LISTENERS.pop()()
