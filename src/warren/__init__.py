"""Warren: one scheduler for many training jobs on one shared cluster.

``warren.simulate(run)``, ``warren.run(run)`` and ``warren.load(DIR)`` are imported when first
used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["load", "run", "simulate"]

if TYPE_CHECKING:
    from warren.cli.api import load, run, simulate


def __getattr__(name: str) -> Any:
    if name in __all__:
        from warren.cli import api

        return getattr(api, name)
    raise AttributeError(f"module 'warren' has no attribute {name!r}")
