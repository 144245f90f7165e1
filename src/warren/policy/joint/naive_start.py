"""Where jobs of unknown cost run while they are measured: Harmony's naive start.

On hosts that no group has, new jobs form as many groups as can be, each of the fewest hosts that
will do; so as many jobs as possible are measured at once. Any other job joins a group in which
another is being measured, of several that with fewest jobs a host; else the group with fewest
hosts, then with fewest jobs, which the cluster misses least. A job stays where it is until its
hosts get other jobs.

*Source.* Harmony (dissertation 2020), 4.3.2, "Profiling".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil

from warren.model.decision import Group
from warren.solve.job_groups.problem import WHOLE


def with_unknown(
    groups: Sequence[Group],
    before: Sequence[Group],
    unknown: Sequence[int],
    hosts: int,
    least: int,
    filled: Mapping[int, float],
) -> tuple[Group, ...]:
    """Return groups of jobs whose costs are known, with the jobs whose costs are not.

    A job for which no group has memory is in none: it waits.

    Parameters
    ----------
    groups
        Groups of jobs whose costs are known.
    before
        The groups so far, with all jobs.
    unknown
        The jobs whose costs are not known, in the order in which they are placed.
    hosts
        Hosts of the cluster.
    least
        Fewest hosts on which a job can be measured, at most ``hosts``.
    filled
        How many hosts the data of a job fill; jobs that are not in it fill none.
    """
    combined, unmeasured = list(groups), set(unknown)
    hosts_of = {job: group.hosts for group in before for job in group.jobs}
    taken = {host for group in groups for host in group.hosts}
    combined += [
        Group((), group.hosts)
        for group in before
        if unmeasured.intersection(group.jobs) and not taken.intersection(group.hosts)
    ]

    def joins(number: int, job: int) -> bool:
        """Put a job into a group that has memory for it; else return False."""
        group = combined[number]
        jobs = *group.jobs, job
        if sum(filled.get(one, 0.0) for one in jobs) > len(group.hosts) * (1 + WHOLE):
            return False
        combined[number] = Group(tuple(sorted(jobs)), group.hosts)
        return True

    left = []
    for job in unknown:
        same = [number for number, group in enumerate(combined) if group.hosts == hosts_of.get(job)]
        if not any(joins(number, job) for number in same):
            left.append(job)
    taken = {host for group in combined for host in group.hosts}
    free = [host for host in range(hosts) if host not in taken]
    needed = max([least, *(ceil(filled.get(job, 0.0) - WHOLE) for job in left)])
    count = min(len(left), len(free) // needed)
    cuts = [len(free) * part // max(1, count) for part in range(count + 1)]
    combined += [Group((), tuple(free[begin:end])) for begin, end in pairwise(cuts)]
    for job in left:
        order = sorted(range(len(combined)), key=lambda number: _harm(combined[number], unmeasured))
        any(joins(number, job) for number in order)
    return tuple(group for group in combined if group.jobs)


def _harm(group: Group, unknown: set[int]) -> tuple[int, float, int]:
    """Return by what a group is chosen for a job that is measured: the least one gets it."""
    jobs, hosts = len(group.jobs), len(group.hosts)
    if not group.jobs:
        return 0, 0.0, 0
    if unknown.intersection(group.jobs):
        return 1, jobs / hosts, hosts
    return 2, float(hosts), jobs
