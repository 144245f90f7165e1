"""Of two jobs on one link, how much of it the first has after their order has changed.

Two hosts of a testbed, links of 200 Mbit/s. Both jobs have their server on one host and compute on
the other, 80 tasks a round on a device each, so that pushes fill the link between: an update of 1
MB after 15 ms of padded COMP, two on their way at a time. Their classes are equal for 4 s, then the
first job is before the second for 5 s, then behind it for 5 s (``_link_order.py``).

The kernel counts what leaves the port by class (``live/testbed/class_counters.py``), read every 0.2
s. From 1 s after each change on, the job that is first has at least 90 % of the bytes; a simulation
under ``network: {model: fluid}``, with the rates of ``rings/network.yaml``, gives the same to 5 %.
*fair* and *fifo*: the queues before links. Needs the rights of a testbed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import _common
import pyarrow.parquet as pq
import yaml
from _link_mixes import RINGS, network
from _link_order import CHANGES_S, ORDERED_S, ORDERS
from _parts import Make, ask, make_parts
from _rights import cannot
from ring_mixed import _bits, _plain

from warren.live.testbed.class_counters import sent_bytes
from warren.live.testbed.lifecycle import make, remove
from warren.model.testbed import QUEUES, Bed, BedHost, Queue

NAME: Final = "priority"
BED: Final = Bed(
    name=NAME,
    subnet="10.78.0.0/24",
    hosts=tuple(BedHost(name=f"h-{i}", link_bps=200_000_000) for i in range(2)),
)
SENDER: Final = 1
"""The host whose uplink is filled."""
EVERY_S: Final = 0.2
SETTLED_S: Final = 1.0
LEAST: Final = 0.9
LIMIT: Final = 0.05
SEED: Final = 1
APP: Final = f"{(RINGS / '../../examples/apps/digits.py').resolve()}:Digits"
PROFILE: Final = {"model": "1 MB", "comp": {"CPU": "15 ms"}, "sync": {"CPU": "1 ms"}}
RUN: Final[dict[str, Any]] = {
    "format": 1,
    "name": "link-priority",
    "cluster": {
        "hosts": [
            {"name": "h-0", "devices": {"CPU": 1}, "nic": "200 Mbps"},
            {"name": "h-1", "devices": {"CPU": 2}, "nic": "200 Mbps"},
        ],
        "network": network(RINGS / "network.yaml"),
        "local": {"testbed": NAME},
        "emulate": {"time_scale": 1},
    },
    "workload": {
        "jobs": [
            {
                "name": name,
                "app": APP,
                "params": {"hidden": 3333},
                "model": "pushes",
                "scale": 80,
                "rounds": 3,
                "batch": 16,
                "servers": {"hosts": ["h-0"]},
            }
            for name in ("a", "b")
        ]
    },
    "scheduler": {
        "joint": f"{Path(__file__).with_name('_link_order.py')}:TwoOnOneLink",
        "shape": "fixed",
    },
    "seed": SEED,
}


class Counted(NamedTuple):
    """What had left the port at a time, in seconds of any clock, by class."""

    at_s: float
    sent: tuple[int, ...]


def main() -> None:
    """Make the parts asked for, save, and stop with an error where a limit is missed."""
    made: dict[str, Make] = {queue: partial(ordered, queue) for queue in QUEUES}
    stated = {"least_share": LEAST, "settled_s": SETTLED_S, "limit": LIMIT}
    parts = make_parts(
        "link_priority", ask(__doc__, list(made)), made, seed=SEED, stated=stated, cannot=_cannot
    )
    missed = [line for part in parts.values() for line in part["wrong"]]
    if missed:
        sys.exit("\n".join(missed))


def ordered(queue: Queue, scratch: Path) -> dict[str, Any]:
    """The run, live and simulated, and the first job's share after each change."""
    run = scratch / "run.yaml"
    profiles = scratch / "profiles.yaml"
    profiles.write_text(yaml.safe_dump({"format": 1, "pushes": PROFILE}))
    run.write_text(yaml.safe_dump({**RUN, "profiles": str(profiles)}, sort_keys=False))
    oracle, out = _plain(run, scratch), scratch / "live"
    with _testbed(queue) as bed:
        counted = list(_while_it_runs(bed, run, out))
    _common.warren_json("simulate", str(run), "--out", str(scratch / "told"))
    rows = [_row(at, counted, scratch / "told") for at in range(len(ORDERS))]
    wrong = [line for row in rows for line in _wrong(queue, row)]
    bits = _bits(oracle, out)
    for row in rows:
        print(f"{queue}: {json.dumps({k: v for k, v in row.items() if k != 'each'})}", flush=True)
    return {"rows": rows, **bits, "wrong": [*bits["wrong"], *wrong]}


def _while_it_runs(bed: Bed, run: Path, out: Path) -> Iterator[Counted]:
    """Count what leaves the port until the run has ended."""
    command = [sys.executable, "-m", "warren", "run", str(run), "--out", str(out), "--check"]
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, stdout=said, stderr=said) as process:
            next_s = time.monotonic()
            while process.poll() is None:
                yield Counted(time.monotonic(), sent_bytes(bed, SENDER))
                next_s += EVERY_S
                time.sleep(max(0.0, next_s - time.monotonic()))
        if process.returncode:
            said.seek(0)
            sys.exit(said.read())


def _row(order: int, counted: Sequence[Counted], told: Path) -> dict[str, Any]:
    """The share of who is first in an order: over time, once settled, and simulated."""
    first, second = ORDERS[order][order], ORDERS[order][1 - order]
    # A class has bytes from its order's beginning on; it is that old at most, and not younger.
    begun = next(i for i, one in enumerate(counted) if one.sent[first] or one.sent[second]) - 1
    since_s = counted[begun].at_s
    shares = []
    for before, after in zip(counted[begun:], counted[begun + 1 :], strict=False):
        if after.at_s > since_s + ORDERED_S:
            break
        sent = [after.sent[kind] - before.sent[kind] for kind in (first, second)]
        every = sum(after.sent) - sum(before.sent)
        shares.append([round(after.at_s - since_s, 2), sent[0] / max(1, every)])
    settled = [one for one in counted if SETTLED_S <= one.at_s - since_s <= ORDERED_S]
    gained = [late - early for late, early in zip(settled[-1].sent, settled[0].sent, strict=True)]
    return {
        "first": "ab"[order],
        "share": gained[first] / sum(gained),
        "share_simulated": _simulated(order, told),
        "mbit": 8 * sum(gained) / (settled[-1].at_s - settled[0].at_s) / 1e6,
        "reached_s": next((at_s for at_s, share in shares if share >= LEAST), None),
        "each": shares,
    }


def _simulated(order: int, told: Path) -> float:
    """The share of who is first, of the bytes that passed the same link in the simulation."""
    begin_s, end_s = CHANGES_S[order] + SETTLED_S, CHANGES_S[order + 1]
    passed = {"a": 0.0, "b": 0.0}
    for row in pq.read_table(told / "links.parquet").to_pylist():
        if (row["link"], row["direction"]) == (f"h-{SENDER}", "up"):
            inside = min(end_s, row["end_s"]) - max(begin_s, row["start_s"])
            part = max(0.0, inside) / (row["end_s"] - row["start_s"])
            passed[row["job"]] += part * row["bytes"]
    return passed["ab"[order]] / sum(passed.values())


def _wrong(queue: str, row: dict[str, Any]) -> Iterator[str]:
    """Each limit that a row misses."""
    if row["share"] < LEAST:
        yield f"{queue}: job {row['first']} has {row['share']:.3f} of the link a second later"
    if row["reached_s"] is None or row["reached_s"] > SETTLED_S:
        yield f"{queue}: job {row['first']} came to {LEAST} of the link after {row['reached_s']} s"
    if abs(row["share"] - row["share_simulated"]) > LIMIT:
        yield f"{queue}: {row['share']:.3f} live, {row['share_simulated']:.3f} simulated"


def _cannot(part: str) -> str:
    return cannot()


@contextmanager
def _testbed(queue: Queue) -> Iterator[Bed]:
    """The two hosts with such queues, for as long as they are needed."""
    bed = Bed(name=BED.name, subnet=BED.subnet, hosts=BED.hosts, queue=queue)
    make(bed)
    try:
        yield bed
    finally:
        remove(bed.name)


if __name__ == "__main__":
    main()
