"""Where the time of a live run's rounds goes, summed up by job from the reports of barriers."""

from __future__ import annotations

from warren.live.transport.server_messages import RoundReport
from warren.model.cluster import Cluster
from warren.model.measured import PhaseTimes, added


class PhaseTotals(dict[int, PhaseTimes]):
    """The times of jobs by phase; empty on a cluster that emulates them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._counts = cluster.emulate is None

    def add(self, report: RoundReport) -> None:
        """Add the times of a round."""
        if not self._counts:
            return
        comp_ns = sum(stamp.comp_end_ns - stamp.start_ns for stamp in report.stamps)
        data_ns = min(comp_ns, sum(stamp.data_ns for stamp in report.stamps))
        tasks = PhaseTimes(comp_ns - data_ns, data_ns)
        self[report.job] = added((self.get(report.job, PhaseTimes()), tasks, report.phases))
