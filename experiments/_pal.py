"""GPUs of one type that differ: PAL's workloads (SC'24) in virtual time, and who gets which GPU.

A job is a gang that asks for a number of GPUs and has a class. Each GPU has a factor for each
class: how much longer an iteration takes on it. A gang is as slow as its slowest GPU, and
``ACROSS`` times slower on several nodes. At the end of each round jobs that are done leave, jobs
that came join, and a rule says which jobs have which GPUs in the next round. Nothing is lost by a
move. All this is so in PAL's own simulator (hal-uw/blox-pal), too.

*Rules of theirs*, read from that repository. ``packed_sticky``: jobs in the order of arrival, none
passes another; a running job keeps its GPUs; the fewest nodes. ``pm_first``: in each round the
first jobs that fit together are placed again, by class, on the free GPUs with the least binned
factor. ``pal``: the same, but a job that fits on a node takes the first of the pairs (bin, on one
node or on several) for which GPUs are free, by the product of factor and ``ACROSS``.

*Ours*: ``exact``. Each job takes the GPUs on which it is least slow, by exact factors and
``ACROSS``; several orders of the jobs are tried, and the one with the most work a second is taken.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

import numpy as np

NODES: Final = 16
NODE_GPUS: Final = 4
ACROSS: Final = 1.7
"""Factor on an iteration of a gang on several nodes."""
ROUND_S: Final = 360.0
CLASSES: Final = ("A", "B", "C", "D")
CLASS_OF: Final[Mapping[str, str]] = {
    "resnet50": "A", "BERT": "B", "DCGAN": "B", "GPT2": "B", "vgg19": "C", "PointNet": "D",
}  # fmt: skip
ITERATION_S: Final[Mapping[str, float]] = {
    "resnet50": 0.1754, "BERT": 0.179, "DCGAN": 0.0469, "GPT2": 3.5714, "vgg19": 0.3006,
    "PointNet": 0.2813,
}  # fmt: skip
"""Time of an iteration in PAL's simulator, by model, s: ``duration`` of a job counts iterations."""


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Columns of a workload, axis J in order of arrival: seconds alone on GPUs of factor 1."""

    submit_s: np.ndarray
    gpus: np.ndarray
    work_s: np.ndarray
    kind: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Devices:
    """Factors by class and GPU (C, G), those as binned, and the node of each GPU."""

    factor: np.ndarray
    binned: np.ndarray
    node: np.ndarray


@dataclass(frozen=True, kw_only=True)
class State:
    """What a rule sees: jobs there in order of arrival, what runs where, work left, GPU seconds."""

    jobs: Jobs
    devices: Devices
    present: Sequence[int]
    running: Mapping[int, tuple[int, ...]]
    left_s: np.ndarray
    served_s: np.ndarray


Placed = dict[int, tuple[int, ...]]
"""GPUs of each job that runs."""
Rule = Callable[[State], Placed]


def read_jobs(path: Path) -> Jobs:
    """Read a workload of PAL's."""
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["submit_time"]))
    return Jobs(
        submit_s=np.array([float(row["submit_time"]) for row in rows]),
        gpus=np.array([int(row["num_gpus"]) for row in rows]),
        work_s=np.array([float(row["duration"]) * ITERATION_S[row["model"]] for row in rows]),
        kind=np.array([CLASSES.index(CLASS_OF[row["model"]]) for row in rows]),
    )


def read_factors(path: Path) -> np.ndarray:
    """The factor of each measured GPU: its longest measurement over the median of these."""
    longest: dict[str, float] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            longest[row["uuid"]] = max(longest.get(row["uuid"], 0.0), float(row["perf"]))
    found = np.array(list(longest.values()))
    return found / np.median(found)


def draw_devices(measured: Mapping[str, np.ndarray], rng: np.random.Generator) -> Devices:
    """A cluster whose GPUs have factors that are drawn from the measured ones, class by class."""
    gpus = NODES * NODE_GPUS
    factor = np.stack([rng.choice(measured[name], gpus) for name in CLASSES])
    return Devices(
        factor=factor,
        binned=np.stack([bins(one) for one in factor]),
        node=np.repeat(np.arange(NODES), NODE_GPUS),
    )


def bins(factor: np.ndarray) -> np.ndarray:
    """Factors as PAL bins them: the center of each one's cluster over the median center.

    Two clusters, and one more for each factor above the mean and three deviations: PAL's program
    looks for a number of clusters, but ends with two. Clusters here have the least sum of squares.
    """
    order = np.argsort(factor, kind="stable")
    values = factor[order]
    clusters = 2 + int((factor > factor.mean() + 3 * factor.std(ddof=1)).sum())
    ends = _optimal_clusters(values, min(clusters, len(np.unique(values))))
    cuts = [0, *ends, len(values)]
    centers = [values[first:last].mean() for first, last in pairwise(cuts)]
    binned = np.repeat(centers, np.diff(cuts)) / np.median(centers)
    return binned[np.argsort(order, kind="stable")]


def _optimal_clusters(values: np.ndarray, clusters: int) -> list[int]:
    """Where sorted values are cut, for the least sum of squares about the means of clusters."""
    count = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    least = np.full(count + 1, np.inf)
    least[0], cut = 0.0, []
    for _ in range(clusters):
        now, from_ = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
        for end in range(1, count + 1):
            begin = np.arange(end)
            spread = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / (end - begin)
            from_[end] = int(np.argmin(least[:end] + spread))
            now[end] = (least[:end] + spread)[from_[end]]
        least = now
        cut.append(from_)
    ends, end = [], count
    for from_ in reversed(cut):
        end = int(from_[end])
        ends.append(end)
    return ends[-2::-1]  # the last one is 0


def slowness(devices: Devices, kind: int, gpus: Sequence[int]) -> float:
    """How much longer a gang of this class takes on these GPUs."""
    worst = float(devices.factor[kind, list(gpus)].max())
    return worst * (ACROSS if len(set(devices.node[list(gpus)].tolist())) > 1 else 1.0)


def packed_sticky(state: State) -> Placed:
    """PAL's baseline."""
    placed = dict(state.running)
    free = _free(state, placed)
    for job in state.present:
        if job in placed:
            continue
        if (found := _packed(state.devices, free, int(state.jobs.gpus[job]))) is None:
            break
        placed[job] = found
        free -= set(found)
    return placed


def _free(state: State, placed: Placed) -> set[int]:
    return set(range(len(state.devices.node))) - {gpu for gpus in placed.values() for gpu in gpus}


def _packed(devices: Devices, free: set[int], wanted: int) -> tuple[int, ...] | None:
    """The node with just enough or least more free GPUs, else the nodes with the most."""
    if len(free) < wanted:
        return None
    by_node = _by_node(devices, free)
    enough = [gpus for gpus in by_node.values() if len(gpus) >= wanted]
    if enough:
        return tuple(min(enough, key=len)[:wanted])
    most_first = sorted(by_node.values(), key=len, reverse=True)
    return tuple([gpu for gpus in most_first for gpu in gpus][:wanted])


def _by_node(devices: Devices, free: set[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for gpu in sorted(free):
        found.setdefault(int(devices.node[gpu]), []).append(gpu)
    return found


Choose = Callable[[Devices, int, set[int], int], tuple[int, ...] | None]
"""Chooses free GPUs for a job of a class, by their number; None if too few are free."""


def by_class(choose: Choose) -> Rule:
    """The first jobs that fit together, class by class, then others in order until one does not."""

    def rule(state: State) -> Placed:
        total = len(state.devices.node)
        needed = accumulate(int(state.jobs.gpus[job]) for job in state.present)
        first = [job for job, gpus in zip(state.present, needed, strict=True) if gpus <= total]
        ordered = sorted(first, key=lambda job: int(state.jobs.kind[job]))
        placed: Placed = {}
        free = _free(state, placed)
        for job in [*ordered, *state.present[len(first) :]]:
            kind, wanted = int(state.jobs.kind[job]), int(state.jobs.gpus[job])
            if (found := choose(state.devices, kind, free, wanted)) is None:
                break
            placed[job] = found
            free -= set(found)
        return placed

    return rule


def pm_first(devices: Devices, kind: int, free: set[int], wanted: int) -> tuple[int, ...] | None:
    """The free GPUs with the least binned factor; of equal ones, of nodes that fit best."""
    if len(free) < wanted:
        return None
    there = {node: len(gpus) for node, gpus in _by_node(devices, free).items()}
    ordered = sorted(
        sorted(free),
        key=lambda gpu: (
            devices.binned[kind, gpu],
            abs(there[int(devices.node[gpu])] - wanted),
        ),
    )
    return tuple(ordered[:wanted])


def pal(devices: Devices, kind: int, free: set[int], wanted: int) -> tuple[int, ...] | None:
    """PAL: the first pair of bin and place, by the product of their factors, that has GPUs free."""
    if not 1 < wanted <= NODE_GPUS:
        return pm_first(devices, kind, free, wanted)
    levels = np.unique(devices.binned[kind]).tolist()
    tried = sorted((level * (ACROSS if across else 1), across, level)
                   for level in levels for across in (False, True))  # fmt: skip
    for _, across, level in tried:
        good = {gpu for gpu in free if devices.binned[kind, gpu] <= level}
        if across and len(good) >= wanted:
            return pm_first(devices, kind, good, wanted)
        nodes = [] if across else _by_node(devices, good).values()
        sets = [
            sorted(gpus, key=lambda gpu: devices.binned[kind, gpu])[:wanted]
            for gpus in nodes
            if len(gpus) >= wanted
        ]
        if sets:
            return tuple(min(sets, key=lambda gpus: devices.binned[kind, gpus[-1]]))
    return None


def least_slow(devices: Devices, kind: int, free: set[int], wanted: int) -> tuple[int, ...] | None:
    """The free GPUs on which a gang of this class is least slow, by exact factors."""
    if len(free) < wanted:
        return None
    factor = devices.factor[kind]
    ordered = sorted(free, key=lambda gpu: (factor[gpu], gpu))
    across = tuple(ordered[:wanted])
    nodes = [gpus for gpus in _by_node(devices, free).values() if len(gpus) >= wanted]
    sets = [tuple(sorted(gpus, key=lambda gpu: factor[gpu])[:wanted]) for gpus in nodes]
    # Of sets that are equally slow, the one with the slowest GPUs: others may need the rest.
    return min(
        [*sets, across],
        key=lambda gpus: (slowness(devices, kind, gpus), -factor[list(gpus)].sum()),
    )


Order = Callable[[State], Sequence[int]]


def _chosen(state: State, order: Order, passing: bool) -> list[int]:
    """The first jobs by ``order`` that fit together; ``passing``: others pass one that does not."""
    chosen, gpus = [], 0
    for job in order(state):
        wanted = int(state.jobs.gpus[job])
        if gpus + wanted <= len(state.devices.node):
            chosen.append(job)
            gpus += wanted
        elif not passing:
            break
    return chosen


def packed(order: Order) -> Rule:
    """The jobs of ``exact`` with passing, on the fewest nodes: what the order alone changes."""

    def rule(state: State) -> Placed:
        chosen = _chosen(state, order, passing=True)
        placed = {job: gpus for job, gpus in state.running.items() if job in chosen}
        free = _free(state, placed)
        for job in chosen:
            if job not in placed:
                found = _packed(state.devices, free, int(state.jobs.gpus[job]))
                assert found is not None
                placed[job] = found
                free -= set(found)
        return placed

    return rule


def exact(order: Order, *, passing: bool) -> Rule:
    """Ours: the first jobs by ``order`` that fit together, each where it is least slow.

    ``passing``: a job that does not fit is passed by later ones.
    """

    def rule(state: State) -> Placed:
        chosen = _chosen(state, order, passing)
        if set(chosen) == set(state.running):
            return dict(state.running)
        return max(_tries(state, chosen), key=lambda placed: _work(state, placed))

    return rule


def _tries(state: State, chosen: Sequence[int]) -> list[Placed]:
    """Placements of the same jobs, one for each order in which they choose GPUs."""
    spread = state.devices.factor.std(axis=1)
    orders: list[Callable[[int], tuple[float, ...]]] = [
        lambda job: (-spread[state.jobs.kind[job]], -state.jobs.gpus[job]),
        lambda job: (-spread[state.jobs.kind[job]], state.jobs.gpus[job]),
        lambda job: (-state.jobs.gpus[job],),
        lambda job: (state.jobs.gpus[job],),
    ]
    found = []
    for key in orders:
        placed: Placed = {}
        free = _free(state, placed)
        for job in sorted(chosen, key=key):
            gpus = least_slow(
                state.devices, int(state.jobs.kind[job]), free, int(state.jobs.gpus[job])
            )
            assert gpus is not None
            placed[job] = gpus
            free -= set(gpus)
        found.append(placed)
    return found


def _work(state: State, placed: Placed) -> float:
    """The work a second of a placement, in GPUs of factor 1."""
    return sum(
        len(gpus) / slowness(state.devices, int(state.jobs.kind[job]), gpus)
        for job, gpus in placed.items()
    )


def arrival(state: State) -> Sequence[int]:
    """Jobs as they came."""
    return state.present


def least_served(state: State) -> Sequence[int]:
    """Jobs with the least GPU seconds so far first: no length is known."""
    return sorted(state.present, key=lambda job: (float(state.served_s[job]), job))


def least_left(state: State) -> Sequence[int]:
    """Jobs with the least time left first: lengths are known."""
    return sorted(state.present, key=lambda job: (float(state.left_s[job]), job))


RULES: Final[Mapping[str, Rule]] = {
    "Packed-Sticky": packed_sticky,
    "PM-First": by_class(pm_first),
    "PAL": by_class(pal),
    "ours, in order of arrival": exact(arrival, passing=False),
    "packed, least served first": packed(least_served),
    "ours, least served first": exact(least_served, passing=True),
    "ours, least left first": exact(least_left, passing=True),
}


def simulate(jobs: Jobs, devices: Devices, rule: Rule, round_s: float = ROUND_S) -> np.ndarray:
    """Return the completion time of each job, s, counted from its arrival to the end of a round."""
    left, served = jobs.work_s.astype(float).copy(), np.zeros(len(jobs.work_s))
    jct, running, to_come = np.full(len(left), np.nan), dict[int, tuple[int, ...]](), 0
    present: list[int] = []
    now_s = 0.0
    while to_come < len(left) or present:
        while to_come < len(left) and jobs.submit_s[to_come] <= now_s:
            present.append(to_come)
            to_come += 1
        running = rule(
            State(jobs=jobs, devices=devices, present=tuple(present), running=running,
                  left_s=left, served_s=served)
        )  # fmt: skip
        now_s += round_s
        for job, gpus in list(running.items()):
            left[job] -= round_s / slowness(devices, int(jobs.kind[job]), gpus)
            served[job] += round_s * len(gpus)
            if left[job] <= 0:
                jct[job] = now_s - jobs.submit_s[job]
                present.remove(job)
                del running[job]
    return jct
