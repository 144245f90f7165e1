"""Medians, and figures beside the ranges of ``ranges.json``, where each range's origin stands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

RUNS = 5
RANGES = Path(__file__).parent / "ranges.json"


def median_s(call: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Median seconds of ``RUNS`` calls by this clock, after one that is not counted."""
    call()
    times = []
    for _ in range(RUNS):
        begin = clock()
        call()
        times.append(clock() - begin)
    return median(times)


def report(figures: Mapping[str, float]) -> None:
    """Print each figure beside its range; stop with an error where one leaves it."""
    ranges = json.loads(RANGES.read_text())
    bad = []
    for name, value in figures.items():
        low, high = ranges[name]["range"]
        inside = low <= value <= high
        print(f"{name:36} {value:14.4g}   range {low:g} .. {high:g}{'' if inside else '   OUT'}")
        bad += [] if inside else [name]
    if bad:
        sys.exit(f"outside their range: {', '.join(bad)}")
