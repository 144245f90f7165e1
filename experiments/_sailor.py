"""One job on mixed GPU types: points that Sailor (SOSP'25) measured, and how they are predicted.

The job is OPT-350M on nodes of equal GPUs. Tensor parallelism splits each layer within a node, so
that a node is a worker. Inputs are times of layers on one GPU type, the architecture, and measured
rates between nodes. No measured iteration is an input.

*Data parallel.* A round of a ring, ``warren.cost.ring``: a worker computes all its microbatches;
the slowest worker begins the exchange. Each tensor-parallel rank has a ring of its own for its part
of the gradients, and all rings of a node share the node's card.

*Pipelines.* Outside of Warren, which splits no model: a textbook formula. A transfer between two
stages holds both, activations and gradients cross at the same time, and so a microbatch takes its
compute time and one transfer for each neighbor of the slowest stage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from warren.cost.ring import RingJobs, RingNetwork, round_s_J

HIDDEN: Final = 1024
TOKENS: Final = 2048
"""Tokens of a sequence, and positions of the embedding."""
WORDS: Final = 50272
BLOCKS: Final = 24
"""Transformer layers: layer 0 is the embedding, layers 1 to 24 are these, layer 25 is the head."""
VALUE_BYTES: Final = 4
"""Bytes of a parameter, a gradient and an activation: their validation runs state no fp16."""
RATES: Final[Mapping[frozenset[str], float]] = {
    frozenset({"RTX-3090", "Titan-RTX"}): 115.7e6,
    frozenset({"RTX-3090", "RTX-2080"}): 114.8e6,
    frozenset({"RTX-2080", "Titan-RTX"}): 114.8e6,
    frozenset({"RTX-3090"}): 114.9e6,
    frozenset({"RTX-2080"}): 2.86e9,
    frozenset({"Titan-RTX"}): 2.86e9,
}
"""Rates between two nodes of these types, bytes/s, as Sailor's authors measured them.

``sailor/providers/multizone_bandwidths_het.json`` of eth-easl/sailor at cf2c8e3: an Ethernet of
1 Gbit/s. Nodes of Titan RTX and of RTX 2080 are faster among themselves.
"""

Profile = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Times of one GPU type, s: by microbatch, ranks of a node and layer; of a layer forward pass,
backward pass and update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured iteration. Axis S: stages, with their layers, and the type of each replica's node.

    ``ranks``: tensor-parallel ranks of a node. ``reduce_s``: the gradient reduction as reported.
    """

    name: str
    layers_S: tuple[tuple[int, ...], ...]
    types_S: tuple[tuple[str, ...], ...]
    ranks: int
    microbatch: int
    batch: int
    measured_s: float
    reduce_s: float

    @property
    def replicas(self) -> int:
        """The data-parallel width."""
        return len(self.types_S[0])

    @property
    def microbatches(self) -> int:
        """Microbatches of a replica in an iteration."""
        return -(-self.batch // (self.microbatch * self.replicas))


def read_points(folder: Path) -> list[Point]:
    """The distinct points, by name.

    N3_D1 and N6_D2 have the same figures. With its one replica N3_D1 reduces no gradients, so the
    seconds for that are of N6_D2, and the last file counts.
    """
    found: dict[tuple[float, float], Point] = {}
    for path in sorted(folder.glob("measured_*.json")):
        point = point_of(path.stem.removeprefix("measured_"), json.loads(path.read_text()))
        found[point.measured_s, point.reduce_s] = point
    return list(found.values())


def point_of(name: str, value: Mapping[str, Any]) -> Point:
    """A point from a file of Sailor's."""
    (plan,) = value["pipeline_list"]
    groups_S = plan["tmp_per_stage"]
    (ranks,) = {ranks for groups in groups_S for _, ranks in groups}
    return Point(
        name=name,
        layers_S=tuple(tuple(layers) for layers in plan["layers_per_stage"]),
        types_S=tuple(tuple(nodes[0][0] for nodes, _ in groups) for groups in groups_S),
        ranks=ranks,
        microbatch=int(value["mbs"]),
        batch=int(value["gbs"]),
        measured_s=float(value["real"]),
        reduce_s=float(value["red_grads"]),
    )


def read_profiles(folder: Path) -> dict[str, Profile]:
    """The profile of each GPU type."""
    return {
        path.stem.removeprefix("OPT-350-"): json.loads(path.read_text())
        for path in sorted(folder.glob("OPT-350-*.json"))
    }


def rank_parameters(layers: Sequence[int], ranks: int, *, tied: bool = True) -> int:
    """Parameters of these layers on one of ``ranks`` tensor-parallel ranks.

    ``tied``: embedding and head share the table of words, so that a worker with both has it once.
    """
    # Megatron pads the table of words to a multiple of 128 rows a rank.
    table = -(-WORDS // (128 * ranks)) * 128 * HIDDEN
    # Matrices, and the biases of the first matrix of each pair, are split; other biases, norms not.
    block = 12 * HIDDEN**2 // ranks + 7 * HIDDEN // ranks + 6 * HIDDEN
    first, last = 0 in layers, BLOCKS + 1 in layers
    tables = first + last - (tied and first and last)
    inner = sum(0 < layer <= BLOCKS for layer in layers)
    return tables * table + first * TOKENS * HIDDEN + last * 2 * HIDDEN + inner * block


def microbatch_s(profile: Profile, point: Point, layers: Sequence[int]) -> float:
    """Forward and backward pass of a microbatch through these layers, s."""
    times = profile[str(point.microbatch)][str(point.ranks)]
    return sum(times[str(layer)][0] + times[str(layer)][1] for layer in layers)


def update_s(profile: Profile, point: Point, layers: Sequence[int]) -> float:
    """The optimizer's step for these layers, s."""
    times = profile[str(point.microbatch)][str(point.ranks)]
    return sum(times[str(layer)][2] for layer in layers)


def predict_s(
    point: Point, profiles: Mapping[str, Profile], *, faster: float = 1.0, tied: bool = True
) -> float:
    """The iteration of a point, s. ``faster``: factor on all rates between nodes."""
    if len(point.layers_S) == 1:
        return data_parallel_s(point, profiles, faster=faster, tied=tied)
    return pipeline_s(point, profiles, faster=faster, tied=tied)


def data_parallel_s(
    point: Point, profiles: Mapping[str, Profile], *, faster: float = 1.0, tied: bool = True
) -> float:
    """An iteration without stages, s: the slowest worker computes, then the rings exchange."""
    (layers,), (types,) = point.layers_S, point.types_S
    comp_s = max(
        point.microbatches * microbatch_s(profiles[one], point, layers)
        + update_s(profiles[one], point, layers)
        for one in types
    )
    return ring_s(point, 0, faster=faster, tied=tied, comp_s=comp_s)


def ring_s(
    point: Point, stage: int, *, faster: float = 1.0, tied: bool = True, comp_s: float = 0.0
) -> float:
    """A round of the rings of a stage, s: (8) of SJF-BCO with a ring a rank, all on each card."""
    types, ranks = point.types_S[stage], point.ranks
    if len(types) == 1:
        return comp_s
    network = RingNetwork(
        inner_bytes_per_s=float("inf"),
        outer_bytes_per_s=faster * least_rate([*types, types[0]]),
        xi1=1.0,
        xi2_s=0.0,
        alpha=0.0,
    )
    model_bytes = VALUE_BYTES * rank_parameters(point.layers_S[stage], ranks, tied=tied)
    rings = RingJobs(
        model_bytes_J=np.full(ranks, float(model_bytes)),
        workers_J=np.full(ranks, len(types)),
        comp_s_J=np.full(ranks, comp_s),
    )
    return float(round_s_J(network, rings, np.ones((ranks, len(types)), dtype=int)).max())


def least_rate(types: Sequence[str]) -> float:
    """The slowest link of a path of nodes, bytes/s."""
    return min(RATES[frozenset(pair)] for pair in pairwise(types))


def pipeline_s(
    point: Point, profiles: Mapping[str, Profile], *, faster: float = 1.0, tied: bool = True
) -> float:
    """An iteration with stages, s; see the head."""
    stages = range(len(point.layers_S))
    comp_S = [
        max(microbatch_s(profiles[one], point, point.layers_S[stage]) for one in types)
        for stage, types in enumerate(point.types_S)
    ]
    rate = faster * min(
        least_rate(path) for path in zip(*point.types_S, strict=True)
    )  # replica i of a stage sends to replica i of the next
    send_s = point.microbatch * TOKENS * HIDDEN * VALUE_BYTES / rate
    turn_s = max(comp_S[stage] + send_s * ((stage > 0) + (stage < stages[-1])) for stage in stages)
    fill_s = sum(comp_S) + 2 * stages[-1] * send_s
    end_s = max(
        ring_s(point, stage, faster=faster, tied=tied)
        + max(update_s(profiles[one], point, point.layers_S[stage]) for one in point.types_S[stage])
        for stage in stages
    )
    return (point.microbatches - 1) * turn_s + fill_s + end_s


def fitted_faster(points: Sequence[Point], profiles: Mapping[str, Profile]) -> float:
    """The factor on all rates with the least mean relative error on these points."""
    tried = np.geomspace(0.25, 4, 161)
    measured = np.array([one.measured_s for one in points])
    errors = [
        np.abs([predict_s(one, profiles, faster=faster) for one in points] / measured - 1).mean()
        for faster in tried
    ]
    return float(tried[int(np.argmin(errors))])
