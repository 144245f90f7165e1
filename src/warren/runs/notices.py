"""Lines for people while a run is prepared and goes on. A command shows them; this room does not.

They go to the logger ``warren`` of the standard library: without any set-up it writes them to
standard error, and a program that calls Warren may send them elsewhere.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Final

LOGGER: Final = logging.getLogger("warren")


def say(text: str) -> None:
    """Tell one line to whoever listens to the logger ``warren``."""
    LOGGER.warning("%s", text)


@cache
def say_once(text: str) -> None:
    """Tell a line once in this process: it is the same for each of the runs that are compared."""
    say(text)


def say_compiling() -> None:
    """Tell, once in this process, that what a policy computes with is compiled."""
    say_once("compiling what is needed to decide and simulate: once, until Warren or numba changes")
