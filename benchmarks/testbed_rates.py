"""How near the links of a testbed come to their rates on this machine.

*Links* of 50 and 200 Mbit: measured goodput over what is to be expected.
*A round* of a job whose only server is on another host: its time over that of its bytes there and
back and of its COMP between, the shortest of ten.
*Rings*: a round of one ring on a link over the time of its bytes, and of two rings beside each
other over that of one.

Needs the rights that a testbed needs. Whatever else the machine does makes all of these worse.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from _ranges import report

from warren.live.control.local_engine import LivePort
from warren.live.measure.ring_rounds import ProbedRing, RingProber, bed_places
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import GOODPUT, measure
from warren.live.testbed.status import one_standing
from warren.model.cluster import Network
from warren.model.decision import Assignment
from warren.model.errors import SpecError
from warren.model.events import RoundsDone
from warren.model.testbed import Bed, BedHost

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "live"))
from bed_worlds import on_hosts, standing_bed
from live_worlds import drive, job, of, world

MBIT: Final = 200
WIDTH: Final = 62_500
COMP_S: Final = 0.1
ROUNDS: Final = 10
MESSAGE: Final = 600_000


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    try:
        figures = links() | a_round() | rings()
    except SpecError as error:
        print(f"not made here: {error}")
        return
    report(figures)


@contextmanager
def _standing(*mbits: int) -> Iterator[Bed]:
    hosts = tuple(BedHost(name=f"h{at}", link_bps=mbit * 10**6) for at, mbit in enumerate(mbits))
    bed = Bed(name=f"rates-{os.getpid()}", subnet="10.83.0.0/24", hosts=hosts, queue="fair")
    make(bed)
    try:
        yield bed
    finally:
        remove(bed.name)


def links() -> dict[str, float]:
    """Return the goodput of the link that is furthest from what is to be expected, over that."""
    with _standing(50, 200, 200) as bed:
        rows = measure(bed, lambda *_: None)
    ratios = [row.goodput_bps / row.expected_bps for row in rows]
    return {"testbed_rate_over_expected": max(ratios, key=lambda ratio: abs(ratio - 1))}


def a_round() -> dict[str, float]:
    """Return the time of a round over that of its bytes and its COMP."""
    with standing_bed(2, MBIT), tempfile.TemporaryDirectory(prefix="warren-bench-") as name:
        folder = Path(name)
        one = job(0, scale=1, rounds=ROUNDS, params={"width": WIDTH})
        run, costs = world(folder, [one], 2, scale=1.0, comp_s=COMP_S, sync_s=1000.0)
        run = on_hosts(run, ["h0", "h1"])
        run = replace(run, cluster=replace(run.cluster, network=Network(model="fluid")))
        with LivePort(run, costs, folder / "out") as port:
            events = drive(port, [Assignment(1, 0, 0, ROUNDS, (0,))])
    ends_s = [one.barrier_ns / 1e9 for one in of(events, RoundsDone)]
    way_s = 8 * 40 * WIDTH / (GOODPUT * MBIT * 1e6)
    shortest_s = min(after - before for before, after in pairwise(ends_s))
    return {"testbed_round_over_expected": shortest_s / (2 * way_s + COMP_S)}


def rings() -> dict[str, float]:
    """Return the time of a round of a ring over that of its bytes, and of two over that of one."""
    ring = ProbedRing(hosts=(0, 1), message_bytes=MESSAGE)
    with _standing(100, 100) as bed, RingProber(bed_places(one_standing(bed.name))) as prober:
        (alone,) = prober.run([ring], 20)
        both = prober.run([ring, ring], 20)
    alone_s, each_s = alone.round_s_R.mean(), [one.round_s_R.mean() for one in both]
    return {
        "ring_round_over_its_bytes": float(alone_s / (MESSAGE * 8 / (GOODPUT * 100e6))),
        "two_rings_over_one": float(sum(each_s) / 2 / alone_s),
        "slower_of_two_rings_over_other": float(max(each_s) / min(each_s)),
    }


if __name__ == "__main__":
    main()
