"""Simulations one after the other, or several at a time in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from warren.model.errors import EngineError, Problem, SpecError
from warren.model.run import Run
from warren.report.record import Record
from warren.runs.compose import Attend, Options, PreparedRun, simulate
from warren.runs.inputs import named_after
from warren.runs.notices import say


def simulated(
    runs: Sequence[tuple[str, PreparedRun]], processes: int, attend: Attend
) -> list[Record]:
    """Simulate runs, each with the path of its file, at most ``processes`` at a time.

    A process of its own prepares its run again: a policy of the user's file cannot be sent there.

    ``attend``: a person's view of a simulation in this process.

    Raises
    ------
    SpecError
        A run cannot be simulated; later ones are not simulated then.
    EngineError
        A process was ended from outside, as when memory runs out.
    """
    if processes == 1 or len(runs) < 2:
        return [_shown(*one, attend) for one in runs]
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(min(processes, len(runs)), context, _begin, (os.getpid(),))
    # Answers come in the order of the runs, whichever is ready first.
    try:
        asked = [pool.submit(_silent, path, prepared.run) for path, prepared in runs]
        return [_told(*pair) for pair in zip(runs, (one.result() for one in asked), strict=True)]
    except BrokenProcessPool:
        message = "a process that simulated was ended from outside; try fewer with --jobs"
        raise EngineError(message) from None
    finally:
        # After an error or Ctrl-C no result of a running simulation is awaited.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()


def _shown(path: str, prepared: PreparedRun, attend: Attend) -> Record:
    """Simulate a run in this process, where a person sees how far it is."""
    run = prepared.run
    say(f"simulating {run.name} under {run.scheduler.place}")
    with named_after(path, run):
        return simulate(prepared, None, Options(attend=attend))


def _begin(parent: int) -> None:
    """Prepare a process of the pool: the command hears Ctrl-C and ends it."""
    from warren.live.process.linux import die_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)


def _silent(path: str, run: Run) -> Record | tuple[Problem, ...]:
    """Simulate a run in a process of the pool; return its record, or its problems.

    An exception would lose its problems on its way to the command.
    """
    try:
        with named_after(path, run):
            return simulate(run, None, Options())
    except SpecError as error:
        return error.problems


def _told(one: tuple[str, PreparedRun], found: Record | tuple[Problem, ...]) -> Record:
    if isinstance(found, tuple):
        raise SpecError(found)
    run = one[1].run
    say(f"simulated {run.name} under {run.scheduler.place}")
    return found
