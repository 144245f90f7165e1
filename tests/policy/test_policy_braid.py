"""braid: ahead of SJF-BCO in both readings, of the same problem, on all kinds of jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_policy_rings import rings, simulated

from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.policy.registry import place_policy
from warren.profile.cost_table import cost_table
from warren.sim.build import sim_port
from warren.workload.run_file import run_from_dict

sys.path.insert(0, str(Path(__file__).parents[1] / "workload"))
from workload_files import reader


def makespan_ns(run: Run, place: str, **options: object) -> int:
    return int(simulated(run, place, dict(options))[0].finish_ns_J.max())


def paper(seed: int) -> Run:
    """A cell of the paper's Fig. 6."""
    data = {
        "cluster": {
            "hosts": {"generate": "sjf-bco", "servers": 12, "seed": seed},
            "network": {"model": "contention", "xi1": 0.2, "xi2": "15 us", "alpha": 0.2},
        },
        "workload": {"generate": "sjf-bco", "jobs": 160},
        "seed": seed,
    }
    return run_from_dict(data, "d", reader({}))


@pytest.mark.parametrize("seed", [1, 4])
def test_the_last_ring_ends_a_tenth_sooner_than_by_both_readings_of_sjf_bco(seed: int) -> None:
    run = paper(seed)
    ours = makespan_ns(run, "braid")
    for packing in ("least-busy", "used-servers"):
        assert ours < 0.9 * makespan_ns(run, "sjf-bco", packing=packing)


def test_each_objective_is_better_at_its_own() -> None:
    run = rings(2, jobs=60)
    first, second = (
        simulated(run, "braid", {"objective": objective, "budget": 60_000})[0].finish_ns_J
        for objective in ("makespan", "weighted-jct")
    )
    assert first.max() < second.max()
    assert first.mean() > second.mean()


def mixed(model: str, *, servers: bool) -> Run:
    """Rings, with jobs of parameter servers if asked for; some do not fit one of the two types."""
    jobs = [
        {"name": f"j{at}", "model": f"m{at % 3}", "scale": 1 + at % 4, "rounds": 3 + at,
         "sync": "ps" if servers and at % 5 == 0 else "ring", "arrival": f"{at % 3} s"}
        for at in range(20)
    ]  # fmt: skip
    data = {
        "cluster": {
            "hosts": [
                {"name": "a", "count": 2, "devices": {"A": 3}, "nic": "1 Gbps", "intra": "9 Gbps"},
                {"name": "b", "count": 2, "devices": {"B": 2}, "nic": "1 Gbps", "intra": "9 Gbps"},
            ],
            "network": {"model": model},
        },
        "profiles": {
            "m0": {"model": "40 MB", "comp": {"A": "1 s", "B": "3 s"}, "sync": {"A": "0.2 s"}},
            "m1": {"model": "10 MB", "comp": {"A": "2 s", "B": "1 s"}, "sync": {"B": "0.1 s"}},
            "m2": {"model": "5 MB", "comp": {"A": "1 s"}},
        },
        "workload": {"jobs": jobs},
    }
    return run_from_dict(data, "d", reader({}))


@pytest.mark.parametrize("model", ["constant", "lane", "contention"])
def test_rings_on_two_types_end_when_the_plan_says(model: str) -> None:
    run = mixed(model, servers=False)
    history, memory, _ = simulated(run, "braid", {"budget": 10_000})
    assert history.finish_ns_J.tolist() == memory.end_ns_J.tolist()


@pytest.mark.parametrize("model", ["constant", "lane", "contention"])
def test_jobs_with_servers_run_among_rings(model: str) -> None:
    """They may end sooner than planned: their last exchange holds no device."""
    run = mixed(model, servers=True)
    history = simulated(run, "braid", {"budget": 10_000})[0]
    assert (history.finish_ns_J > 0).all()
    assert history.finish_ns_J.max() <= makespan_ns(run, "sjf-bco")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"objective": "mean"}, "objective is one of makespan, weighted-jct"),
        ({"budget": -1}, "budget is a whole number, 0 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], line: str) -> None:
    with pytest.raises(SpecError, match=line):
        place_policy("braid", options)


def test_the_sentence_says_when_the_plan_ends_a_job() -> None:
    run = rings(1, jobs=3)
    costs = with_rings(run, cost_table(run))
    core = Core(
        run=run, costs=costs, policy=place_policy("braid"), port=sim_port(run, costs),
        sink=bytearray().extend, world="sim",
    )  # fmt: skip
    core.execute()
    assert " rounds are done; the plan ends it at " in core.explain(0)
