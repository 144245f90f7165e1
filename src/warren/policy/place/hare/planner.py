"""The search for a schedule of ``hare``: several schedulers, and the best schedule counts.

Each is run with the profile's times before it is compared, so the best is never worse for more
budget: a longer search begins with all of a shorter one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.model.decision import Plan
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.common.round_times import paid_rounds_J
from warren.policy.place.hare.problem import (
    finish_ns_of,
    gangs_of,
    instance_of,
    objective_of,
)

if TYPE_CHECKING:
    from warren.solve.lists.dispatch_options import TypePreferences
    from warren.solve.relaxation.divisible_devices import SharingRule

MIN_COST: Final = 1000
"""Least cost of one schedule, in task placements: making it is never free."""
LISTED_ROWS: Final = 50_000
"""Most rows at which greedy lists compete with the rules of sharing from the start."""
LISTED_STRETCHES: Final = 2_000
"""The same for rows of stretches, which are better dispatched by least work left."""
MOVED_ROWS: Final = 20_000
"""Most rows at which single moves of jobs are judged by whole schedules, too."""
WALKED_ROWS: Final = 500
"""Most rows at which single tasks are moved, too."""
FEW_ROWS: Final = 24
WALKS_OF_FEW: Final = 20
"""Factor on the moves of single tasks up to ``FEW_ROWS`` rows: their order is all that counts."""
FLOWS_A_SCHEDULE: Final = 20
"""Before the n-th schedule of a rule the search spends this many least costs, and n / 2 for each
row."""
PATIENCE: Final = 100
"""Trials without a gain after which the search ends."""
PATIENCE_A_JOB: Final = 20
"""Further trials without a gain, for each job, before the search ends."""
START_ALLOWANCE: Final = 10_000_000
"""Allowance of the search for a first rule, in its cost, beyond the budget."""
SWITCHES_A_STRETCH: Final = (1, 10, 100)
"""Lengths of competing stretches, in switches between jobs, where switching is charged."""
# Origin of the best schedule, and so of moves away from it: a rule of sharing, a list of earliest
# completion, or stretches with the least left to do first.
FLOW = "flow"
LIST = "list"
LEFT = "left"


class Planner:
    """The search for a schedule of a view's jobs, and the best schedule found.

    The view is that before time starts. ``objective``: ``makespan``, or ``weighted-jct``.
    """

    def __init__(self, view: View, objective: str) -> None:
        from warren.solve.relaxation.rule_search import RuleSearch

        self.view = view
        self._makespan = objective == "makespan"
        self._value_s = objective_of(view, self._makespan)
        # 0x504C names the planner's stream of the run's seed, apart from that of other draws.
        self._random = np.random.default_rng([view.seed, 0x504C])
        self._plan_for(instance_of(view, self._makespan))
        self._search = RuleSearch(self._instance, self._value_s, view.seed)
        self.schedules = 0
        self.value = np.inf
        self.finish_ns_J: IntArray = np.full(len(view.jobs), -1, dtype=np.int64)
        self._best: Any = np.zeros((5, 0), dtype=np.int64)
        self._way = LIST
        self._rule: SharingRule | None = None
        self._list: tuple[FloatArray, FloatArray] | None = None
        self._preferences: TypePreferences | None = None

    def start(self) -> None:
        """Make the first schedules, whatever the budget."""
        self._search.start(START_ALLOWANCE)
        self.try_rule(self._search.rule)

        if self._rows <= (LISTED_STRETCHES if self._stretched else LISTED_ROWS):
            for priority_J, step_J in self.orders():
                self.try_list(priority_J, step_J)
        elif self._instance.scale_J.max() > np.bincount(self.view.type_D).max(initial=0):
            # No type has a device for each task of a round: rounds must mix types.
            self.try_list(*next(self.orders()))
        if self._stretched:
            for preferences in self.preferences():
                self.try_preferences(preferences)
        self._try_longer_stretches()

    def improve(self, budget: int) -> None:
        """Search on while the budget (a count of task placements) lasts."""
        spent = 0
        idle = 0
        best = (self.value, self._search.value)
        patience = PATIENCE + PATIENCE_A_JOB * len(self.view.jobs)
        turns = self._turns()
        while spent < budget and idle < patience:
            cost = next(turns, None)
            if cost is None:
                return
            spent += cost
            idle += 1
            # A better rule counts as a gain even before it has given a better schedule.
            if (self.value, self._search.value) != best:
                idle = 0
                best = (self.value, self._search.value)

    def plan(self) -> Plan:
        """Return the best schedule as a plan."""
        job, first, rounds, shard, device = (np.ascontiguousarray(row) for row in self._best)
        return Plan(job_R=job, round_R=first, rounds_R=rounds, shard_R=shard, device_R=device)

    def orders(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield orders of the jobs for lists, each as (priority, its change per round)."""
        from warren.solve.relaxation.rule_search import lengths_s

        instance = self._instance
        work_J, path_J = lengths_s(instance)
        # Length by weight is Smith's rule; a weight of 0 goes last without a division by 0.
        weight_J = np.maximum(instance.weight_J, 1e-300)
        still = np.zeros(len(work_J))
        mix_J = work_J / len(self.view.type_D) + path_J
        for length_J in (work_J, path_J, mix_J):
            yield length_J / weight_J, still
        # Remaining instead of whole length: the closer to its end, the earlier a job comes.
        for length_J in (path_J, mix_J):
            yield length_J / weight_J, -length_J / weight_J / np.maximum(self.view.rounds_J, 1)
        yield self.view.arrival_ns_J.astype(np.float64), still

    def preferences(self) -> Iterator[TypePreferences]:
        """Yield how stretches are first dispatched, at the prices of the best rule so far."""
        from warren.solve.lists.dispatch_options import first_preferences

        price_s_JT, _ = self._prices_s_JT(self._search.rule)
        return first_preferences(self._instance, gangs_of(self.view), price_s_JT)

    def try_rule(self, rule: SharingRule) -> int:
        """Try a schedule by a rule of sharing, and return its cost."""
        if self._stretched:
            return self._insert(rule)
        from warren.solve.lists.type_queues import guided

        rows, _, visits = guided(self._instance, rule)
        if self._consider(rows):
            self._way, self._rule = FLOW, rule
        return _cost(rows, visits)

    def try_preferences(self, preferences: TypePreferences) -> int:
        """Try a schedule of stretches, the least left to do first, and return its cost."""
        from warren.solve.lists.shortest_remaining import by_remaining

        rows, _, looked = by_remaining(self._instance, preferences)
        if self._consider(rows):
            self._way, self._preferences = LEFT, preferences
        return _cost(rows, looked)

    def try_list(self, priority_J: FloatArray, step_J: FloatArray) -> int:
        """Try a schedule by earliest completion in this order, and return its cost."""
        from warren.solve.lists.earliest_completion import dispatch

        if self._consider(dispatch(self._instance, priority_J, step_J)[0]):
            self._way, self._list = LIST, (priority_J, step_J)
        return max(MIN_COST, self._rows)

    def _plan_for(self, instance: Any) -> None:
        """Set the instance, and so the length of stretches, of whatever is tried from here on."""
        self._instance = instance
        self._stretched = bool((instance.stretch_rounds_J > 1).any())
        rows_J = -(-np.maximum(instance.rounds_J, 0) // instance.stretch_rounds_J)
        self._rows = int((rows_J * instance.scale_J).sum())

    def _try_longer_stretches(self) -> None:
        """Try longer stretches where switching is charged, and go on with the best length."""
        best = self._instance
        for switches in SWITCHES_A_STRETCH if self.view.costs.switch_ns_JT is not None else ():
            longer_J = np.maximum(best.stretch_rounds_J, paid_rounds_J(self.view, switches))
            self._plan_for(best._replace(stretch_rounds_J=longer_J))
            value = self.value
            self.try_rule(self._search.rule)
            if self.value < value:
                best = self._instance
        self._plan_for(best)

    def _insert(self, rule: SharingRule) -> int:
        """Try to insert stretches job by job, in the order and at the prices of a rule.

        Returns the cost.
        """
        from warren.solve.lists.serial_insertion import insertion

        price_s_JT, visits = self._prices_s_JT(rule)
        order_N = np.argsort(rule.priority_J, kind="stable")
        rows, _, looked = insertion(self._instance, order_N, price_s_JT)
        if self._consider(rows):
            self._way, self._rule = FLOW, rule
        return _cost(rows, visits + looked)

    def _prices_s_JT(self, rule: SharingRule) -> tuple[FloatArray, int]:
        """Return each job's cost of a round on each type under a rule, and the visits it took.

        Prices are those half way through the job's flow, in seconds; visits are the jobs that
        were served to know them.
        """
        from warren.solve.relaxation.divisible_devices import others_at_half, prices_s_JT
        from warren.solve.relaxation.flow_time import flow

        finish_s_J, visits = flow(self._instance, rule, self._search.terms)
        others_J = others_at_half(self._instance, finish_s_J)
        prices = prices_s_JT(self._instance, rule, self._search.terms)
        return others_J[:, None] * prices, visits

    def _turns(self) -> Iterator[int]:
        """Search, a piece at a time, and yield the cost of each piece. Ends where nothing runs."""
        if self._rows == 0:
            return
        # Turn by turn the search spends as much on rules, whose trials are cheap, as on whole
        # schedules. The pieces grow, so that a longer budget searches rules deeper before each
        # schedule.
        for turn in itertools.count(1):
            rule, before = self._search.rule, self._search.spent
            piece = turn * self._rows // 2 + FLOWS_A_SCHEDULE * MIN_COST
            while self._search.spent - before < piece:
                spent = self._search.spent
                self._search.step()
                yield self._search.spent - spent
            if self._search.rule is not rule:
                yield self._follow(self._search.rule)
            if self._rows <= WALKED_ROWS:
                yield self._walk(turn)
            moved = 0
            while self._rows <= MOVED_ROWS and moved < piece:
                cost = self._move()
                moved += cost
                yield cost

    def _follow(self, rule: SharingRule) -> int:
        """Try a schedule by a better rule; where stretches were best dispatched, by its prices.

        Returns the cost.
        """
        if self._way != LEFT or self._preferences is None:
            return self.try_rule(rule)
        price_s_JT, visits = self._prices_s_JT(rule)
        return visits // 10 + self.try_preferences(
            self._preferences._replace(price_s_JT=price_s_JT)
        )

    def _move(self) -> int:
        """Try one move away from the best schedule, made the way that it was made.

        Returns the cost.
        """
        from warren.solve.lists.dispatch_options import nearby
        from warren.solve.relaxation.rule_search import neighbour

        if self._way == LEFT and self._preferences is not None:
            return self.try_preferences(nearby(self._preferences, self._random))
        if self._way == FLOW and self._rule is not None:
            return self.try_rule(neighbour(self._rule, self._random))
        assert self._list is not None
        priority_J, step_J = self._list
        jobs = len(priority_J)
        ranked = np.argsort(priority_J, kind="stable")
        moved, place = self._random.integers(0, jobs, size=2)
        # One job goes to another place in the order; the priorities themselves stay the same set.
        moved_J = np.empty(jobs)
        moved_J[np.insert(np.delete(ranked, moved), place, ranked[moved])] = np.sort(priority_J)
        return self.try_list(moved_J, step_J)

    def _walk(self, turn: int) -> int:
        """Move single tasks of the best schedule, and return the cost."""
        from warren.solve.lists.task_search import walked

        cost = 0
        walks = WALKS_OF_FEW if self._rows <= FEW_ROWS else 1
        for walk in range(turn * walks, (turn + 1) * walks):
            rows, looked = walked(self._instance, self._best, self._makespan, walk, self._random)
            self._consider(rows)
            cost += max(MIN_COST, looked // 10)
        return cost

    def _consider(self, rows: Any) -> bool:
        """Run the schedule, keep it if it is better than the best, and tell whether it is."""
        self.schedules += 1
        finish_ns_J = finish_ns_of(self.view, rows)
        value = self._value_s(finish_ns_J / NS_PER_S)
        if value >= self.value:
            return False
        self.value = value
        self._best = rows
        self.finish_ns_J = finish_ns_J
        return True


def _cost(rows: Any, looked: int) -> int:
    """Return the cost of a schedule, in task placements: its rows, and a tenth of ``looked``."""
    return max(MIN_COST, int(rows.shape[1]) + looked // 10)
