"""Tasks that took longer than their emulated time: how many, and which time scale they need."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from warren.report.metrics import Summary
from warren.report.record import Record

OVERRUN_SHARE: Final = 0.05
"""Share of the tasks above which overruns are reported."""


def too_slow(found: Summary) -> str:
    """Return a warning if too many tasks overran for the times to mean much; else an empty text."""
    overruns, tasks = int(found.get("overruns") or 0), int(found.get("tasks") or 0)
    if overruns <= OVERRUN_SHARE * tasks:
        return ""
    return f"{overruns:,} of {tasks:,} tasks took longer than their emulated time"


def slow_machine(found: Summary, time_scale: float | None) -> str:
    """Return the warning of ``too_slow``, and the way out; empty if there is no warning.

    ``time_scale`` is one at which nearly all tasks would have kept their emulated time.
    """
    if not (said := too_slow(found)):
        return ""
    way = "" if time_scale is None else f": `--set cluster.emulate.time_scale={time_scale:g}`"
    return f"{said}, so this machine is too slow for these times; raise emulate.time_scale{way}"


def needed_time_scale(record: Record, share: float = OVERRUN_SHARE) -> float | None:
    """Return the ``time_scale`` at which all but ``share`` of the tasks would have kept their time.

    It is rounded up to two digits; None for a run that emulates nothing or ran no task. Hidden
    times (``jitter``, ``slower``) count as if the machine took them, so the scale is rather too
    large.
    """
    emulate, timeline = record.run.cluster.emulate, record.history.timeline
    if emulate is None or not len(timeline.job_R):
        return None
    type_R = np.asarray(record.run.cluster.type_of_device, dtype=np.int64)[timeline.device_R]
    # COMP time over T^c is how many times its pad a task took. Pads grow with the scale, so a scale
    # that many times larger would have held it.
    comp_ns_R = record.costs.comp_ns_JT[timeline.job_R, type_R] * timeline.tasks_R
    over_R = timeline.busy_ns_R / np.maximum(comp_ns_R, 1)
    # The quantile 1 - share of that over tasks; a row counts as often as it has tasks.
    order_R = np.argsort(over_R)
    done_R = np.cumsum(timeline.tasks_R[order_R])
    at = min(int(np.searchsorted(done_R, (1 - share) * done_R[-1])), len(done_R) - 1)
    scale = emulate.time_scale * float(over_R[order_R[at]])
    # One unit of the second digit. The 1e-9 keeps a scale that has two digits from going up by one
    # unit for the last bit of the quotient.
    unit = 10.0 ** (math.floor(math.log10(scale)) - 1) if scale > 0 else 1.0
    return float(f"{math.ceil(scale / unit - 1e-9) * unit:.6g}")
