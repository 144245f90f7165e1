"""Rings as liquids: each computes, then sends, at max-min fair rates over the links of its hosts.

A ring sends at one rate on the links of all its hosts, out and in alike, so a host is one capacity.
Small and plain, event by event, for rings that are given without jobs and a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warren.cost.max_min import max_min_rates_F

Floats = NDArray[np.float64]


@dataclass
class _Ring:
    hosts: frozenset[int]
    sent_bytes: float
    comp_s: float
    overhead_s: float
    left_bytes: float = 0.0
    wait_s: float = 0.0
    ended_s: tuple[float, ...] = ()


def shares(hosts_J: Sequence[frozenset[int]]) -> list[float]:
    """Max-min fair parts of links of capacity 1; infinite for a ring that uses none."""
    hosts = 1 + max((host for one in hosts_J for host in sorted(one)), default=0)
    crosses_JH = np.array([[host in one for host in range(hosts)] for one in hosts_J])
    rates = max_min_rates_F(np.ones(hosts), crosses_JH, np.full(len(hosts_J), np.inf))
    return [float(rate) for rate in rates]


def fluid_round_s_J(
    hosts_J: Sequence[Sequence[int]],
    sent_bytes_J: Sequence[float],
    comp_s_J: Sequence[float],
    overhead_s_J: Sequence[float],
    outer_bytes_per_s: float,
    inner_bytes_per_s: float,
    rounds: int = 40,
) -> Floats:
    """The mean round of each ring over its rounds but the first quarter; all start at once."""
    rings = [
        _Ring(frozenset(hosts) if len(set(hosts)) > 1 else frozenset(), *rest)
        for hosts, *rest in zip(hosts_J, sent_bytes_J, comp_s_J, overhead_s_J, strict=True)
    ]
    for at, ring in enumerate(rings):  # not in step: nothing keeps real ones so
        ring.wait_s = ring.comp_s + ring.overhead_s + 0.1 * at * ring.comp_s
    now_s = 0.0
    while min(len(ring.ended_s) for ring in rings) < rounds:
        sending = [ring.hosts if ring.left_bytes > 0 else frozenset() for ring in rings]
        parts = shares(sending)
        rate_J = [
            part * outer_bytes_per_s if ring.hosts else inner_bytes_per_s
            for ring, part in zip(rings, parts, strict=True)
        ]
        left_s_J = [
            ring.left_bytes / rate if ring.left_bytes > 0 else ring.wait_s
            for ring, rate in zip(rings, rate_J, strict=True)
        ]
        step_s = min(left_s_J)
        now_s += step_s
        for ring, rate, left_s in zip(rings, rate_J, left_s_J, strict=True):
            done = left_s <= step_s + 1e-12
            if ring.left_bytes > 0:
                ring.left_bytes = 0.0 if done else ring.left_bytes - rate * step_s
                if done:
                    ring.ended_s += (now_s,)
                    ring.wait_s = ring.comp_s + ring.overhead_s
            else:
                ring.wait_s = 0.0 if done else ring.wait_s - step_s
                if done:
                    ring.left_bytes = ring.sent_bytes
    means = []
    for ring in rings:
        first = len(ring.ended_s) // 4
        ends = ring.ended_s[first:]
        means.append((ends[-1] - ends[0]) / (len(ends) - 1))
    return np.array(means)
