"""The problem of ``hare``: a view's columns as ``solve`` takes them, and a schedule's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.units import NEVER_NS, NS_PER_S
from warren.model.view import View
from warren.policy.common.round_times import columns, gang_sizes_J, round_ns_J

if TYPE_CHECKING:
    from warren.solve.common.instance import Instance
    from warren.solve.lists.dispatch_options import GangTimes


def instance_of(view: View, makespan: bool) -> Instance:
    """Return the view's columns as ``solve`` takes them.

    For the makespan a job's weight is its remaining work.
    """
    from warren.solve.common.instance import Instance
    from warren.solve.relaxation.rule_search import lengths_s

    instance = Instance(**columns(view), stretch_rounds_J=_stretches(view))
    if makespan:
        # Rules order jobs by length over weight. With this weight the order by work / devices +
        # path is that of 1 / path: the longest, which decide the makespan, go first.
        work_J, path_J = lengths_s(instance)
        instance = instance._replace(weight_J=path_J * (work_J / len(view.type_D) + path_J))
    return instance


def _stretches(view: View) -> IntArray:
    """Count the rounds of one stretch of each job at the run's grain."""
    # By the time alone on the fastest devices, since no gang is chosen yet.
    round_J = round_ns_J(view)
    return np.array(
        [
            view.grain.rounds_for(int(round_J[job]), int(view.rounds_J[job]))
            for job in range(len(view.jobs))
        ],
        dtype=np.int64,
    )


def gangs_of(view: View) -> GangTimes:
    """Return how jobs run as gangs at the run's grain; ``NEVER_NS`` where it has no limit."""
    from warren.solve.lists.dispatch_options import GangTimes

    grain = view.grain
    return GangTimes(
        gang_J=gang_sizes_J(view),
        round_ns_J=round_ns_J(view),
        most_rounds=NEVER_NS if grain.rounds is None else grain.rounds,
        most_ns=NEVER_NS if grain.time_ns is None else grain.time_ns,
    )


def objective_of(view: View, makespan: bool) -> Callable[[FloatArray], float]:
    """Return the objective as a function of each job's finish in seconds.

    The makespan, or the sum of w (C - a). The function knows the view alone: a method that the
    search held would make a cycle of references, in which the planner and its schedules outlive
    the plan.
    """
    arrival_s_J, weight_J = view.arrival_ns_J / NS_PER_S, view.weight_J

    def value_s(finish_s_J: FloatArray) -> float:
        if makespan:
            return float(finish_s_J.max() - arrival_s_J.min())
        return float(weight_J @ (finish_s_J - arrival_s_J))

    return value_s


def finish_ns_of(view: View, rows: Any) -> IntArray:
    """Return when the rows, run as a plan, end each job, in nanoseconds.

    Not the scheduler's expectation: a task may start earlier on a device that was idle all along,
    and a network of lanes queues synchronizations.
    """
    from warren.solve.lists.execute_plan import PlanTables, execute
    from warren.solve.lists.plan_units import PlanRows

    # No keys and no variation: the plan is judged by the profile's times, without noise.
    nothing = np.zeros(0, dtype=np.uint64)
    tables = PlanTables(
        arrival_ns_J=np.array(view.arrival_ns_J),
        scale_J=np.array(view.scale_J),
        rounds_J=np.array(view.rounds_J),
        type_D=np.array(view.type_D),
        comp_ns_JT=np.array(view.costs.comp_ns_JT, order="C"),
        sync_ns_JT=np.array(view.costs.sync_ns_JT, order="C"),
        comp_key_J=nothing,
        sync_key_J=nothing,
        cv_ppm=0,
        is_lane=view.cluster.network.model == "lane",
    )
    found_ns_J: IntArray = execute(
        PlanRows(*map(np.ascontiguousarray, rows)), tables, view.costs.switch_ns_JT
    ).finish_ns_J
    return found_ns_J
