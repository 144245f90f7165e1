"""The choice of libraries that a zygote loads before its first fork: those that apps mention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warren.model.job import Sources

ALWAYS: Final = ("numpy", "safetensors.torch", "torch")
"""Every process needs them. Libraries only, here and below: never user code."""

MENTIONED: Final[Mapping[str, str]] = {
    "sklearn": "sklearn.datasets",
    "scipy": "scipy.sparse",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""Word in the text of an app to the library that is then loaded, where it is installed."""


def libraries(sources: Sources) -> tuple[str, ...]:
    """Return the libraries that are worth loading for these apps."""
    # A word anywhere in a text counts: a library too many costs time only, as does one too few.
    texts = [text for source in sources.values() for text in source.texts.values()]
    wanted = [MENTIONED[word] for word in MENTIONED if any(word.encode() in text for text in texts)]
    return (*ALWAYS, *wanted)
