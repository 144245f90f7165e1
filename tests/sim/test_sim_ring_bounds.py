"""No policy beats the bounds of runs with rings, or with servers on links, on any network."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.model.run import Run
from warren.policy.registry import place_policy, ring_policies
from warren.profile.cost_table import cost_table
from warren.runs.bound_of_run import lower_bound
from warren.sim.build import sim_port, simulated_costs
from warren.workload.run_file import run_from_dict

sys.path.insert(0, str(Path(__file__).parents[1] / "workload"))
from workload_files import reader

pytestmark = pytest.mark.slow


BUDGETS = {"braid": 500, "hare": 20_000}
"""Of a search. With more, the nearest that one of 60 worlds comes to its bounds is the same."""
FLUID = {"model": "fluid", "xi2": "3 ms", "latency": "2 ms"}


def world(draw: random.Random, *, servers: bool = False) -> Run:
    """Rings, and one job in five with servers, of which each fits type A; or servers alone."""
    held = [draw.randint(1, 4) for _ in range(draw.randint(1, 4))]
    kinds = ["A", *(draw.choice("AB") for _ in held[1:])]
    most = sum(count for count, kind in zip(held, kinds, strict=True) if kind == "A")
    jobs = [
        {
            "name": f"j{at}", "model": f"m{at}", "scale": draw.randint(1, most),
            "rounds": draw.randint(1, 9), "arrival": f"{draw.choice([0, 0, 1, 7])} s",
            "sync": draw.choice(["ps", *(["ps"] if servers else ["ring"]) * 4]),
        }
        for at in range(draw.randint(1, 9))
    ]  # fmt: skip
    types = [["A"], ["A", "B"]]
    profiles = {
        f"m{at}": {
            "model": f"{draw.randint(1, 400)} MB",
            "comp": {kind: f"{draw.randint(1, 3000)} ms" for kind in draw.choice(types)},
        }
        for at in range(len(jobs))
    }
    xi1 = draw.choice([0, 0.5])
    data = {
        "cluster": {
            "hosts": [
                {"name": f"h{at}", "devices": {kind: count}, "nic": "8 Gbps", "intra": "64 Gbps"}
                for at, (count, kind) in enumerate(zip(held, kinds, strict=True))
            ],
            "network": draw.choice(
                [{"model": "contention", "xi1": xi1, "xi2": "3 ms", "alpha": 0.3},
                 {"model": "constant"}, {"model": "lane"}, FLUID]
            ) if not servers else FLUID,
        },
        "scheduler": {"servers": draw.randint(1, 3)},
        "profiles": profiles,
        "workload": {"jobs": jobs},
    }  # fmt: skip
    return run_from_dict(data, "d", reader({}))


def history(run: Run, place: str) -> History:
    costs, journal = simulated_costs(run, cost_table(run)), bytearray()
    options = {"budget": BUDGETS[place]} if place in BUDGETS else {}
    Core(
        run=run, costs=costs, policy=place_policy(place, options), port=sim_port(run, costs),
        sink=journal.extend, world="sim", check=True,
    ).execute()  # fmt: skip
    return read_history(bytes(journal))


@given(st.randoms(use_true_random=False))
def test_no_policy_beats_the_bounds_of_rings(rng: random.Random) -> None:
    hold_bounds(world(rng), ring_policies())


@given(st.randoms(use_true_random=False))
def test_no_policy_beats_the_bounds_of_servers_on_links(rng: random.Random) -> None:
    hold_bounds(world(rng, servers=True), ("hare", "srtf", "sched-homo", "hlas"))


def hold_bounds(run: Run, places: Sequence[str]) -> None:
    """Simulate a run under each policy: it takes no less than its bounds."""
    costs = simulated_costs(run, cost_table(run))
    arrival_ns_J = np.array([job.arrival_ns for job in run.workload.jobs])
    for place in places:
        found = history(run, place)
        bound = lower_bound(run, costs, found)
        assert bound.makespan_s is not None
        assert bound.weighted_jct_s is not None
        assert bound.makespan_s * 1e9 <= found.finish_ns_J.max() - arrival_ns_J.min()
        assert bound.weighted_jct_s * 1e9 <= (found.finish_ns_J - arrival_ns_J).sum()
