"""Let torch's optimizers step without loading its compiler, which takes as long as torch itself.

``Optimizer.step`` imports ``torch._dynamo`` only to tell a compiler where to break, in case one is
tracing; a group of processes clears its cache. Here a stand-in module does these two things. It
loads the real module as soon as anything else is used, by ``torch.compile``, say.
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
    """Stand-in for ``torch._dynamo.trace_rules``: a group of processes clears its cache."""

    @staticmethod
    def clear_lru_cache() -> None:
        """Forget nothing, since nothing was traced."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().trace_rules, name)


class LazyDynamo(ModuleType):
    """Stand-in for ``torch._dynamo`` until something beyond its two no-ops is used."""

    trace_rules = _TraceRules()

    @staticmethod
    def graph_break(*_: object, **__: object) -> None:
        """Do nothing: no compiler traces before the real module is loaded."""

    @staticmethod
    def disable(function: _F, *_: object, **__: object) -> _F:
        """Return the function unchanged: no compiler traces before the real module is loaded."""
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
        # The real module, once loaded, looks for itself as an attribute of torch, too.
        vars(torch).pop("_dynamo", None)
    return importlib.import_module(NAME)
