"""Timeline rows joined into slices that are worth drawing."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from warren.model.costs import IntArray
from warren.model.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Stays of one job on one device without another job between; S slices by (device, start).

    ``busy_ns_S`` is COMP time inside a slice, ``tasks_S`` counts tasks, ``round_S`` and
    ``last_round_S`` are the lowest and the highest round in it.
    """

    device_S: IntArray
    job_S: IntArray
    start_ns_S: IntArray
    end_ns_S: IntArray
    busy_ns_S: IntArray
    tasks_S: IntArray
    round_S: IntArray
    last_round_S: IntArray

    def __len__(self) -> int:
        return len(self.device_S)

    def only(self, rows: IntArray) -> Slices:
        """Return the slices at these positions."""
        return Slices(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def joined(timeline: Timeline, gap_ns: int) -> Slices:
    """Return slices of the timeline, in which rows at most ``gap_ns`` apart are one.

    With ``gap_ns`` -1 every row is a slice of its own.
    """
    order = np.lexsort((timeline.start_ns_R, timeline.device_R))
    device, job = timeline.device_R[order], timeline.job_R[order]
    start, end = timeline.start_ns_R[order], timeline.comp_end_ns_R[order]
    # A slice begins where device or job change, or after a gap.
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(device) != 0) | (np.diff(job) != 0) | (start[1:] - end[:-1] > gap_ns)
    # Rows of one stretch overlap on their device, so a gap may be negative and below -1.
    if gap_ns < 0:
        new[:] = True
    first = np.flatnonzero(new)
    last_round = (timeline.round_R + timeline.rounds_R - 1)[order]
    # ``reduceat`` has no answer for no slices.
    if not len(first):
        none = np.zeros(0, dtype=np.int64)
        return Slices(**{field.name: none for field in fields(Slices)})
    return Slices(
        device_S=device[first],
        job_S=job[first],
        start_ns_S=start[first],
        end_ns_S=np.maximum.reduceat(end, first),
        busy_ns_S=np.add.reduceat(timeline.busy_ns_R[order], first),
        tasks_S=np.add.reduceat(timeline.tasks_R[order], first),
        round_S=np.minimum.reduceat(timeline.round_R[order], first),
        last_round_S=np.maximum.reduceat(last_round, first),
    )


def span_ns(timeline: Timeline) -> tuple[int, int]:
    """Return first start and last end, at least 1 ns apart; (0, 1) for an empty timeline."""
    if not len(timeline):
        return 0, 1
    first, last = int(timeline.start_ns_R.min()), int(timeline.end_ns_R.max())
    return first, max(last, first + 1)


def joined_to_fit(timeline: Timeline, most: int) -> tuple[Slices, int]:
    """Return at most ``most`` slices, joined over the least gap that does, and how many had to go.

    Gaps grow fourfold from a millionth of the span on. If jobs alternate too often for any gap, the
    shortest slices are left out.
    """
    first, last = span_ns(timeline)
    gap_ns = max(1, (last - first) // 1_000_000)
    slices = joined(timeline, -1)
    while len(slices) > most and gap_ns < last - first:
        slices = joined(timeline, gap_ns)
        gap_ns *= 4
    if len(slices) <= most:
        return slices, 0
    length = slices.end_ns_S - slices.start_ns_S
    # The stable sort keeps the first of equally long slices; then they go back to their order.
    longest = np.sort(np.argsort(-length, kind="stable")[:most])
    return slices.only(longest), len(slices) - most
