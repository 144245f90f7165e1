"""Shapes of clusters that papers simulate.

*Source.* Hare (HPDC'22), section 7.3 and Fig. 16: 160 GPUs; low heterogeneity is V100 alone, mid
V100 and K80, high V100, T4, K80 and M60. Section 7.1: 25 Gbit/s between hosts.

*Ours*, since the paper does not say: the types have equal parts, and a host holds four devices of
one type. The testbed's parts are 8 V100, 4 T4, 1 K80 and 2 M60.

*Source.* SJF-BCO (MobiHoc'22), section 7: 20 servers of 4, 8, 16 or 32 GPUs each, drawn evenly.
*Ours*: the type V100, 10 Gbit/s between servers, which is the network of its introduction, and 100
Gbit/s within one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from warren.workload.generators.draws import integers

SHAPES: Final = ("hare", "sjf-bco")
SERVERS: Final = (4, 8, 16, 32)
"""GPUs of a server of the shape ``sjf-bco``."""
_OF_SERVERS: Final = 20
"""Number of the stream that servers are drawn from; no other draw uses it."""
HETEROGENEITY: Final[Mapping[str, Mapping[str, int]]] = {
    "low": {"V100": 1},
    "mid": {"V100": 1, "K80": 1},
    "high": {"V100": 1, "T4": 1, "K80": 1, "M60": 1},
}
"""Parts of each device type, by level."""


def parts_of(total: int, parts: Mapping[str, float]) -> dict[str, int]:
    """Divide ``total`` in these parts, whole and adding up (largest remainder; ties in order).

    Raises ValueError if the parts add up to nothing.
    """
    whole = sum(parts.values())
    if whole <= 0:
        raise ValueError("all parts are 0; allowed: at least one above 0")
    exact = {name: total * part / whole for name, part in parts.items()}
    counts = {name: int(part) for name, part in exact.items()}
    # Largest remainder: each part rounded down, then one more for those that lost most by that.
    left = total - sum(counts.values())
    for name in sorted(parts, key=lambda one: counts[one] - exact[one])[:left]:
        counts[name] += 1
    return counts


def hosts_of(
    devices: int, parts: Mapping[str, float], per_host: int
) -> Iterator[tuple[str, int | None, dict[str, int]]]:
    """Yield name, count and devices of hosts: the full ones of a type, then one with the rest.

    A count of n means the hosts ``NAME-0`` to ``NAME-<n - 1>``; None means one host.
    """
    for kind, count in parts_of(devices, parts).items():
        # A host has devices of one type only.
        full, rest = divmod(count, per_host)
        if full:
            yield kind.lower(), full, {kind: per_host}
        if rest:
            yield f"{kind.lower()}-{full}", None, {kind: rest}


def servers_of(count: int, seed: int) -> list[int]:
    """Return the GPUs of each server of ``sjf-bco``; fewer servers are the first of more."""
    return [SERVERS[drawn] for drawn in integers(seed, _OF_SERVERS, count, len(SERVERS))]
