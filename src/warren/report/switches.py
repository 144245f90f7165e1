"""How often devices went from one job to another, where that is charged."""

from __future__ import annotations

from typing import Any

import numpy as np

from warren.model.costs import IntArray
from warren.model.timeline import Timeline
from warren.model.units import ns_to_seconds
from warren.report.record import Record


def switch_values(record: Record) -> dict[str, Any]:
    """The keys of ``summary.json`` about switching; none where it is not charged.

    ``switches``: how often a device went from one job to another; ``switching_s``: the device time,
    in cluster seconds, that this took.
    """
    if record.costs.switch_ns_JT is None:
        return {}
    type_D = np.array(record.run.cluster.type_of_device, dtype=np.int64)
    return counted(record.history.timeline, type_D, record.costs.switch_ns_JT)


def counted(line: Timeline, type_D: IntArray, switch_ns_JT: IntArray) -> dict[str, Any]:
    """``switch_values`` of a timeline on devices of these types."""
    order = np.lexsort((line.comp_end_ns_R, line.start_ns_R, line.device_R))
    job, device = line.job_R[order], line.device_R[order]
    to_R = order[1:][(job[1:] != job[:-1]) & (device[1:] == device[:-1])]
    time_ns = switch_ns_JT[line.job_R[to_R], type_D[line.device_R[to_R]]].sum()
    return {"switches": len(to_R), "switching_s": ns_to_seconds(int(time_ns))}
