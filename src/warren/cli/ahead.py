"""The lower bound of a simulation, computed by a process of its own while the simulation goes.

The bound does not depend on the schedule, and takes as long as many a simulation. The process is a
copy of this one, and ends as soon as it has answered or is not needed. Where there is no second
core for it, or it does not answer, the bound is computed when it is asked for.

The first loads what solves, while this process goes on. Before a second one, this process loads it,
once: else each of many simulations would.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from itertools import count
from typing import Final, NoReturn

import numpy as np

from warren.cli.bounds import Columns, Solve, bound_of, columns_of, packed, why_none
from warren.cli.signals import SIGNALS, held
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.report.record import Bound

_PIECE_BYTES: Final = 4096
"""More than an answer takes."""
_times: Final = count()
_SMALL: Final = {
    "arrival_ns_J": np.zeros(2, dtype=np.int64),
    "weight_J": np.ones(2),
    "scale_J": np.ones(2, dtype=np.int64),
    "rounds_J": np.ones(2, dtype=np.int64),
    "comp_ns_JT": np.array([[1, 3], [2, 1]]),
    "sync_ns_JT": np.ones((2, 2), dtype=np.int64),
    "fits_JT": np.ones((2, 2), dtype=np.bool_),
    "type_D": np.arange(2),
    "gang_J": np.zeros(2, dtype=np.bool_),
}
"""Two tasks that may run on two types: less than that asks for less than what is loaded."""


@contextmanager
def bound_ahead(run: Run, costs: CostTable, world: str) -> Iterator[Solve]:
    """Begin with the bound for all the rounds that jobs state; inside, gives what solves for it.

    Other rounds than these, which a stop rule may bring, are solved for when they are asked for.
    """
    rounds = [job.rounds for job in run.workload.jobs]
    if None in rounds or why_none(run, world) or len(os.sched_getaffinity(0)) < 2:
        yield bound_of
        return
    columns = packed(columns_of(run, costs, np.array(rounds, dtype=np.int64)))
    if next(_times):
        _load()
    with ExitStack() as stack:
        solve: Solve = bound_of
        with suppress(OSError), held():  # no more processes: it is solved here
            child, answer = _begin(columns)
            stack.callback(_end, child, answer)
            solve = _asking(columns, answer)
        yield solve


@cache
def _load() -> None:
    """Load what solves, with all that it loads when it is first used."""
    from warren.solve.bounds.lower_bounds import lower_bounds

    lower_bounds(**_SMALL)


def _asking(columns: Columns, answer: int) -> Solve:
    """What waits for the process, where these columns are asked for and it answers."""
    return lambda asked: (_read(answer) if asked == columns else None) or bound_of(asked)


def _begin(columns: Columns) -> tuple[int, int]:
    """A process that solves; its id, and a pipe to read its answer from."""
    answer, told = os.pipe()
    # A signal that the copy took as this process does would end this run twice.
    old = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        child = os.fork()
        if child == 0:
            _solve(columns, told)
    except OSError:
        os.close(answer)
        raise
    finally:
        os.close(told)
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    return child, answer


def _solve(columns: Columns, told: int) -> NoReturn:
    """What the copy does. What goes wrong there is told by this run, which then solves itself."""
    try:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.write(told, json.dumps(asdict(bound_of(columns))).encode())
    finally:
        os._exit(0)  # nothing of what this run does at its end


def _read(answer: int) -> Bound | None:
    """What the process found; None where it ended without an answer."""
    data = os.read(answer, _PIECE_BYTES)
    return Bound(**json.loads(data)) if data else None


def _end(child: int, answer: int) -> None:
    os.close(answer)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
