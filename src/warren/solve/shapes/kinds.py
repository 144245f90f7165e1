"""Machines of a few kinds, and all cases of serving and working."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from warren.solve.common.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKinds:
    """Machines of K kinds: number, time of an item, and rate of the link, in bytes a s.

    ``item_s_K``: on one of the devices of a machine; infinite where it has none, and can only
    serve. ``devices_K``: of a machine; each is a worker, with pulls and pushes of its own.

    Raises
    ------
    ValueError
        If the columns differ in length, a number is below 1, or a time or rate is not above 0.
    """

    count_K: IntArray
    item_s_K: FloatArray
    rate_K: FloatArray
    devices_K: IntArray

    def __post_init__(self) -> None:
        columns = self.count_K, self.item_s_K, self.rate_K, self.devices_K
        if len({column.shape for column in columns}) > 1 or self.count_K.ndim != 1:
            raise ValueError("the columns of machines are not of one length")
        if not len(self.count_K) or (self.count_K < 1).any() or (self.devices_K < 1).any():
            raise ValueError("a kind of machines has none, or no device")
        if not ((self.item_s_K > 0).all() and (self.rate_K > 0).all()):
            raise ValueError("a machine has a time or a rate that is not above 0")
        if not np.isfinite(self.rate_K).all():
            raise ValueError("a machine has a rate without limit")

    @property
    def works_K(self) -> BoolArray:
        """Return which kinds can work."""
        works_K: BoolArray = np.isfinite(self.item_s_K)
        return works_K

    @property
    def case_count(self) -> int:
        """Return the number of ways to serve: the product of N_k + 1 of those that work."""
        return math.prod(count + 1 for count in self.count_K[self.works_K].tolist())

    def servers_CK(self) -> IntArray:
        """Return all cases in which some serve and some work, servers by kind (C, K)."""
        ranges = [
            np.arange(0 if works else count, count + 1)
            for count, works in zip(self.count_K.tolist(), self.works_K.tolist(), strict=True)
        ]
        every_CK = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))
        serve_C = every_CK.sum(axis=1)
        split_CK: IntArray = every_CK[(serve_C > 0) & (serve_C < self.count_K.sum())]
        return split_CK


def kinds_of(
    item_s_N: FloatArray, rate_N: FloatArray, devices_N: IntArray
) -> tuple[MachineKinds, IntArray]:
    """Sort machines into kinds, those that are equal; return the kind of each machine, too.

    Kinds are in the order of their first machines.
    """
    found: dict[tuple[float, float, int], int] = {}
    machines = zip(item_s_N.tolist(), rate_N.tolist(), devices_N.tolist(), strict=True)
    kind_N = np.array([found.setdefault(one, len(found)) for one in machines], dtype=np.int64)
    item_s_K, rate_K, devices_K = zip(*found, strict=True)
    kinds = MachineKinds(
        count_K=np.bincount(kind_N),
        item_s_K=np.array(item_s_K, dtype=float),
        rate_K=np.array(rate_K, dtype=float),
        devices_K=np.array(devices_K, dtype=np.int64),
    )
    return kinds, kind_N
