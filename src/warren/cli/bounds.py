"""Which lower bound goes beside a schedule, and when none can be given."""

from __future__ import annotations

from warren.core.history import History
from warren.model.costs import CostTable
from warren.model.run import Run
from warren.report.record import LIVE, Bound


def lower_bound(run: Run, costs: CostTable, history: History) -> Bound:
    """A bound valid for the durations that really held, or the reason why there is none.

    Simulated task times are the profile's, or drawn around it by ``truth``, where no bound from
    the profile holds. Emulated live tasks take at least their padded time, so the profile's bound
    holds for them. Unknown rounds are known once every job has finished.
    """
    if run.truth.task_cv or run.truth.job_cv:
        return _none("task times are drawn around the profile, so its bound does not hold")
    if history.header.world == LIVE and run.cluster.emulate is None:
        return _none("live task times without emulation are not known in advance")
    if any(finish < 0 for finish in history.finish_ns_J.tolist()):
        return _none("not every job finished")
    from warren.solve.bounds import lower_bounds

    return Bound(**lower_bounds(run, costs, _rounds_run(run, history)))


def _none(reason: str) -> Bound:
    return Bound(weighted_jct_s=None, makespan_s=None, reason=reason)
