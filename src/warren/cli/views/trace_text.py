"""The summary of a trace as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_LABEL: Final = 18
"""Width of the first column in characters."""
_TIMES: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_QUANTILES: Final = {
    "least": "least",
    **{f"p{part}": f"{part} %" for part in (1, 10, 25, 50, 75, 90, 99)},
    "most": "most",
    "mean": "mean",
}
_NAMES: Final = 8


def trace_text(summary: Mapping[str, Any]) -> str:
    """Return the lines of ``warren trace inspect``, from the output of --json."""
    return "\n".join(_lines(summary))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines; facts that the trace does not have are left out."""
    yield f"{found['file']}: {found['format']}"
    unused = found["unused_rows"]
    yield _line("jobs", f"{found['jobs']:,}; rows not used: {unused:,}")
    for note in found["notes"]:
        yield _line("", note.removeprefix(f"{found['file']}: "))
    if not found["jobs"]:
        return
    order = "in order" if found["in_order"] else "not in order"
    equal = f"rows equal to an earlier one: {found['equal_rows']:,}"
    yield _line("submitted", f"over {_time(found['span_s'])}, {order}; {equal}")
    # Gaps between arrivals of a Poisson process are exponential: their coefficient is 1.
    if found["gap_cv"] is not None:
        burst = f"coefficient of variation {found['gap_cv']:.2f} (1: Poisson)"
        yield _line("gaps between", f"{burst}; gaps of 0: {found['gaps_of_0']:,}")
    if found["gpus_busy"] is not None and found["run_s"] is not None:
        digits = 2 if found["gpus_busy"] < 10 else 1
        busy = f"{found['gpus_busy']:,.{digits}f}"
        yield _line("GPUs busy", f"{busy} on average, if no job had to wait")
    yield _line("", "".join(f"{name:>9}" for name in _QUANTILES.values()))
    yield _line("gaps", _quantiles(found["gap_s"]))
    yield _line("run time", _quantiles(found["run_s"]) + _hint(found))
    yield from _gpus(found["gpus"])
    yield from _tail(found["tail"])
    for label, key in (("models", "models"), ("virtual clusters", "pools")):
        if found[key]:
            yield _line(label, _counts(found[key]))
    if found["users"]:
        yield _line("users", f"{found['users']:,}")


def _hint(found: Mapping[str, Any]) -> str:
    """Return how the run times of a trace can become known, if an option can give them."""
    # Gavel's traces state steps; its table of throughputs tells how long a step takes.
    priced = found["run_s"] is None and found["format"] == "gavel"
    return "; give --throughputs FILE" if priced else ""


def _gpus(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each number of GPUs that jobs have."""
    yield _line("GPUs of a job", f"{'GPUs':>6}  {'jobs':>9}  {'share':>6}  {'of work':>7}")
    for one in entries:
        work = "-" if one["work_share"] is None else f"{one['work_share']:.1%}"
        yield _line("", f"{one['gpus']:>6}  {one['jobs']:>9,}  {one['share']:>6.1%}  {work:>7}")


def _tail(tail: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield how much of the work the largest jobs have, and how heavy the tail is."""
    if tail is None:
        return
    parts = [f"the largest job has {tail['top_job_work']:.1%} of the work"]
    # A part of less than one job has no share.
    parts += [
        f"the largest {part} % have {tail[f'top_{part}_pct_work']:.1%}"
        for part in (1, 10)
        if tail[f"top_{part}_pct_work"] is not None
    ]
    yield _line("tail", ", ".join(parts))
    more = f"coefficient of variation {tail['work_cv']:.2f} (1: exponential)"
    # Too few jobs, or jobs of equal work, have no tail index.
    if tail["hill"] is not None:
        # Below 2 the variance of the work is infinite (``warren.workload.traces.summary``).
        heavy = "heavy" if tail["heavy"] else "not heavy"
        index = f"tail index {tail['hill']:.2f} by the largest {tail['hill_jobs']:,} jobs"
        more = f"{index}: {heavy} (limit 2); {more}"
    yield _line("", more)


def _line(label: str, text: str) -> str:
    """Return a line with its label."""
    return f"  {label:{_LABEL}}{text}".rstrip()


def _quantiles(values: Mapping[str, float] | None) -> str:
    """Return times, a column a quantile."""
    if values is None:
        return "  not known"
    return "".join(f"{_time(values[name]):>9}" for name in _QUANTILES)


def _time(seconds: float) -> str:
    """Return a time in the largest unit of which it has one or more."""
    for unit, size in _TIMES:
        if seconds >= size:
            large = seconds >= 1000 * size
            return f"{seconds / size:,.0f} {unit}" if large else f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _counts(counts: Mapping[str, int]) -> str:
    """Return the first names and how many jobs each has."""
    shown = [f"{name} {count:,}" for name, count in list(counts.items())[:_NAMES]]
    return ", ".join(shown) + (", ..." if len(counts) > _NAMES else "")
