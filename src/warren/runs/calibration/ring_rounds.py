"""The rings that ``warren calibrate --rings`` lets exchange at once, and their rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warren.cost.ring import RingJobs
from warren.cost.ring_fit import RingPoints
from warren.live.measure.ring_rounds import ProbedRing, RingProber
from warren.model.costs import FloatArray

MOST: Final = 8
"""Most rings that exchange at once."""
_FULL_S: Final = (0.05, 0.1, 0.2)
_QUICK_S: Final = (0.05, 0.1)
"""Lengths of rounds of a ring alone, in seconds at the rate of the links."""
_COMPUTE: Final = 0.25
"""Share of the time alone that some rings sleep beside."""
_INNER_BYTES: Final = 8_000_000
"""The message of rings within one host."""
_ROUNDS: Final = 3
"""Rounds of each ring of a set."""
_PASSES: Final = 2
"""Number of runs of each set, at other times: disturbances only lengthen, so the shorter counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRow:
    """The times of the rings of one kind in one set of rings that ran at once.

    ``contenders`` meet on the busiest link of each, 0 within a host. ``round_s`` is the mean over
    rings and rounds, ``low_s`` and ``high_s`` the least and the largest mean of a ring.
    """

    rings: int
    contenders: int
    workers: int
    hosts: int
    message_bytes: int
    comp_s: float
    round_s: float
    low_s: float
    high_s: float


def plan(hosts: int, bytes_per_s: float, *, quick: bool) -> list[list[ProbedRing]]:
    """Return sets of rings that run at once, over at most four hosts with links of this rate."""
    wide = min(hosts, 4)

    def ring(places: Sequence[int], alone_s: float, comp: float = 0.0) -> ProbedRing:
        """Make a ring that takes ``alone_s`` a round alone, and sleeps ``comp`` of that."""
        workers = len(places)
        # A ring all-reduce of w workers sends 2 (w - 1) / w of the message over each link.
        message = round(alone_s * bytes_per_s * workers / (workers - 1) / 2)
        return ProbedRing(
            hosts=tuple(places), message_bytes=message, comp_s=round(comp * alone_s, 4)
        )

    sizes = _QUICK_S if quick else _FULL_S
    every = range(1, MOST + 1)
    found = [
        [ring(range(wide), alone_s)] * count
        for alone_s in sizes
        for count in ((1, 2, 4, 8) if quick else every)
    ]
    # Then, at one size: fewer hosts, rings that compute, rings that share one host's link alone.
    middle_s = sizes[len(sizes) // 2]
    for narrow in range(2, wide):
        found += [[ring(range(narrow), middle_s)] * count for count in (1, 3, 6)]
    found += [[ring(range(wide), middle_s, _COMPUTE)] * count for count in (1, 2, 4, 8)]
    for places in _shapes(wide):
        found.append([ring(one, middle_s) for one in places])
    # Rings within a host: alone, and while others have the processors too.
    for workers in (2, 3):
        inner = ProbedRing(hosts=(0,) * workers, message_bytes=_INNER_BYTES)
        found += [[inner], [inner, *[ring(range(wide), middle_s)] * 3]]
    return found


def _shapes(hosts: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield sets of rings that share the link of one of their hosts alone, or none."""
    if hosts >= 3:
        yield ((0, 1), (0, 2))
        yield ((0, 0, 1), (0, 2))
    if hosts >= 4:
        yield ((0, 1), (0, 2), (0, 3))
        yield ((0, 1), (2, 3))


def measure_rings(
    prober: RingProber, runs: Sequence[Sequence[ProbedRing]], tell: Callable[[int, int, str], None]
) -> list[RingRow]:
    """Let each set run, and return its rows.

    ``tell`` is called with the number of sets done, the number of all, and the next set.
    """
    passes: list[list[RingRow]] = []
    for again in range(_PASSES):
        found: list[RingRow] = []
        for done, rings in enumerate(runs):
            tell(again * len(runs) + done, _PASSES * len(runs), _said(rings))
            found += rows_of(rings, prober, _ROUNDS)
        passes.append(found)
    return [min(both, key=lambda row: row.round_s) for both in zip(*passes, strict=True)]


def _said(rings: Sequence[ProbedRing]) -> str:
    """Tell how many rings a set has, how large their messages are and over how many hosts."""
    spans = sorted({len(set(one.hosts)) for one in rings})
    hosts = " or ".join(map(str, spans))
    return f"{len(rings)} x {rings[-1].message_bytes / 1e6:.1f} MB over {hosts} hosts"


def rows_of(rings: Sequence[ProbedRing], prober: RingProber, rounds: int) -> list[RingRow]:
    """Let these rings run at once, and return a row of each kind of them."""
    times = [float(one.round_s_R.mean()) for one in prober.run(rings, rounds)]
    meets = contenders([one.hosts for one in rings])
    # Rings that agree in contenders, workers, hosts, message and compute time are one kind.
    kinds: dict[tuple[int, int, int, int, float], list[float]] = {}
    for ring, contended, round_s in zip(rings, meets, times, strict=True):
        hosts = len(set(ring.hosts))
        kind = (contended, len(ring.hosts), hosts, ring.message_bytes, ring.comp_s)
        kinds.setdefault(kind, []).append(round_s)
    return [
        RingRow(
            rings=len(rings),
            contenders=kind[0],
            workers=kind[1],
            hosts=kind[2],
            message_bytes=kind[3],
            comp_s=kind[4],
            round_s=round(float(np.mean(each)), 6),
            low_s=round(min(each), 6),
            high_s=round(max(each), 6),
        )
        for kind, each in kinds.items()
    ]


def contenders(hosts_J: Sequence[Sequence[int]]) -> list[int]:
    """Return p of each ring by (6) of SJF-BCO: rings that cross its busiest host; 0 within one."""
    # A ring within one host crosses no link.
    crossing = [frozenset(one) if len(set(one)) > 1 else frozenset() for one in hosts_J]
    on_host = Counter(host for one in crossing for host in one)
    return [max((on_host[host] for host in sorted(one)), default=0) for one in crossing]


def points_of(rows: Sequence[RingRow]) -> RingPoints:
    """Return the rows of rings between hosts as points to fit."""
    kept = [row for row in rows if row.contenders > 0]
    return RingPoints(
        time_s_N=np.array([row.round_s for row in kept]),
        message_bytes_N=np.array([float(row.message_bytes) for row in kept]),
        contenders_N=np.array([row.contenders for row in kept], dtype=np.int64),
        workers_N=np.array([row.workers for row in kept], dtype=np.int64),
        servers_N=np.array([row.hosts for row in kept], dtype=np.int64),
        comp_s_N=np.array([row.comp_s for row in kept]),
    )


def inner_of(rows: Sequence[RingRow]) -> tuple[RingJobs, FloatArray]:
    """Return the rings within one host, and the times of their rounds, in seconds."""
    kept = [row for row in rows if row.contenders == 0]
    jobs = RingJobs(
        model_bytes_J=np.array([float(row.message_bytes) for row in kept]),
        workers_J=np.array([row.workers for row in kept], dtype=np.int64),
        comp_s_J=np.array([row.comp_s for row in kept]),
    )
    return jobs, np.array([row.round_s for row in kept])
