"""Jobs that share devices in turns: which groups run now, so that most is done by weight.

A job asks for a number of devices; jobs that ask for equally many may share them, and then each
does an iteration in the time that the group needs. The worth of a group is the sum of weights of
its jobs over that time, so a weight of 1 / (iterations left) counts jobs that end. Groups that run
need no more devices than there are.

*Prices.* To share is worth it where devices are short, and slows jobs down where they are not. So
groups are made for several prices of a device: a group takes in the job that adds most, if that is
more than the job would be worth by itself less the price of its devices. The tried prices lie
around the price of the last device if no job shared. Then groups run in the order of their worth a
device, as long as they fit; the price whose groups are worth most together is taken.

*Source.* None; ours. Muri (SIGCOMM'22) pairs jobs by matchings, and knows no price.

*Symbols.* Axis J: jobs. ``kind_J``: jobs of one kind take the same times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.solve.common.arrays import FloatArray, IntArray

GroupTime = Callable[[tuple[int, ...]], float]
"""The time of an iteration of jobs of these kinds, sorted, that share devices; above 0."""
PRICES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, np.inf)
"""Prices that are tried, in parts of that of the last device."""
_LOOKED_AT: Final = 4
"""Ratio of the jobs that are looked at, those of most weight a second, to those that could run at
once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJobs:
    """The jobs that are there: weights, kinds, devices that each needs, and all devices.

    ``most``: most jobs that share devices. ``group_s``: see ``GroupTime``; it is asked again for
    the same kinds, and may remember.
    """

    weight_J: FloatArray
    kind_J: IntArray
    devices_J: IntArray
    devices: int
    most: int
    group_s: GroupTime

    def worth(self, jobs: Sequence[int]) -> float:
        """Compute the worth of a group a second."""
        kinds = tuple(sorted(self.kind_J[list(jobs)].tolist()))
        return float(self.weight_J[list(jobs)].sum()) / self.group_s(kinds)


def groups_that_run(jobs: SharingJobs) -> list[tuple[int, ...]]:
    """Return the groups that are to run now, each a tuple of jobs; the first of each began it."""
    kinds, kind_J = np.unique(jobs.kind_J, return_inverse=True)
    alone_J = jobs.weight_J / np.array([jobs.group_s((kind,)) for kind in kinds.tolist()])[kind_J]
    # For each number of devices the jobs that are worth most, the best first.
    order = np.argsort(-alone_J, kind="stable")
    queues = {
        count: [job for job in order.tolist() if jobs.devices_J[job] == count][
            : _LOOKED_AT * jobs.most * max(1, jobs.devices // count)
        ]
        for count in sorted(set(jobs.devices_J.tolist()))
        if count <= jobs.devices
    }
    last = _price_of_last(jobs, alone_J)
    best: list[tuple[int, ...]] = []
    most = -1.0
    for price in PRICES if last else (0.0,):
        groups = [
            group
            for count, queue in queues.items()
            for group in _groups(jobs, alone_J, queue, 0.0 if not last else price * last * count)
        ]
        chosen, worth = _packed(jobs, groups)
        if worth > most:
            best, most = chosen, worth
    return best


def _price_of_last(jobs: SharingJobs, alone_J: FloatArray) -> float:
    """Return the worth of the last device if no job shares; 0 if all jobs have devices."""
    dense = alone_J / jobs.devices_J
    free = jobs.devices
    for job in np.argsort(-dense, kind="stable").tolist():
        free -= int(jobs.devices_J[job])
        if free < 0:
            return float(dense[job])
    return 0.0


def _groups(
    jobs: SharingJobs, alone_J: FloatArray, queue: Sequence[int], price: float
) -> list[tuple[int, ...]]:
    """Make groups of jobs that need equally many devices, which together cost ``price``."""
    # By kind, each in the order of the queue: the first job of a kind is worth most.
    left: dict[int, deque[int]] = {}
    for job in queue:
        left.setdefault(int(jobs.kind_J[job]), deque()).append(job)
    taken: set[int] = set()
    found = []
    for first in queue:
        if first in taken:
            continue
        left[int(jobs.kind_J[first])].popleft()
        group, worth = [first], float(alone_J[first])
        while len(group) < jobs.most:
            gain, job, more = _best_to_add(jobs, alone_J, group, worth, left, price)
            if gain <= 0:
                break
            worth = more
            group.append(job)
            taken.add(job)
            left[int(jobs.kind_J[job])].popleft()
        found.append(tuple(group))
    return found


def _best_to_add(
    jobs: SharingJobs,
    alone_J: FloatArray,
    group: Sequence[int],
    worth: float,
    left: Mapping[int, deque[int]],
    price: float,
) -> tuple[float, int, float]:
    """Return the largest gain of a job over its worth alone, the job, and the new worth."""
    best = (-np.inf, -1, 0.0)
    weight = sum(float(jobs.weight_J[job]) for job in group)
    kinds = [int(jobs.kind_J[job]) for job in group]
    for kind, queue in left.items():
        if not queue:
            continue
        job = queue[0]
        more = (weight + float(jobs.weight_J[job])) / jobs.group_s(tuple(sorted([*kinds, kind])))
        gain = more - worth - max(0.0, float(alone_J[job]) - price)
        if gain > best[0]:
            best = (gain, job, more)
    return best


def _packed(
    jobs: SharingJobs, groups: Sequence[tuple[int, ...]]
) -> tuple[list[tuple[int, ...]], float]:
    """Take groups in the order of their worth a device, as long as they fit; return the sum too.

    Where the group that is worth most would not fit any more, and it first is better, it is first:
    of what these groups can be worth together at least half.
    """
    worth = [jobs.worth(group) for group in groups]
    needs = [int(jobs.devices_J[group[0]]) for group in groups]
    order = sorted(range(len(groups)), key=lambda at: (-worth[at] / needs[at], at))
    top = max(order, key=lambda at: worth[at], default=-1)
    orders = (order, [top, *(at for at in order if at != top)] if order else [])
    found = [_that_fit(one, needs, jobs.devices) for one in orders]
    chosen = max(found, key=lambda some: sum(worth[at] for at in some))
    return [groups[at] for at in chosen], sum(worth[at] for at in chosen)


def _that_fit(order: Sequence[int], needs: Sequence[int], free: int) -> list[int]:
    """Return those of an order that fit beside those taken before."""
    chosen = []
    for at in order:
        if needs[at] <= free:
            free -= needs[at]
            chosen.append(at)
    return chosen
