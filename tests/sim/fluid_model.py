"""What is given to the second simulation of ``network: fluid``, and fair rates from scratch.

``fluid_steps`` is the simulation. Times are floats in nanoseconds, rates in bytes a nanosecond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelJob:
    """``server_bytes``: of each server, at ``server_hosts``; empty where that is not known: then
    ``sync_ns`` follows COMP. A ring has ``ring_bytes``, what a rank sends in a round. ``every``:
    after so many rounds, and after the last, the first server needs the parts of the others."""

    arrival_ns: int
    scale: int
    rounds: int
    server_hosts: tuple[int, ...] = ()
    server_bytes: tuple[float, ...] = ()
    ring_bytes: float | None = None
    every: int | None = None

    def is_gathered(self, rounds_done: int) -> bool:
        return rounds_done == self.rounds or bool(self.every and rounds_done % self.every == 0)


@dataclass(frozen=True)
class Model:
    """What does not change. ``up`` and ``inner``: bytes a ns of each host's links, and within it.

    ``comp_ns(job, round, shard, device)``, ``sync_ns(job, round, shard, device)`` and
    ``switch_ns(job, device)``: times. ``weights``: of classes 1 to 7 where they are not strict.
    """

    jobs: tuple[ModelJob, ...]
    host_D: tuple[int, ...]
    up: tuple[float, ...]
    inner: tuple[float, ...]
    comp_ns: Callable[[int, int, int, int], float]
    sync_ns: Callable[[int, int, int, int], float]
    switch_ns: Callable[[int, int], float] = lambda job, device: 0.0
    latency_ns: float = 0.0
    xi2_ns: float = 0.0
    look_ahead: int = 2
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Assigned:
    """An assignment, and when it was made."""

    time_ns: int
    device: int
    job: int
    round: int
    rounds: int
    shards: tuple[int, ...]


@dataclass(frozen=True)
class Classed:
    """A class of a job's bytes, from a time on; ``host`` None: on all, whatever was said before."""

    time_ns: int
    job: int
    flow_class: int
    host: int | None = None


@dataclass(frozen=True)
class Interval:
    """What flowed from one instant to the next: (links, class, most, rate, job) of each flow."""

    begin_ns: float
    end_ns: float
    flows: tuple[tuple[tuple[int, ...], int, float, float, int], ...]


def fair_rates(
    flows: Sequence[tuple[tuple[int, ...], float, float]], left: dict[int, float]
) -> list[float]:
    """Rates of flows (links, most, weight) by progressive filling; takes them from ``left``.

    All rise together, each by its weight; where a link is full, or a flow has all it can take, they
    stay.
    """
    rates = [0.0] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        on: dict[int, float] = defaultdict(float)
        for one in rising:
            for link in flows[one][0]:
                on[link] += flows[one][2]
        level = {link: max(0.0, left[link]) / weight for link, weight in on.items()}
        up_to = {
            one: min([flows[one][1] / flows[one][2], *(level[link] for link in flows[one][0])])
            for one in rising
        }
        least = min(up_to.values())
        for one in [one for one in rising if up_to[one] <= least * (1 + 1e-12)]:
            rising.remove(one)
            rates[one] = min(least * flows[one][2], flows[one][1])
            for link in flows[one][0]:
                left[link] -= rates[one]
    return rates
