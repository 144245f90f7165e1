"""How long an emulated second must be for tasks to fit their pads."""

from __future__ import annotations

import math

import numpy as np

from warren.report.record import Record


def needed_time_scale(record: Record, share: float) -> float | None:
    """The ``time_scale`` at which all but ``share`` of the tasks would have kept their time.

    Each task's COMP time over its T^c says how far it overran; a pad grows with the scale. Rounded
    up to two digits; None for a run that emulates nothing or ran no task. Hidden times
    (``jitter``, ``slower``) count as if the machine took them, so the scale is rather too large.
    """
    emulate, timeline = record.run.cluster.emulate, record.history.timeline
    if emulate is None or not len(timeline.job_R):
        return None
    type_R = np.asarray(record.run.cluster.type_of_device, dtype=np.int64)[timeline.device_R]
    comp_ns_R = record.costs.comp_ns_JT[timeline.job_R, type_R] * timeline.tasks_R
    over_R = timeline.busy_ns_R / np.maximum(comp_ns_R, 1)
    order_R = np.argsort(over_R)
    done_R = np.cumsum(timeline.tasks_R[order_R])
    at = min(int(np.searchsorted(done_R, (1 - share) * done_R[-1])), len(done_R) - 1)
    scale = emulate.time_scale * float(over_R[order_R[at]])
    unit = 10.0 ** (math.floor(math.log10(scale)) - 1) if scale > 0 else 1.0
    return float(f"{math.ceil(scale / unit - 1e-9) * unit:.6g}")
