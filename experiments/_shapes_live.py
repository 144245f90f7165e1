"""Jobs of a few seconds a round on the hosts of a testbed, and what a cost model says of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

import numpy as np
from _common import ROOT
from _shape_sweep import hosts_of
from _testbeds import limited_hosts

from warren.core.journal_reader import History
from warren.model.events import TasksDone
from warren.policy.shape.measured import Measured
from warren.solve.shapes.task_rounds import TaskMachines, TaskRound, task_round

NAME: Final = "shapes"
TASKS: Final = 12
"""Of a round."""
EXAMPLES: Final = ROOT / "examples/apps"
APPS: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "mlr": (
        f"{EXAMPLES / 'mlr.py'}:Mlr",
        {"data": "synthetic", "rows": 4000, "features": 2500, "classes": 100, "blocks": 60},
        4000,
    ),
    "nmf": (
        f"{EXAMPLES / 'nmf.py'}:Nmf",
        {
            "data": "synthetic", "rows": 1000, "columns": 2500, "true_rank": 20, "rank": 100,
            "inner": 500, "blocks": 60,
        },
        400,
    ),
    "lda": (
        f"{EXAMPLES / 'lda.py'}:Lda",
        {
            "data": "synthetic", "topics": 100, "vocabulary": 1000, "documents": 600,
            "length": 300, "scale": TASKS, "batch": 50, "blocks": 60,
        },
        50,
    ),
    "net": (f"{ROOT / 'experiments/_deep.py'}:Deep", {"layers": 12, "width": 150}, 1500),
}  # fmt: skip
"""Name, parameters and batch of each app; models of about 1 MB in blocks that are alike."""
MODEL_BYTES: Final = {"mlr": 1_000_400, "nmf": 1_000_000, "lda": 1_150_000, "net": 1_130_000}


@dataclass(frozen=True, slots=True)
class BedKind:
    """Hosts that are alike: how many, the share of a core of each, and the rate of its link."""

    count: int
    cpus: float
    link: str

    @property
    def bps(self) -> float:
        """Bits a second of the link."""
        return float(self.link.split()[0]) * 1e6


EQUAL: Final = (BedKind(6, 0.2, "100 Mbit"),)
UNEQUAL: Final = (BedKind(4, 0.15, "50 Mbit"), BedKind(2, 0.3, "200 Mbit"))


def names(kinds: Sequence[BedKind]) -> list[tuple[str, BedKind]]:
    """All hosts, by kind."""
    return [
        (f"{'abc'[place]}-{at}", kind)
        for place, kind in enumerate(kinds)
        for at in range(kind.count)
    ]


def testbed(kinds: Sequence[BedKind]) -> AbstractContextManager[float]:
    """The hosts of these kinds; what their links carry of their rates, in the mean."""
    hosts = [{"name": name, "link": kind.link, "cpus": kind.cpus} for name, kind in names(kinds)]
    return limited_hosts(NAME, hosts)


def described(
    app: str, kinds: Sequence[BedKind], shape: str, options: dict[str, Any], rounds: int,
    start: str = "",
) -> dict[str, Any]:  # fmt: skip
    """A run of one job; ``start``: the hosts that it begins with, as a sweep's."""
    file, params, batch = APPS[app]
    hosts = [name for name, _ in names(kinds)]
    job: dict[str, Any] = {
        "name": app, "app": file, "params": params, "model": app, "scale": TASKS, "batch": batch,
        "rounds": rounds,
    }  # fmt: skip
    if start:
        works, serves = hosts_of(start)
        job["workers"] = {"hosts": [hosts[at] for at in works]}
        job["servers"] = {"hosts": [hosts[at] for at in serves]}
    known = {f"cpu{place}": f"{100 / kind.cpus:.0f} ms" for place, kind in enumerate(kinds)}
    cluster = {
        "format": 1, "engine": "local", "network": {"model": "fluid"},
        "local": {"testbed": NAME},
        "hosts": [
            {"name": name, "devices": {f"cpu{kinds.index(kind)}": 1}, "nic": f"{kind.bps:.0f} bps"}
            for name, kind in names(kinds)
        ],
    }  # fmt: skip
    row = {"model": f"{MODEL_BYTES[app]} B", "comp": known, "sync": dict(known)}
    return {
        "format": 1, "name": f"shapes-{app}", "cluster": cluster, "profiles": {app: row},
        "workload": {"jobs": [job]}, "scheduler": {"place": "srtf", "shape": shape},
        "policy": {"shape": options}, "seed": 1,
    }  # fmt: skip


def round_s(history: History) -> list[float]:
    """How long each round took from the barrier before; of the first nothing is said."""
    barriers = [event.barrier_ns / 1e9 for event in history.rounds]
    return [float("nan"), *np.diff(barriers).tolist()]


def rounds_s(history: History) -> list[list[float]]:
    """When each round but the first ended, in the run's time, and how long it took."""
    barriers = [event.barrier_ns / 1e9 for event in history.rounds]
    return [[end_s, end_s - begin_s] for begin_s, end_s in pairwise(barriers)]


def moves_of(history: History) -> list[list[float]]:
    """Of each time servers moved: the round that began there, and what came from other hosts.

    Then how long after the barrier before it the last of that came, and how long before that
    barrier the shape was answered.
    """
    told = history.shapes_of(0)
    rows = []
    for move in history.moves:
        barrier_ns = move.time_ns - move.took_ns
        asked_ns = max(
            at for at, shape in told if shape.servers == move.servers and at < barrier_ns
        )
        times = move.took_ns, barrier_ns - asked_ns
        rows.append([move.round, move.far_bytes, *(time_ns / 1e9 for time_ns in times)])
    return rows


def by_shape(history: History, count: int) -> list[list[int]]:
    """The rounds of each shape of a sweep: whole ones, the first two in a shape left out."""
    bounds = [0, *(event.round for event in history.moves), len(history.rounds)]
    assert len(bounds) == count + 1, f"{len(bounds) - 1} shapes of {count}"
    # The last answer is given at a barrier, and the round after that begins in the old shape.
    return [list(range(begin + 2, end - 2)) for begin, end in pairwise(bounds)]


def turns_s(history: History, kinds: Sequence[BedKind], rounds: Sequence[int]) -> list[float]:
    """How long a task keeps the device of each host, as ``cruise`` measures it in each round.

    The median over rounds and hosts of a kind; of a kind on which none has run that of all. Host i
    has device i.
    """
    line = history.timeline
    seen = dict.fromkeys(rounds, Measured())
    for at in np.argsort(line.end_ns_R, kind="stable").tolist():
        if line.round_R[at] in seen:
            row = [int(column[at]) for column in (line.round_R, line.shard_R, line.device_R)]
            spans = (line.start_ns_R, line.comp_end_ns_R, line.busy_ns_R)
            times = [int(column[at]) for column in spans]
            done = TasksDone(int(line.end_ns_R[at]), 0, row[0], 1, (row[1],), row[2], *times)
            seen[row[0]] = seen[row[0]].computed(done, row[2])
    of = [kind for _, kind in names(kinds)]
    found: dict[BedKind, list[float]] = {kind: [] for kind in kinds}
    for one in seen.values():
        for (_, host), took_s in {**one.comp_s, **one.turn_s}.items():
            found[of[host]].append(took_s)
    every = [took_s for some in found.values() for took_s in some]
    return [median(found[kind] or every) for kind in of]


def predicted(
    kinds: Sequence[BedKind], task_s: Sequence[float], text: str, model_bytes: float, share: float
) -> TaskRound:
    """What a round takes in a shape by our cost model; ``share``: what links carry of a rate."""
    rate = np.array([kind.bps / 8 * share for _, kind in names(kinds)])
    works, serves = hosts_of(text)
    works_N, share_N = np.zeros(len(rate), dtype=bool), np.zeros(len(rate))
    works_N[list(works)] = True
    share_N[list(serves)] = rate[list(serves)] / rate[list(serves)].sum()
    machines = TaskMachines(
        task_s_N=np.array(task_s), rate_N=rate, devices_N=np.ones(len(rate), dtype=np.int64)
    )
    return task_round(machines, works_N, share_N, model_bytes, TASKS)
