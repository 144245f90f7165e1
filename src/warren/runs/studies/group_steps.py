"""Steps of a group's predicted iterations on its two lanes, for a picture like Fig. 4.7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.cost.group_lanes import group_lanes
from warren.runs.studies.job_groups import GroupPrediction

LANES: Final = ("cpu", "network")
_FIRST: Final = 40
"""First iterations that are not shown: jobs that began at once find their turns in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStep:
    """A COMP (lane ``cpu``) or a COMM (``network``) of a job, or idle time, where ``job`` is None.

    ``job``: its place among those of the group. Times are in seconds from the start of the picture.
    """

    lane: str
    job: int | None
    begin_s: float
    end_s: float


def lane_steps(group: GroupPrediction, iterations: int) -> list[LaneStep]:
    """Return the steps of both lanes during some predicted iterations, in the steady state.

    They begin with a COMP of the job that limits the group, or else of the first one. Steps across
    an end are cut there.
    """
    comp_J = np.array([job.comp_s for job in group.jobs])
    comm_J = np.array([job.comm_s for job in group.jobs])
    alone_J = np.array([job.alone_s for job in group.jobs])
    # One more, since an iteration may be shorter than (4.1), and may end behind the picture.
    lanes = group_lanes(comp_J, comm_J, alone_J, _FIRST + iterations + 2)
    names = [job.name for job in group.jobs]
    first = 0 if group.job is None else names.index(group.job)
    start_s = float(lanes.comp_begin_s_I[first][_FIRST])
    span_s = iterations * group.iteration_s
    found = []
    begins = (lanes.comp_begin_s_I, comp_J), (lanes.comm_begin_s_I, comm_J)
    for lane, (begin_s_I, took_s_J) in zip(LANES, begins, strict=True):
        busy = [
            LaneStep(lane=lane, job=job, begin_s=max(begin_s, 0.0), end_s=min(end_s, span_s))
            for job, took_s in enumerate(took_s_J.tolist())
            for begin_s in (begin_s_I[job] - start_s).tolist()
            if (end_s := begin_s + took_s) > 0 and begin_s < span_s and took_s > 0
        ]
        busy.sort(key=lambda step: step.begin_s)
        found += busy + _idle(lane, busy, span_s)
    return found


def _idle(lane: str, busy: list[LaneStep], span_s: float) -> list[LaneStep]:
    """Return the times at which a lane is idle, except those that come of rounding."""
    ends, begins = [0.0, *(one.end_s for one in busy)], [*(one.begin_s for one in busy), span_s]
    return [
        LaneStep(lane=lane, job=None, begin_s=end_s, end_s=begin_s)
        for end_s, begin_s in zip(ends, begins, strict=True)
        if begin_s - end_s > 1e-6 * span_s
    ]
