"""Pairs of jobs on one GPU as Lucid (ASPLOS'23) measured them, and rules that predict them.

A *pair* has the speed of both jobs, relative to each alone on the GPU. Rules see what a profile of
one job alone says: the part of the time in which the GPU is busy, the part in which its memory is,
and Lucid's label. An iteration alone counts as 1, so times are parts of it.

- *two lanes, in step*: (4.1) of Harmony, ``warren.solve.job_groups.iteration``. The lanes are GPU
  and memory; a group takes the longest of both sums and of an iteration alone. Both jobs have the
  same speed.
- *two lanes, fair*: each lane is shared max-min fair, so that a job that needs less than its half
  is not slowed down. A job has the speed of its slower lane.
- *Muri's stages*: ``_muri.in_stages`` for two resources, the GPU and, while that is idle, the CPU.
- *Lucid's labels*: the sum of both labels, 0, 1 or 2 by how much a job disturbs others. It predicts
  no speed, only which pair is slower.

*Fitted.* A linear model of both jobs' figures. It is tested on jobs of network types that were not
in its half of the types.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from warren.solve.job_groups.iteration import GroupIteration


@dataclass(frozen=True, kw_only=True)
class Singles:
    """Jobs alone, axis J: parts of the time in which GPU and its memory are busy, Lucid's label."""

    network_J: np.ndarray
    gpu_J: np.ndarray
    memory_J: np.ndarray
    label_J: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Measured pairs, axis P: two jobs (P, 2) as positions in ``Singles``, and their speeds."""

    jobs: np.ndarray
    speed: np.ndarray

    def where(self, keep: np.ndarray) -> Pairs:
        """Some of the pairs, by a mask."""
        return Pairs(jobs=self.jobs[keep], speed=self.speed[keep])


def read(folder: Path) -> tuple[Singles, Pairs]:
    """Read the jobs alone and the pairs; only speeds are read of a pair."""
    with (folder / "single_data.csv").open() as file:
        alone = list(csv.DictReader(file))
    position = {
        (row["model"], row["dataset"], row["batchsize"], row["amp"]): index
        for index, row in enumerate(alone)
    }
    with (folder / "colocate_info.csv").open() as file:
        rows = list(csv.DictReader(file))
    jobs = [
        [position[tuple(row[f"{name}{one}"] for name in ("model", "dataset", "batchsize", "amp"))]
         for one in (1, 2)]
        for row in rows
    ]  # fmt: skip
    return (
        Singles(
            network_J=np.array([row["model"] for row in alone]),
            gpu_J=np.array([float(row["gpu_util"]) / 100 for row in alone]),
            memory_J=np.array([float(row["gmem_util"]) / 100 for row in alone]),
            label_J=np.array([int(row["label"]) for row in alone]),
        ),
        Pairs(
            jobs=np.array(jobs),
            speed=np.array([[float(row["speed1"]), float(row["speed2"])] for row in rows]),
        ),
    )


Rule = Callable[[Singles, np.ndarray], np.ndarray]
"""Predicts the speeds (P, 2) of pairs of jobs (P, 2)."""


def in_step(singles: Singles, jobs: np.ndarray) -> np.ndarray:
    """Two lanes of which each serves both jobs in turn: one speed for both."""
    speed = [
        1
        / GroupIteration(
            comp_s_J=singles.gpu_J[pair],
            comm_s_J=singles.memory_J[pair],
            alone_s_J=np.ones(2),
            comp_s=float(singles.gpu_J[pair].sum()),
        ).iteration_s
        for pair in jobs
    ]
    return np.repeat(np.array(speed)[:, None], 2, axis=1)


def fair(singles: Singles, jobs: np.ndarray) -> np.ndarray:
    """Two lanes that are shared max-min fair."""
    return np.minimum(lane_speed(singles.gpu_J[jobs]), lane_speed(singles.memory_J[jobs]))


def lane_speed(use: np.ndarray) -> np.ndarray:
    """The speeds (P, 2) that a lane leaves to jobs that use these parts of it (P, 2)."""
    rest = 1 - use[:, ::-1]  # what the other leaves over; at least a half is there
    return np.minimum(1, np.maximum(rest, 0.5) / np.maximum(use, 1e-9))


def muri(singles: Singles, jobs: np.ndarray) -> np.ndarray:
    """One job has the CPU while the other has the GPU, and then the other way round."""
    one, other = np.minimum(singles.gpu_J, 1)[jobs].T
    group_s = np.maximum(1 - one, other) + np.maximum(one, 1 - other)
    return np.repeat(1 / np.maximum(group_s, 1)[:, None], 2, axis=1)


def labels(singles: Singles, jobs: np.ndarray) -> np.ndarray:
    """Minus the sum of Lucid's labels, for the order of pairs: no speeds."""
    return np.repeat(-singles.label_J[jobs].sum(axis=1)[:, None].astype(float), 2, axis=1)


RULES: Final[Mapping[str, Rule]] = {
    "two lanes, in step": in_step,
    "two lanes, fair": fair,
    "Muri's stages": muri,
    "Lucid's labels": labels,
}


def features(singles: Singles, jobs: np.ndarray) -> np.ndarray:
    """Columns (2 P, K) of the fitted model: first the first job of each pair, then the second."""
    own = np.concatenate([jobs[:, 0], jobs[:, 1]])
    other = np.concatenate([jobs[:, 1], jobs[:, 0]])
    columns = [np.ones(len(own))]
    for use in (singles.gpu_J, singles.memory_J):
        both = use[own] + use[other]
        columns += [use[own], use[other], use[own] * use[other], np.maximum(0, both - 1)]
    return np.stack(columns, axis=1)


def fitted(singles: Singles, train: Pairs, jobs: np.ndarray) -> np.ndarray:
    """Predict speeds (P, 2) by least squares on the pairs ``train``."""
    seen = train.speed.T.reshape(-1)
    weights, *_ = np.linalg.lstsq(features(singles, train.jobs), seen, rcond=None)
    return (features(singles, jobs) @ weights).reshape(2, -1).T


def best_pairing(jobs: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """The positions of the pairs of a pairing with the most worth in all: exact.

    No job is in two of them. ``jobs`` (P, 2), ``worth`` (P,), above 0.
    """
    pairs = np.arange(len(jobs))
    _, job = np.unique(jobs, return_inverse=True)
    once = coo_array((np.ones(2 * len(pairs)), (job.reshape(-1), np.repeat(pairs, 2)))).tocsr()
    found = milp(
        -worth,
        constraints=LinearConstraint(once, ub=1),
        integrality=np.ones(len(pairs)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return np.flatnonzero(found.x > 0.5)


def random_pairing(jobs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The positions of pairs that are taken in a drawn order while both of their jobs are free."""
    free, found = set(jobs.reshape(-1).tolist()), []
    for pair in rng.permutation(len(jobs)).tolist():
        one, other = jobs[pair].tolist()
        if one in free and other in free:
            free -= {one, other}
            found.append(pair)
    return np.array(found)
