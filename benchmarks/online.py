"""What an online decision costs, by how many jobs wait, and 100,000 jobs end to end.

*Decisions*: so many jobs of 5 to 50 rounds arrive at once on 1,000 GPUs of four types; the median
of the first ``STEPS`` decisions. The first ones, which hand out the whole cluster, take longer: the
mean stands beside. *End to end*: jobs whose rounds have a heavy tail (Pareto, 1.2) arrive one by
one and offer four fifths of what the cluster can do; grain 10 min.
"""

from __future__ import annotations

from statistics import fmean, median
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from _ranges import report

from warren.core.loop import Core
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.run import Grain, Run
from warren.model.units import NS_PER_S
from warren.model.view import View
from warren.policy.registry import place_policy
from warren.sim.port import SimPort

PLACES: Final = ("hlas", "gittins")
WAITING: Final = (100, 1_000, 10_000)
STEPS: Final = 2_000
MANY: Final = 100_000
GPUS: Final = 1_000
TYPES: Final = 4
MODELS: Final = 8
LOAD: Final = 0.8

Ints = npt.NDArray[np.int64]


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    figures = {}
    for place in PLACES:
        for count in WAITING:
            taken_s = decisions_s(place, count)
            middle_ms, mean_ms = 1000 * median(taken_s), 1000 * fmean(taken_s)
            print(f"{place}, {count} jobs: median {middle_ms:.3f} ms, mean {mean_ms:.3f} ms")
            figures[f"{place}_decision_ms_{count}_jobs"] = middle_ms
        figures[f"{place}_{MANY}_jobs_s"] = end_to_end_s(place)
        print(f"{place}, {MANY} jobs end to end: {figures[f'{place}_{MANY}_jobs_s']:.1f} s")
    report(figures)


class Clocked:
    """A policy whose decisions are timed."""

    def __init__(self, place: str) -> None:
        self._policy = place_policy(place)
        self.taken_s: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def decide(self, view: View, memory: Any) -> Any:
        """The policy's decision."""
        begin = perf_counter()
        answer = self._policy.decide(view, memory)
        self.taken_s.append(perf_counter() - begin)
        return answer


def decisions_s(place: str, count: int) -> list[float]:
    """Seconds of each of the first decisions with so many jobs."""
    draw = np.random.default_rng(1)
    rounds = draw.integers(5, 50, size=count)
    run, costs = world(rounds, np.zeros(count, dtype=np.int64), Grain())
    policy, port = Clocked(place), SimPort(run, costs)
    core = Core(run=run, costs=costs, policy=policy, port=port, sink=len, world="sim")  # type: ignore[arg-type]
    core.begin()
    for _ in range(STEPS):
        events = port.next_events()
        if not events:
            break
        core.step(events)
    return policy.taken_s


def end_to_end_s(place: str) -> float:
    """Seconds to simulate many jobs, journal and all."""
    draw = np.random.default_rng(1)
    rounds = np.ceil(20 * draw.pareto(1.2, size=MANY) + 5).clip(max=5000).astype(np.int64)
    grain = Grain(text="10 min", rounds=None, time_ns=600 * NS_PER_S)
    _, costs = world(rounds, np.zeros(MANY, dtype=np.int64), grain)
    work_s = float((scales(MANY) * rounds * costs.comp_ns_JT.mean(axis=1)).sum()) / NS_PER_S
    arrival_s = np.sort(draw.uniform(0, work_s / GPUS / LOAD, size=MANY))
    run, costs = world(rounds, (arrival_s * NS_PER_S).astype(np.int64), grain)
    policy, port, journal = place_policy(place), SimPort(run, costs), bytearray()
    core = Core(run=run, costs=costs, policy=policy, port=port, sink=journal.extend, world="sim")
    begin = perf_counter()
    core.execute()
    return perf_counter() - begin


def world(rounds: Ints, arrival_ns: Ints, grain: Grain) -> tuple[Run, CostTable]:
    """Jobs of eight models on four types, T^c of 0.35 to 13 s, T^s a tenth of it."""
    names = [f"T{k}" for k in range(TYPES)]
    devices = tuple(
        Device(index=k, name=f"h/{k}", type=names[k % TYPES], host="h") for k in range(GPUS)
    )
    host = Host(name="h", devices=tuple(one.name for one in devices))
    types = tuple(DeviceType(name=name) for name in names)
    cluster = Cluster(hosts=(host,), devices=devices, types=types)
    jobs = tuple(
        Job(index=k, name=f"j{k}", scale=scale, rounds=count, arrival_ns=at, model=f"m{k % MODELS}")
        for k, (scale, count, at) in enumerate(
            zip(scales(len(rounds)).tolist(), rounds.tolist(), arrival_ns.tolist(), strict=True)
        )
    )
    draw = np.random.default_rng(2)
    comp_s = draw.uniform(0.5, 2, size=(MODELS, 1)) * np.array([1.0, 2.0, 5.0, 4.0])
    comp_s *= draw.uniform(0.7, 1.3, size=(MODELS, TYPES))
    comp_ns = (comp_s * NS_PER_S).astype(np.int64)[np.arange(len(jobs)) % MODELS]
    costs = CostTable(
        comp_ns_JT=comp_ns, sync_ns_JT=comp_ns // 10, fits_JT=np.ones_like(comp_ns, dtype=np.bool_)
    )
    return Run(name="online", cluster=cluster, workload=Workload(jobs=jobs), grain=grain), costs


def scales(count: int) -> Ints:
    """1, 2, 4 or 8 tasks a round, evenly."""
    return np.random.default_rng(3).choice(np.array([1, 2, 4, 8], dtype=np.int64), size=count)


if __name__ == "__main__":
    main()
