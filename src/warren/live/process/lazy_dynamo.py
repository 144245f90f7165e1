"""Let torch's optimisers step without loading its compiler, which takes as long as torch itself.

``Optimizer.step`` imports ``torch._dynamo`` to tell a compiler that may be tracing it where to
break, and nothing else; a group of processes clears its cache. Here a module stands in its place
that does these things, and becomes the real one as soon as anything else of it is asked for: by
``torch.compile``, say.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, TypeVar

NAME: Final = "torch._dynamo"
_F = TypeVar("_F", bound=Callable[..., Any])


class _TraceRules:
    """Stands for ``torch._dynamo.trace_rules``: a group of processes clears what it remembers."""

    @staticmethod
    def clear_lru_cache() -> None:
        """Forget nothing, since nothing was traced."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().trace_rules, name)


class LazyDynamo(ModuleType):
    """Stands for ``torch._dynamo`` until more of it is needed than says nothing to nobody."""

    trace_rules = _TraceRules()

    @staticmethod
    def graph_break(*_: object, **__: object) -> None:
        """Tell nobody to break: nothing is traced before the real module is there."""

    @staticmethod
    def disable(function: _F, *_: object, **__: object) -> _F:
        """Return the function as it is, for the same reason."""
        return function

    def __getattr__(self, name: str) -> Any:
        """Load the real module in place of this one, and return its attribute."""
        return getattr(_real(), name)


def keep_out() -> None:
    """Put the module that loads the real one when it is needed in its place, if none is loaded."""
    import torch

    if NAME not in sys.modules:
        sys.modules[NAME] = torch._dynamo = LazyDynamo(NAME)


def _real() -> ModuleType:
    import torch

    if isinstance(sys.modules.get(NAME), LazyDynamo):
        del sys.modules[NAME]
        # What it loads asks for it as an attribute of torch, too.
        vars(torch).pop("_dynamo", None)
    return importlib.import_module(NAME)
