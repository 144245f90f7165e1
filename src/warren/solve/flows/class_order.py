"""Classes that put jobs in a given order on every host, with as few classes as that takes.

*Source.* JPAS (JNCA'20), 3.2 and Pseudocode 1. They turn a global order of jobs into a local one on
each host, and map it to priority queues. The last queue holds all that come after.

``host_orders`` is that: a flow has two priorities, by the order at the host that sends in its
egress queues, by that at the host that receives in the switch.

*Differs.* Where its bytes can have one class alone, ``ordered_classes`` gives a job a class above
those of all earlier jobs that it shares a host with: on each host that is the order of Pseudocode
1, until a chain of jobs that share hosts is longer than there are classes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def ordered_classes(
    turns: Sequence[Collection[int]], hosts: Mapping[int, Collection[int]], classes: int
) -> dict[int, int]:
    """Return the class of each job, 1 first: one more than of earlier turns that it meets.

    Parameters
    ----------
    turns
        Jobs by their order; those of one turn go together.
    hosts
        The hosts of each job.
    classes
        Number of classes; jobs that would come later have the last.
    """
    last_on: dict[int, int] = {}
    found: dict[int, int] = {}
    for turn in turns:
        here = {
            job: min(classes, 1 + max((last_on.get(host, 0) for host in hosts[job]), default=0))
            for job in turn
        }
        for job, kind in here.items():
            for host in hosts[job]:
                last_on[host] = max(last_on.get(host, 0), kind)
        found |= here
    return found


def host_orders(
    turns: Sequence[Collection[int]], hosts: Mapping[int, Collection[int]], classes: int
) -> dict[tuple[int, int], int]:
    """Return the class of each job on each of its hosts, by (host, job): GenerateLocalOrder.

    The arguments are those of ``ordered_classes``; on a host the last class takes the rest.
    """
    taken: dict[int, int] = {}
    found: dict[tuple[int, int], int] = {}
    for turn in turns:
        for host in dict.fromkeys(host for job in turn for host in hosts[job]):
            taken[host] = taken.get(host, 0) + 1
        found |= {(host, job): min(classes, taken[host]) for job in turn for host in hosts[job]}
    return found
