"""Lines for people while a run is prepared and goes on. A command shows them; this room does not.

They go to the logger ``warren`` of the standard library. Without any set-up it writes them to
standard error, and a program that calls Warren may send them elsewhere. ``COMPILING`` counts the
compilation of kernels and its time: it is no part of the cost of decisions.
"""

from __future__ import annotations

import logging
from functools import cache
from time import perf_counter
from typing import Final

from warren.solve.common.compile_listeners import BEGUN_OR_DONE, KERNELS, LISTENERS, NOT_KEPT

LOGGER: Final = logging.getLogger("warren")


def say(text: str) -> None:
    """Send one line to the logger ``warren``."""
    LOGGER.warning("%s", text)


@cache
def say_once(text: str) -> None:
    """Tell a line once in this process: it is the same for each of the runs that are compared."""
    say(text)


class CompileClock:
    """A clock that runs while kernels are compiled.

    ``done``: kernels compiled so far, each once for each kind of arguments.
    """

    def __init__(self) -> None:
        self.done = 0
        self._depth = 0
        self._passed_s = 0.0
        self._began_s: float | None = None

    @property
    def is_compiling(self) -> bool:
        """Tell whether a kernel is compiled right now."""
        return self._began_s is not None

    @property
    def seconds(self) -> float:
        """Return the real seconds of compilation so far, the present one included."""
        # Read once: another thread asks, to show how far it is.
        began_s = self._began_s
        return self._passed_s + (0.0 if began_s is None else perf_counter() - began_s)

    @property
    def line(self) -> str:
        """Return the progress of compiling. Some modules are not loaded yet, others not needed."""
        kernels = f"{self.done} of about {len(KERNELS)}"
        return f"compiling kernels (once), {kernels}, {self.seconds:.0f} s"

    def watch(self) -> None:
        """Start the clock when kernels are compiled next, and say once that they are."""
        LISTENERS[:] = [self._begin]
        BEGUN_OR_DONE[:] = [self._note]

    def _begin(self) -> None:
        """Start the clock: numba gets ready, and then compiles the first kernel."""
        if NOT_KEPT:
            say_once(
                "compiling kernels: at each start, since no folder can be written to keep them; "
                "NUMBA_CACHE_DIR=DIR names one"
            )
        else:
            say_once("compiling kernels: once, until Warren or numba changes")
        self._began_s = perf_counter()

    def _note(self, done: bool, own: bool) -> None:
        """Note the begin or end of a kernel; the callees of a kernel are compiled within it."""
        if not done:
            self._depth += 1
            self._began_s = perf_counter() if self._began_s is None else self._began_s
            return
        self._depth -= 1
        self.done += own
        if not self._depth:
            self._passed_s, self._began_s = self.seconds, None


COMPILING: Final = CompileClock()
"""The clock of this process."""
