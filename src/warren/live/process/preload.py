"""The libraries that a zygote loads before its first fork: those that apps mention."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from warren.live.process.linux import thread_names
from warren.model.errors import one_line
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


def load_ahead(names: Iterable[str], start_without: Callable[[str], NoReturn]) -> None:
    """Load libraries in a zygote; restart it without an optional library that fails.

    A zygote must have nothing of a library that failed: its children would find it half loaded, and
    fail otherwise than it does. The job that needs the library loads it by itself, and fails alone.

    Parameters
    ----------
    names
        Names of libraries; those that are not installed are left out.
    start_without
        Starts the zygote again without a library, by its name.
    """
    for name in names:
        why = ""
        try:
            importlib.import_module(name)
        # A library that is loaded may raise anything, as an app may.
        except BaseException as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]
            if name in ALWAYS and not missing:
                raise
            why = "" if missing else one_line(error)
        else:
            if name not in ALWAYS and len(thread_names()) > 1:
                why = "it starts threads"
        if why:
            print(f"{name} is not loaded ahead of its jobs: {why}", file=sys.stderr, flush=True)
            start_without(name)
