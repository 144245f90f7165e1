"""Warren: one scheduler for many training jobs on one shared cluster.

``warren.simulate(run)``, ``warren.compare(run)``, ``warren.run(run)``, ``warren.resume(DIR)`` and
``warren.load(DIR)`` are imported when first used, so that importing the package costs nothing.
``warren.plot_means(table)`` and its like draw what these return.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = [
    "compare",
    "load",
    "plot_cdf",
    "plot_gantt",
    "plot_means",
    "plot_sweep",
    "plot_use",
    "plot_users",
    "resume",
    "run",
    "simulate",
]

TYPE_CHECKING = False  # not from typing: it would take a tenth of the time to ``warren --help``

if TYPE_CHECKING:
    from warren.runs.api import compare, load, resume, run, simulate
    from warren.runs.comparison.plots import (
        plot_cdf,
        plot_gantt,
        plot_means,
        plot_sweep,
        plot_use,
        plot_users,
    )


def __dir__() -> list[str]:
    """Return the public names, which completion shows."""
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"])


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        place = "comparison.plots" if name.startswith("plot_") else "api"
        return getattr(import_module(f"warren.runs.{place}"), name)
    raise AttributeError(f"module 'warren' has no attribute {name!r}")
