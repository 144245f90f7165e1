"""Whether a path is that of a service."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FILE: Final = "queue.db"
"""The journal in the home of a service."""
_SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of a file of SQLite."""


def is_service(path: str) -> bool:
    """Tell whether a path is the home of a service, or its journal."""
    file = Path(path)
    if file.is_dir():
        return (file / FILE).is_file()
    try:
        with file.open("rb") as opened:
            return file.is_file() and opened.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False
