"""Which libraries a zygote loads before its first fork: those that the run's apps mention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from warren.model.job import Job

ALWAYS: Final = ("numpy", "safetensors.torch", "torch")
"""Every process needs them. Libraries only, here and below: never user code."""

MENTIONED: Final[Mapping[str, str]] = {
    "sklearn": "sklearn.datasets",
    "scipy": "scipy.sparse",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""Word in the text of an app to the library that is then loaded, where it is installed."""


def libraries(jobs: Iterable[Job], base: str) -> tuple[str, ...]:
    """The libraries worth loading for these jobs. A file that cannot be read asks for none."""
    files = {job.app.rpartition(":")[0] for job in jobs if job.app is not None}
    texts = [_read(Path(base) / file) for file in sorted(files)]
    wanted = [MENTIONED[word] for word in MENTIONED if any(word in text for text in texts)]
    return (*ALWAYS, *wanted)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
