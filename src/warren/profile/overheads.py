"""Measured constants of the live engine: from timings to the file that a cluster names.

A repeat times small models of nothing to compute under several loads. Processor time a task of
Warren's own processes is ``task + round / scale``, so two scales give both; two sizes of model give
the cost of each byte. The model is that of ``warren.sim.shared_cpu``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

_HOW: Final[Mapping[str, str]] = {
    "dispatch": "four jobs on one device: a task's COMP end to the next start there",
    "task_cpu": "all devices busy: processor time of controller, executors and servers a task, at "
    "two scales and two model sizes; the part that is the same for every task",
    "round_cpu": "the same; the part that a round has once",
    "task_cpu_rate": "the same; model bytes a second of it",
    "round_cpu_rate": "the same; model bytes a second of it",
    "slowdown": "processor time of a task that computes, all devices busy, over that of one alone",
    "ring_start": "a ring, a rank a device: assigned to its first COMP's end, less a COMP; the "
    "part that is the same for every ring",
    "ring_rank": "the same, and of a ring of three ranks a core; what each rank takes of a core",
    "ring_move": "a ring that goes to other devices: barrier to its next COMP's end, less the same",
    "task_alone": "four jobs that compute nothing on one device: wall over tasks",
    "task_busy": "two such jobs a device, one device a core: wall over tasks",
    "barrier": "one such job alone: a round's COMP end to the next one's start, all queued ahead",
    "barrier_decided": "the same, where a policy hands out each round after the last barrier",
    "transport": "barriers of two model sizes: bytes both ways over the difference, less the step",
    "step": "SGD without momentum on one core, outside the engine",
}
_RATES: Final = ("task_cpu_rate", "round_cpu_rate", "transport", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a calibration: two models, the larger scale, ranks of rings, and cores."""

    small_bytes: int
    large_bytes: int
    scale: int
    ranks: int
    wide_ranks: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The medians of one repeat, in nanoseconds.

    ``own_*``: processor time of Warren's own processes a task. ``_large``: with the large model;
    ``_scaled``: at the larger scale.
    """

    dispatch_ns: float
    task_alone_ns: float
    task_busy_ns: float
    barrier_ns: float
    barrier_large_ns: float
    barrier_decided_ns: float
    own_ns: float
    own_scaled_ns: float
    own_large_ns: float
    own_large_scaled_ns: float
    compute_alone_ns: float
    compute_busy_ns: float
    step_bytes_per_s: float
    gang_ns: float
    wide_gang_ns: float
    moved_ns: float


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant's median over the repeats, and the least and the most of them.

    Times in nanoseconds, rates in bytes a second; None: no difference could be measured.
    """

    value: float | None
    low: float | None
    high: float | None


def constants(repeats: Sequence[Repeat], sizes: Sizes) -> Mapping[str, Constant]:
    """Derive every constant, by its name in the file and in the file's order.

    Rates are the inverse of the median of nanoseconds a byte; rates that are not above zero are not
    measurable.
    """
    found = [_derived(one, sizes) for one in repeats]
    result = {}
    for name in _HOW:
        values = [one[name] for one in found]
        # The inverse turns the order around: the most nanoseconds a byte are the lowest rate.
        middle = median(values)
        low = min(values)
        high = max(values)
        if name in _RATES:
            result[name] = Constant(_rate(middle), _rate(high), _rate(low))
        else:
            result[name] = Constant(middle, low, high)
    return result


def _derived(one: Repeat, sizes: Sizes) -> Mapping[str, float]:
    """Derive the constants of one repeat: times in ns; under the names of rates, ns a byte."""
    # Two scales separate task and round, two sizes of model give the cost of each byte in either.
    more_bytes = sizes.large_bytes - sizes.small_bytes
    task_ns, round_ns = _split(one.own_ns, one.own_scaled_ns, sizes.scale)
    task_large_ns, round_large_ns = _split(one.own_large_ns, one.own_large_scaled_ns, sizes.scale)
    # A barrier carries each byte there and back, and takes the optimizer's step over it.
    step = 1e9 / one.step_bytes_per_s
    ring_start_ns, ring_rank_ns = _start(one, sizes)
    carried = (one.barrier_large_ns - one.barrier_ns) / more_bytes - step
    return {
        "dispatch": one.dispatch_ns,
        "task_cpu": task_ns,
        "round_cpu": round_ns,
        "task_cpu_rate": (task_large_ns - task_ns) / more_bytes,
        "round_cpu_rate": (round_large_ns - round_ns) / more_bytes,
        # A task is never faster beside others: less than 1 is noise.
        "slowdown": max(1.0, one.compute_busy_ns / one.compute_alone_ns),
        "ring_start": ring_start_ns,
        "ring_rank": ring_rank_ns,
        "ring_move": max(0.0, one.moved_ns - one.gang_ns),
        "task_alone": one.task_alone_ns,
        "task_busy": one.task_busy_ns,
        "barrier": one.barrier_ns,
        "barrier_decided": one.barrier_decided_ns,
        "transport": carried / 2,
        "step": step,
    }


def _split(alone_ns: float, scaled_ns: float, scale: int) -> tuple[float, float]:
    """Solve ``alone = task + round`` and ``scaled = task + round / scale`` for task and round."""
    # Noise may make either negative: both are kept within 0 and their sum.
    round_ns = (alone_ns - scaled_ns) * scale / (scale - 1)
    round_ns = min(max(round_ns, 0.0), alone_ns)
    return alone_ns - round_ns, round_ns


def _start(one: Repeat, sizes: Sizes) -> tuple[float, float]:
    """Solve ``start + rank max(1, N / P)`` for start and rank, from a ring and a wide ring.

    N are the ranks, P the cores. If the wide ring needs no more of the cores, rank is 0.
    """
    few = max(1.0, sizes.ranks / sizes.cores)
    many = max(1.0, sizes.wide_ranks / sizes.cores)
    rank_ns = (one.wide_gang_ns - one.gang_ns) / (many - few) if many > few else 0.0
    rank_ns = min(max(rank_ns, 0.0), one.gang_ns / few)
    return one.gang_ns - few * rank_ns, rank_ns


def _rate(ns_a_byte: float) -> float | None:
    """Return bytes a second; None: no time a byte could be measured."""
    return 1e9 / ns_a_byte if ns_a_byte > 0 else None


def overheads_yaml(
    found: Mapping[str, Constant], cores: int, machine: Mapping[str, str | float]
) -> str:
    """Write the file that ``overheads:`` of a cluster names."""
    return "".join(f"{line}\n" for line in _lines(found, cores, machine))


def _lines(
    found: Mapping[str, Constant], cores: int, machine: Mapping[str, str | float]
) -> Iterator[str]:
    """Yield the lines of the file."""
    # A constant that could not be measured is left out of the file.
    known = {name: one for name, one in found.items() if one.value is not None}
    yield "# Made by `warren calibrate --local`: medians of several repeats, in real time."
    yield "format: 1"
    if machine:
        yield "machine:"
    for name, fact in machine.items():
        yield f"  {name}: {json.dumps(fact)}"
    yield "constants:"
    yield f"  cores: {cores}"
    for name, one in known.items():
        yield f"  {name}: {_shown(name, one.value)}"
    yield "ranges:"
    for name, one in known.items():
        yield f"  {name}: [{_shown(name, one.low)}, {_shown(name, one.high)}]"
    yield "how:"
    for name in known:
        yield f"  {name}: {json.dumps(_HOW[name])}"


def _shown(name: str, value: float | None) -> str:
    """Write a figure as the file has it, four digits of it."""
    if value is None:
        return "null"
    if name == "slowdown":
        return f"{value:.4g}"
    if name in _RATES:
        return f"{value / 1e6:.4g} MB/s"
    return f"{max(0.0, value) / 1e3:.4g} us"
