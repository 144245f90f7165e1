"""Resample a trace, so that the seeds of a run vary what a trace fixes.

A trace is one sample of what its cluster does. Each resampling states what is taken as random:

*Jobs* (bootstrap of Efron, 1979). The arrival times stay those of the trace. At each of them a row
is drawn with replacement, and gives all the rest: run time, GPUs, model, user, weight. So bursts
and hours of the day stay, and which jobs arrive varies. What a row has to do with its time, such
as a user's burst of equal jobs, is lost.

*Windows* (circular block bootstrap of Politis and Romano, 1992, over blocks of time). The trace is
bent to a circle, with a mean gap between its last job and its first, so that each of its instants
is as likely as any other. Windows that begin anywhere on the circle are drawn, all equally likely,
and laid end to end. So the gaps and the jobs inside a window stay together. Hours of the day stay
where a window is a day or longer.

Both give as many jobs as the trace has (the last window is cut there), so that sums over jobs can
be compared between seeds. Draws are whole numbers from a hash of the run's seed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from warren.model.draws import RESAMPLED, draw_bits, stream_key
from warren.model.errors import Problem, SpecError
from warren.model.units import NS_PER_S
from warren.workload.traces.rows import JOBS, WINDOWS, Resample, TraceRequest, TraceRow

_WINDOWS_OF_TRACE: Final = 10
"""Windows that a trace has where no window is stated."""
_WINDOWS_MOST: Final = 100_000
"""Most windows of a trace: each is drawn on its own."""
_NAME_CHARACTERS: Final = 80
_UNITS_S: Final = {"d": 86400, "h": 3600, "min": 60}


def resampled(
    rows: Sequence[TraceRow], request: TraceRequest
) -> tuple[Sequence[TraceRow], Sequence[str]]:
    """Return as many rows, drawn as ``request.resample`` says, in order of arrival, and a remark.

    Each has the name of its row with its own number in front, so that all names differ. Without
    ``resample`` the rows stay and there is no remark.

    Raises SpecError if windows cannot be drawn: the trace has no length, or the stated window is
    not shorter than it, or far too short.
    """
    asked = request.resample
    if asked is None:
        return rows, ()
    in_order = sorted(rows, key=lambda row: (row.submitted_ns, row.line))
    if asked.what == JOBS:
        what, drawn = JOBS, list(_jobs(in_order, request.run_seed))
    else:
        circle_ns, window_ns = _circle_and_window_ns(in_order, asked)
        what = f"{WINDOWS} of {_time(window_ns)}"
        drawn = _windows(in_order, circle_ns, window_ns, request.run_seed)
    width = len(str(len(drawn) - 1))
    named = [
        replace(row, name=f"{number:0{width}}-{row.name}"[:_NAME_CHARACTERS])
        for number, row in enumerate(drawn)
    ]
    return named, (f"{request.file}: resampled: {what}, seed {request.run_seed}",)


def _below(seed: int, number: int, limit: int) -> int:
    """Return draw ``number`` of the seed: a whole number in [0, ``limit``)."""
    return draw_bits(stream_key(seed, RESAMPLED, 0), number, 0) * limit >> 64


def _jobs(rows: Sequence[TraceRow], seed: int) -> Iterator[TraceRow]:
    """Yield for each arrival of the sorted rows a row drawn with replacement."""
    for number, at in enumerate(rows):
        yield replace(rows[_below(seed, number, len(rows))], submitted_ns=at.submitted_ns)


def _windows(rows: Sequence[TraceRow], circle_ns: int, window_ns: int, seed: int) -> list[TraceRow]:
    """Return windows of the sorted rows, laid end to end from time 0, cut at as many rows."""
    times_ns = [row.submitted_ns - rows[0].submitted_ns for row in rows]
    # Twice around, so that a window over the end of the trace goes on at its beginning.
    times_ns += [time_ns + circle_ns for time_ns in times_ns]
    drawn: list[TraceRow] = []
    number = 0
    while len(drawn) < len(rows):
        start_ns = _below(seed, number, circle_ns)
        first = bisect_left(times_ns, start_ns)
        for at in range(first, bisect_left(times_ns, start_ns + window_ns, first)):
            time_ns = number * window_ns + times_ns[at] - start_ns
            drawn.append(replace(rows[at % len(rows)], submitted_ns=time_ns))
        number += 1
    return drawn[: len(rows)]


def _circle_and_window_ns(rows: Sequence[TraceRow], asked: Resample) -> tuple[int, int]:
    """Return the length of the circle and of a window, in ns."""
    length_ns = rows[-1].submitted_ns - rows[0].submitted_ns
    if not length_ns:
        message = "all jobs arrive at one time, so there are no windows; use resample: jobs"
        raise SpecError(Problem(file=asked.file, field=f"{asked.field}.resample", message=message))
    # n jobs have n - 1 gaps; the circle has one more, of their mean length.
    circle_ns = length_ns + length_ns // (len(rows) - 1)
    if asked.window_s is None:
        return circle_ns, max(1, circle_ns // _WINDOWS_OF_TRACE)
    window_ns = round(asked.window_s * NS_PER_S)
    least_ns = -(-circle_ns // _WINDOWS_MOST)
    if not least_ns <= window_ns < length_ns:
        message = (
            f"is {_time(window_ns)}; allowed: {_time(least_ns)} or more, and less than the "
            f"{_time(length_ns)} from the first arrival to the last"
        )
        raise SpecError(Problem(file=asked.file, field=f"{asked.field}.window", message=message))
    return circle_ns, window_ns


def _time(time_ns: int) -> str:
    """Write a time with the largest unit that it is one of or more, in four digits."""
    time_s = time_ns / NS_PER_S
    unit = next((unit for unit in _UNITS_S if time_s >= _UNITS_S[unit]), "s")
    return f"{time_s / _UNITS_S.get(unit, 1):.4g} {unit}"
