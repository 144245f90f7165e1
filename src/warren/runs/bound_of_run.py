"""The lower bound for a schedule, or the reason why none can be given.

A separate process may compute the bound of a simulation meanwhile: the bound does not depend on the
schedule, and takes as long as many a simulation. The process is a copy of this one, and ends as
soon as it has answered or is not needed. If there is no second core for it, or it does not answer,
the bound is computed on demand.

The first of these processes loads the solvers, while this process goes on. Before a second one,
this process loads them, once: otherwise each of many simulations would. From then on the bound of a
few jobs is computed here, which takes less time than a copy of this process.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import cache
from itertools import count
from typing import Any, Final, NoReturn

import numpy as np

from warren.core.journal_reader import History
from warren.model.costs import CostTable, IntArray
from warren.model.run import Run
from warren.report.record import LIVE, Bound
from warren.solve.common.compile_listeners import LISTENERS
from warren.store.signals import SIGNALS, held

Columns = tuple[tuple[str, str, tuple[int, ...], bytes], ...]
"""The arrays of a bound's problem, as a key: name, type, shape and content of each."""
Solve = Callable[[Columns], Bound]
"""Given the arrays of a problem, returns its bound: computed here, or by another process."""


def lower_bound(run: Run, costs: CostTable, history: History, solve: Solve | None = None) -> Bound:
    """Return a bound valid for the actual durations, or the reason why there is none.

    Simulated task times are the profile's, or drawn around it by ``truth``, where no bound from
    the profile holds. Emulated live tasks take at least their padded time, so the profile's bound
    holds for them, unless pads were drawn from measured jitter. A stop rule may end a job early:
    the rounds that ran are what counts.
    """
    reason = why_none(run, history.header.world)
    if reason:
        return _none(reason)
    # A bound counts the rounds that ran, and of an unfinished job not all that it needs have run.
    if np.any(history.finish_ns_J < 0):
        return _none("not every job finished")
    return (solve or bound_of)(packed(columns_of(run, costs, history.rounds_run())))


def why_none(run: Run, world: str) -> str:
    """Tell why no bound can hold, however the run goes in this world; empty if one can."""
    if run.truth.task_cv or run.truth.job_cv:
        return "task times are drawn around the profile, so its bound does not hold"
    if world == LIVE and run.cluster.emulate is None:
        return "live task times without emulation are not known in advance"
    if world == LIVE and run.cluster.emulate and run.cluster.emulate.jitter:
        return "pads drawn from measured jitter may be shorter than the profile's times"
    if world != LIVE and run.cluster.raises_times:
        return "measured overheads are added to the profile, so its bound does not hold"
    if world == LIVE and not run.cluster.is_scheduled:
        return "the plain engine runs jobs one after the other, at its own speed"
    return "" if run.workload.jobs else "there are no jobs"


def columns_of(run: Run, costs: CostTable, rounds_J: IntArray) -> dict[str, Any]:
    """Return the arrays of the bound's problem, by name; ``rounds_J``: the rounds that count."""
    jobs = run.workload.jobs
    return {
        "arrival_ns_J": np.array([job.arrival_ns for job in jobs], dtype=np.int64),
        "weight_J": np.array([job.weight for job in jobs], dtype=np.float64),
        "scale_J": np.array([job.scale for job in jobs], dtype=np.int64),
        "rounds_J": rounds_J,
        "comp_ns_JT": costs.comp_ns_JT,
        "sync_ns_JT": costs.sync_ns_JT,
        "fits_JT": costs.fits_JT,
        "type_D": np.array(run.cluster.type_of_device, dtype=np.int64),
        "gang_J": np.array([job.sync == "ring" for job in jobs], dtype=np.bool_),
    }


def packed(columns: dict[str, Any]) -> Columns:
    """Return the arrays as a key, by which an answer is remembered or sent."""
    return tuple((name, a.dtype.str, a.shape, a.tobytes()) for name, a in columns.items())


_MOST_ANSWERS: Final = 32
"""Most bounds that are remembered."""
_answers: dict[Columns, Bound] = {}
"""The bounds computed last, by this process or by another for it."""


def bound_of(columns: Columns) -> Bound:
    """Return the bound of a problem, computed or remembered.

    ``compare`` asks for the same problem once for each policy.
    """
    return _answers.get(columns) or _remembered(columns, _computed(columns))


def _remembered(columns: Columns, bound: Bound) -> Bound:
    """Remember the bound of a problem, and return it."""
    _answers[columns] = bound
    if len(_answers) > _MOST_ANSWERS:
        del _answers[next(iter(_answers))]
    return bound


def _computed(columns: Columns) -> Bound:
    """Compute the bound of a problem."""
    from warren.solve.bounds.lower_bounds import lower_bounds

    arrays: dict[str, Any] = {
        name: np.frombuffer(content, dtype=np.dtype(kind)).reshape(shape)
        for name, kind, shape, content in columns
    }
    return Bound(**asdict(lower_bounds(**arrays)))


def _none(reason: str) -> Bound:
    """Return a bound that is not known, for this reason."""
    return Bound(weighted_jct_s=None, makespan_s=None, reason=reason)


_PIECE_BYTES: Final = 4096
"""Bytes of the pipe that are read at once: more than an answer has."""
_FEW_JOBS: Final = 6
"""Most jobs whose bound takes less time than a copy of this process."""
_times: Final = count()
"""Counts the processes that were begun, to tell the first one from the others."""
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
"""Two tasks that may run on two types: the least problem that makes all of the solvers load."""


@contextmanager
def bound_ahead(run: Run, costs: CostTable, world: str) -> Iterator[Solve]:
    """Begin with the bound for all the rounds that jobs state; yield the solver for it.

    Other numbers of rounds, which a stop rule may bring, are solved for on demand.
    """
    rounds = [job.rounds for job in run.workload.jobs]
    if None in rounds or why_none(run, world) or len(os.sched_getaffinity(0)) < 2:
        yield bound_of
        return
    columns = packed(columns_of(run, costs, np.array(rounds, dtype=np.int64)))
    if columns in _answers:
        yield bound_of
        return
    # Not for the first: the forked process loads the solvers while this one simulates.
    if next(_times):
        _load()
        if len(rounds) <= _FEW_JOBS:
            yield bound_of
            return
    with ExitStack() as stack:
        solve: Solve = bound_of
        with suppress(OSError), held():  # no more processes: it is solved here
            child, answer = _begin(columns)
            stack.callback(_end, child, answer)
            solve = _asking(columns, answer)
        yield solve


@cache
def _load() -> None:
    """Load the solvers, with all that they load when they are first used."""
    from warren.solve.bounds.lower_bounds import lower_bounds

    lower_bounds(**_SMALL)


def _asking(columns: Columns, answer: int) -> Solve:
    """Return a solver that waits for the process for these columns, and solves others here."""

    def solve(asked: Columns) -> Bound:
        found = _read(answer) if asked == columns else None
        return bound_of(asked) if found is None else _remembered(columns, found)

    return solve


def _begin(columns: Columns) -> tuple[int, int]:
    """Begin a process that solves; return its id, and a pipe to read its answer from."""
    answer, reply = os.pipe()
    # A signal that the copy took as this process does would end this run twice.
    old = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        child = os.fork()
        if child == 0:
            _solve(columns, reply)
    except OSError:
        os.close(answer)
        raise
    # The end of the pipe that is written to is the child's: while this process had it open too, a
    # child that died would leave the reader waiting for ever.
    finally:
        os.close(reply)
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
    return child, answer


def _solve(columns: Columns, reply: int) -> NoReturn:
    """Solve in the copy of this process, write the answer to the pipe and end.

    If that fails it writes nothing: this run then solves by itself, and reports the error.
    """
    try:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        # The run itself reports compiled kernels to its listeners.
        LISTENERS.clear()
        os.write(reply, json.dumps(asdict(bound_of(columns))).encode())
    finally:
        # Not ``sys.exit``: the copy must run none of this run's exit handlers.
        os._exit(0)


def _read(answer: int) -> Bound | None:
    """Wait for the process's answer; None where it ended without one."""
    data = os.read(answer, _PIECE_BYTES)
    return Bound(**json.loads(data)) if data else None


def _end(child: int, answer: int) -> None:
    """End the process, whether or not it has answered."""
    os.close(answer)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
