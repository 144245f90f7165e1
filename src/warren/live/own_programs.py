"""The command lines of processes that are Warren's own programs."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import warren

_HOME: Final = Path(warren.__file__).resolve().parents[1]


def own_program(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module, of Warren or a library.

    It finds no module in the current folder, where a ``random.py`` of the user's would stand in for
    Python's own. ``PYTHONPATH`` counts, as for the command itself.
    """
    return [sys.executable, *isolation(), "-m", module, *arguments]


def isolation() -> list[str]:
    """Return the options by which Python leaves the current folder out of its search."""
    # It stays in where it is what Warren itself is found by.
    with suppress(OSError):
        if Path.cwd() == _HOME:
            return []
    return ["-P"]
