"""Local search for a rule of sharing: single moves, judged by the flow of divisible jobs.

A move changes one job's place in the order, one job's greed, or the worth of one type (all greed if
there is one type). It is kept if the objective falls. Work is counted, so a search that goes on
longer has seen all that a shorter search saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray
from warren.solve.common.heaps import usable
from warren.solve.common.instance import Instance
from warren.solve.common.round_time import least_round_ns
from warren.solve.relaxation.divisible_devices import SharingRule, terms_of
from warren.solve.relaxation.flow_time import flow

GREEDS: Final = (1.0, 2.0, 0.5, 4.0, 0.0)
"""Prices tried for all jobs at the start, in this order."""
FLOW_COST: Final = 1000
VISITS_A_TASK: Final = 10
"""One flow costs ``FLOW_COST`` task placements, and one more for ``VISITS_A_TASK`` jobs served."""
# A greed of 0 would stay 0 under a factor.
_LEAST_GREED: Final = 0.05

Objective = Callable[[FloatArray], float]
"""The objective, to be minimized: a function of each job's finish in float s, -1 for a job that
cannot run."""


class RuleSearch:
    """A search for a rule: the best rule found, and the work that it took.

    ``value`` is the objective under ``rule``; ``spent`` is in task placements, see ``FLOW_COST``.
    Deterministic in ``seed``.
    """

    def __init__(self, instance: Instance, objective: Objective, seed: int) -> None:
        self._instance = instance
        self.terms = terms_of(instance)
        self._objective = objective
        # The second number keeps this stream apart from others of the same seed.
        self._random = np.random.default_rng([seed, 0x4A7E])
        self.value = np.inf
        self.rule = next(first_rules(instance))
        self.spent = 0

    def start(self, allowance: int) -> None:
        """Try the first rules, then other worths of the types, while the allowance lasts."""
        for rule in first_rules(self._instance):
            if self.spent <= allowance:
                self._consider(rule)
        # One type's worth up and down, by 2, then by 1.4. With one type that would be all greed.
        used_T = np.flatnonzero(np.bincount(self._instance.type_D))
        for factor in (2.0, 1.4) if len(used_T) > 1 else ():
            for kind in used_T:
                for step in (factor, 1 / factor):
                    worth_T = self.rule.worth_T.copy()
                    worth_T[kind] *= step
                    if self.spent <= allowance:
                        self._consider(self.rule._replace(worth_T=worth_T))

    def step(self) -> None:
        """Try one move away from the best rule."""
        self._consider(neighbour(self.rule, self._random))

    def _consider(self, rule: SharingRule) -> None:
        """Run the flow under a rule, and keep the rule if its value is the best found."""
        finish_s_J, visits = flow(self._instance, rule, self.terms)
        self.spent += FLOW_COST + visits // VISITS_A_TASK
        value = self._objective(finish_s_J)
        if value < self.value:
            self.value, self.rule = value, rule


def first_rules(instance: Instance) -> Iterator[SharingRule]:
    """Yield the rules to try first: weight per work, per path and per both, at several prices."""
    work_J, path_J = lengths_s(instance)
    worth_T = even_worth(instance)
    # Jobs of weight 0 come last, by length.
    weight_J = np.maximum(instance.weight_J, 1e-300)
    mix_J = work_J / len(instance.type_D) + path_J
    for length_J in (work_J, mix_J, path_J):
        rank_J = np.empty(len(work_J))
        rank_J[np.argsort(length_J / weight_J, kind="stable")] = np.arange(len(work_J))
        for greed in GREEDS:
            yield SharingRule(
                priority_J=rank_J, greed_J=np.full(len(work_J), greed), worth_T=worth_T
            )


def neighbour(rule: SharingRule, random: np.random.Generator) -> SharingRule:
    """Move away from a rule at random: one job's place or greed, or the worth of one type."""
    jobs, types = len(rule.priority_J), len(rule.worth_T)
    kind = random.random()
    job = int(random.integers(jobs))
    size = random.normal()
    if kind < 0.5 and jobs > 1:
        # Priorities are ranks at first, so a step is a part of all places: large, middle or small.
        priority_J = rule.priority_J.copy()
        priority_J[job] += size * jobs * (0.3, 0.1, 0.03)[int(random.integers(3))]
        return rule._replace(priority_J=priority_J)
    if kind < 0.9:
        greed_J = rule.greed_J.copy()
        greed_J[job] = max(greed_J[job], _LEAST_GREED) * np.exp(size)
        return rule._replace(greed_J=greed_J)
    # With one type its worth and all greed are the same factor.
    if types == 1:
        return rule._replace(greed_J=np.maximum(rule.greed_J, _LEAST_GREED) * np.exp(size))
    worth_T = rule.worth_T.copy()
    worth_T[int(random.integers(types))] *= np.exp(0.3 * size)
    return rule._replace(worth_T=worth_T)


def lengths_s(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Return each job's work on its fastest type, and its time alone on the cluster, in float s.

    0 for a job that fits no device.
    """
    count_T = np.bincount(instance.type_D, minlength=instance.fits_JT.shape[1])
    usable_JT = usable(instance.fits_JT, instance.type_D)
    runs_J = usable_JT.any(axis=1)
    rounds_J = np.maximum(instance.rounds_J, 0)
    comp_s_JT = np.where(usable_JT, instance.comp_ns_JT / 1e9, np.inf)
    least_s_J: FloatArray = np.where(runs_J, comp_s_JT.min(axis=1), 0.0)
    round_s_J = np.zeros(len(rounds_J))
    round_s_J[runs_J] = 1e-9 * least_round_ns(
        instance.scale_J[runs_J],
        instance.comp_ns_JT[runs_J],
        instance.sync_ns_JT[runs_J],
        usable_JT[runs_J],
        count_T,
    )
    return rounds_J * instance.scale_J * least_s_J, rounds_J * round_s_J


def even_worth(instance: Instance) -> FloatArray:
    """Return the worth of each type, in proportion to how fast it is for the work there is.

    The worths of all devices sum up to 1; a type without devices has none.
    """
    usable_JT = usable(instance.fits_JT, instance.type_D)
    count_T = np.bincount(instance.type_D, minlength=usable_JT.shape[1])
    comp_s_JT = np.where(usable_JT, np.maximum(instance.comp_ns_JT, 1) / 1e9, np.inf)
    work_J, _ = lengths_s(instance)
    least_s_J = np.where(usable_JT.any(axis=1), comp_s_JT.min(axis=1), 1.0)
    # A device of a type is worth to a job its speed there, least T^c / T^c; jobs count by their
    # work.
    worth_T = (work_J[:, None] * (least_s_J[:, None] / comp_s_JT)).sum(axis=0)
    worth_T = np.maximum(worth_T, 1e-9 * max(float(worth_T.max(initial=0)), 1e-9))
    scaled_T: FloatArray = worth_T * (count_T > 0) / float(count_T @ worth_T)
    return scaled_T
