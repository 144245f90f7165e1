"""The text of an app: its file, and what that imports from its own folder. Immutable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSource:
    """Files as they were read once. ``folder`` is where, absolute; ``main`` names the app's own.

    ``texts``: bytes by path relative to ``folder``, ``main`` among them.
    """

    folder: str
    main: str
    texts: Mapping[str, bytes]

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of each file, in order of path."""
        return {path: hashlib.sha256(self.texts[path]).hexdigest() for path in sorted(self.texts)}

    @property
    def sha256(self) -> str:
        """SHA-256 of the only file; of several, that of what ``sha256sum`` prints of them."""
        hashes = self.hashes
        if len(hashes) == 1:
            return hashes[self.main]
        lines = "".join(f"{digest}  {path}\n" for path, digest in hashes.items())
        return hashlib.sha256(lines.encode()).hexdigest()


Sources: TypeAlias = Mapping[str, AppSource]
"""By file as jobs name it (``Job.app_file``)."""
