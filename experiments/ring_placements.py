"""Rings side by side on a testbed: their measured rounds against those of a calibrated model.

Four hosts behind links of 200 Mbit/s. First ``warren calibrate --rings`` fits a network; then sets
of 2 to 6 rings, drawn by a seed and not used for fitting, run at once: over 1 to 4 hosts, some with
several ranks on a host, some within one, with compute time beside. A round between hosts is to take
0.3 s at least; ``rounds`` below are means. Part ``fair`` has flows in turns before each link
(``queue: fair``, the default), part ``fifo`` one queue for all, which leaves the sharing to TCP.
Part ``fresh`` is ``fair`` with other sets, drawn when the program and the queue were settled.

Predicted by (8) of SJF-BCO as `warren.cost.ring` has it, with the stored network and the other
reading, and by max-min shares of links (``_fluid_rings.py``). ``MODELS`` is where others join.
Needs the rights of a testbed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import _common
import numpy as np
from _fluid_rings import fluid_round_s_J
from _parts import ask, make_parts
from _rights import cannot
from numpy.typing import NDArray

from warren.cost.ring import RingJobs, RingNetwork, round_s_J
from warren.cost.run_rings import ring_network
from warren.live.measure.ring_rounds import ProbedRing, RingProber, bed_places
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import GOODPUT
from warren.live.testbed.status import one_standing
from warren.model.testbed import Bed, BedHost, Queue
from warren.store.files import read
from warren.workload.run_file import load_cluster

HOSTS: Final = 4
LINK_BPS: Final = 200_000_000
PLACEMENTS: Final = 16
ROUNDS: Final = 5
LEAST_S: Final = 3.0
SEED: Final = 1
PARTS: Final[Mapping[str, tuple[Queue, int]]] = {
    "fair": ("fair", SEED), "fifo": ("fifo", SEED), "fresh": ("fair", 2)
}  # fmt: skip
"""How flows share a link, and the seed of the sets."""
NAME: Final = f"rings-{os.getpid()}"
ALONE_S: Final = (0.3, 0.6)
"""What exchanges between hosts take alone, at the rate of the links."""
COMPUTE_S: Final = (0.02, 0.08)
INNER_BYTES: Final = (20e6, 60e6)
CLUSTER: Final = """\
hosts: [{name: h, count: 4, devices: {GPU: 4}, nic: 200 Mbit}]
network: network.yaml
"""

Floats: TypeAlias = NDArray[np.float64]
Model: TypeAlias = Callable[[RingNetwork, Sequence[ProbedRing]], Floats]
"""Seconds of a round of each ring, while all of them run."""


def contention(network: RingNetwork, rings: Sequence[ProbedRing]) -> Floats:
    """(6)-(8) of SJF-BCO."""
    jobs = RingJobs(
        model_bytes_J=np.array([float(one.message_bytes) for one in rings]),
        workers_J=np.array([len(one.hosts) for one in rings]),
        comp_s_J=np.array([one.comp_s for one in rings]),
    )
    return round_s_J(network, jobs, np.array([_workers(one) for one in rings]))


def _workers(ring: ProbedRing) -> list[int]:
    return [ring.hosts.count(host) for host in range(HOSTS)]


def fluid(network: RingNetwork, rings: Sequence[ProbedRing]) -> Floats:
    """Max-min fair shares of links while rings send, with the rates and overhead of the network."""
    return fluid_round_s_J(
        [one.hosts for one in rings],
        [2 * one.message_bytes * (len(one.hosts) - 1) / len(one.hosts) for one in rings],
        [one.comp_s for one in rings],
        [network.xi2_s * len(set(one.hosts)) for one in rings],
        network.outer_bytes_per_s,
        network.inner_bytes_per_s,
    )


MODELS: Final[Mapping[str, Model]] = {"contention": contention, "fluid": fluid}


def main() -> None:
    """Make the parts asked for."""
    asked = ask(__doc__, list(PARTS))
    made = make_parts(
        "ring_placements",
        asked,
        {name: partial(_part, *what) for name, what in PARTS.items()},
        seed=SEED,
        stated={"hosts": HOSTS, "link_bps": LINK_BPS, "placements": PLACEMENTS},
        cannot=_cannot,
    )
    rows = [["queue", "prediction", "rings", "mean error", "largest"]]
    for queue, part in made.items():
        for name, error in part["errors"].items():
            rows.append([queue, name, str(error["rings"]), f"{error['mean']:.1%}",
                         f"{error['largest']:.1%}"])  # fmt: skip
    _common.table(rows)


def _cannot(part: str) -> str:
    return cannot()


def _part(queue: Queue, seed: int, scratch: Path) -> Mapping[str, Any]:
    hosts = tuple(BedHost(name=f"h{i}", link_bps=LINK_BPS) for i in range(HOSTS))
    make(Bed(name=NAME, subnet="10.78.0.0/24", hosts=hosts, queue=queue))
    try:
        file = scratch / "network.yaml"
        options = ("--rings", "--testbed", NAME, "--out", str(file))
        fitted = _common.warren_json("calibrate", *options)
        (scratch / "cluster.yaml").write_text(CLUSTER)
        networks = _networks(load_cluster(str(scratch / "cluster.yaml"), read), fitted)
        with RingProber(bed_places(one_standing(NAME))) as prober:
            sets = [placement(seed, number) for number in range(PLACEMENTS)]
            rows = [_measured(prober, *one, networks) for one in enumerate(sets)]
    finally:
        remove(NAME)
    return {
        "network": {key: fitted[key] for key in ("reading", "xi1", "xi2", "alpha", "outer")},
        "fit": fitted["fit"],
        "measured": fitted["measured"],
        "errors": _errors(rows),
        "rows": rows,
    }


def _networks(cluster: Any, fitted: Mapping[str, Any]) -> dict[str, RingNetwork]:
    """The network as stored, and in the other reading."""
    stored = ring_network(cluster)
    found = {f"{stored.reading} (stored)": stored}
    for reading in ("ours", "published"):
        if reading != stored.reading:
            told = fitted["fit"][reading]
            found[reading] = replace(
                stored,
                reading=reading,
                xi1=told["xi1"],
                alpha=told["alpha"],
                xi2_s=told["xi2_ms"] / 1e3,
                outer_bytes_per_s=told["outer_mbit"] * 1e6 / 8,
            )
    return found


def placement(seed: int, number: int) -> list[ProbedRing]:
    """2 to 6 rings, two of them between hosts at least; the hosts are drawn evenly."""
    draw = random.Random(f"{seed}-{number}")
    count = draw.randint(2, 6)
    rings = [_between(draw) for _ in range(max(2, count - 1))]
    inside = count > 2 and draw.random() < 0.3
    return [*rings, _inside(draw) if inside else _between(draw)][:count]


def _between(draw: random.Random) -> ProbedRing:
    hosts = draw.sample(range(HOSTS), draw.choice((2, 2, 3, 4)))
    several = draw.random() < 0.25
    places = sorted([*hosts, hosts[0]] if several else hosts)
    workers = len(places)
    bytes_per_s = GOODPUT * LINK_BPS / 8
    message = draw.uniform(*ALONE_S) * bytes_per_s * workers / (workers - 1) / 2
    comp_s = round(draw.uniform(*COMPUTE_S), 3)
    return ProbedRing(hosts=tuple(places), message_bytes=round(message), comp_s=comp_s)


def _inside(draw: random.Random) -> ProbedRing:
    """Within one host; it computes most of the time, so that it leaves others the processors."""
    host, workers = draw.randrange(HOSTS), draw.choice((2, 3))
    size = round(draw.uniform(*INNER_BYTES))
    return ProbedRing(hosts=(host,) * workers, message_bytes=size, comp_s=0.3)


def _measured(
    prober: RingProber,
    number: int,
    rings: Sequence[ProbedRing],
    networks: Mapping[str, RingNetwork],
) -> dict[str, Any]:
    times = prober.run(rings, ROUNDS, LEAST_S)
    round_s_J = np.array([one.round_s_R.mean() for one in times])
    exchange_s_J = np.array([one.exchange_s_R.mean() for one in times])
    predicted = {
        f"{name}, {which}": model(network, rings)
        for name, model in MODELS.items()
        for which, network in networks.items()
        if name == "contention" or "stored" in which
    }
    row = {
        "placement": number,
        "rings": [
            {"hosts": list(one.hosts), "message_bytes": one.message_bytes, "comp_s": one.comp_s}
            for one in rings
        ],
        "rounds": [len(one.round_s_R) for one in times],
        "round_s": np.round(round_s_J, 4).tolist(),
        "exchange_share": np.round(exchange_s_J / round_s_J, 3).tolist(),
        "predicted_s": {name: np.round(one, 4).tolist() for name, one in predicted.items()},
    }
    off = {name: np.abs(one / round_s_J - 1).mean() for name, one in predicted.items()}
    print(number, *(f"{name}: {one:.1%}" for name, one in off.items()), flush=True)
    return row


def _errors(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each prediction, |predicted / measured - 1| over the rings between hosts; ``within``: the
    mean over those within one, which mostly compute."""
    found = {}
    for name in rows[0]["predicted_s"]:
        between, within, of_rows = [], [], []
        for row in rows:
            off_J = np.abs(np.array(row["predicted_s"][name]) / np.array(row["round_s"]) - 1)
            meets_J = np.array([len(set(one["hosts"])) > 1 for one in row["rings"]])
            between += off_J[meets_J].tolist()
            within += off_J[~meets_J].tolist()
            of_rows.append(float(off_J[meets_J].mean()))
        found[name] = {
            "rings": len(between),
            "mean": round(float(np.mean(between)), 4),
            "median": round(float(np.median(between)), 4),
            "largest": round(max(between), 4),
            "worst_placement": round(max(of_rows), 4),
            "within": round(float(np.mean(within)), 4),
        }
    return found


if __name__ == "__main__":
    main()
