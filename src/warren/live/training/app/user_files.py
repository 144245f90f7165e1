"""Tell the user's own files from those of Warren and of libraries."""

from __future__ import annotations

import functools
import sysconfig
from pathlib import Path
from typing import Final

import warren

_LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
_WARREN: Final = Path(warren.__file__).parent


@functools.cache
def is_users(file: str) -> bool:
    """Tell whether a file of Python text is neither Warren's nor a library's."""
    path = Path(file)
    # Names like ``<string>`` mean text that is in no file.
    if file.startswith("<") or path.is_relative_to(_WARREN):
        return False
    return not file.startswith(_LIBRARIES) and not _PACKAGES.intersection(path.parts)
