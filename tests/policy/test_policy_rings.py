"""Policies that plan rings: what they plan is what a simulation does, and may do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warren.core.journal_reader import History, read_history
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

pytestmark = pytest.mark.slow

PLACES: list[tuple[str, dict[str, object]]] = [
    ("sjf-bco", {}),
    ("sjf-bco", {"packing": "used-servers", "room": 2.0}),
    ("first-fit", {}),
    ("list-scheduling", {}),
    ("random", {}),
    ("braid", {"budget": 4000}),
    ("braid", {"budget": 4000, "objective": "weighted-jct"}),
]


def rings(run_seed: int, model: str = "contention", jobs: int = 40, **options: object) -> Run:
    network = {"model": model}
    if model == "contention":
        network |= {"xi1": 0.5, "xi2": "1 ms", "alpha": 0.3}  # type: ignore[dict-item]
    data = {
        "cluster": {
            "hosts": {"generate": "sjf-bco", "servers": 5, "seed": 3},
            "network": network,
        },
        "workload": {"generate": "sjf-bco", "jobs": jobs, "exchange": 0.2, **options},
        "seed": run_seed,
    }
    return run_from_dict(data, "d", reader({}))


def simulated(run: Run, place: str, options: dict[str, object]) -> tuple[History, Any, bytes]:
    costs, kept, journal = with_rings(run, cost_table(run)), [], bytearray()
    policy = place_policy(place, options)

    class Kept:
        name, source, offline = policy.name, policy.source, policy.offline
        needs_rounds, triggers = policy.needs_rounds, policy.triggers
        initial, explain = policy.initial, policy.explain

        def decide(self, view: Any, memory: Any) -> Any:
            kept.append(policy.decide(view, memory))
            return kept[-1]

    core = Core(
        run=run, costs=costs, policy=Kept(), port=sim_port(run, costs), sink=journal.extend,
        world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return read_history(bytes(journal)), kept[0][1], bytes(journal)


@pytest.mark.parametrize("model", ["contention", "constant"])
@pytest.mark.parametrize(("place", "options"), PLACES)
def test_rings_end_when_the_plan_says(place: str, options: dict[str, object], model: str) -> None:
    """Plans pass the core's checks; arrivals and both ways to price an exchange included."""
    for seed, load in ((1, None), (2, 1.0)):
        run = rings(seed, model, load=load)
        history, memory, _ = simulated(run, place, options)
        assert history.finish_ns_J.tolist() == memory.end_ns_J.tolist()


@pytest.mark.parametrize(("place", "options"), PLACES)
def test_plans_of_equal_parts_run_where_rings_share_links_as_fluids_do(
    place: str, options: dict[str, object]
) -> None:
    """Plans have each ring on a link send all of the time, so they are done by when they say."""
    for seed, load in ((1, None), (2, 1.0)):
        history, memory, _ = simulated(rings(seed, "fluid", load=load), place, options)
        assert np.all(history.finish_ns_J > 0)
        assert history.finish_ns_J.max() <= memory.end_ns_J.max() * (1 + 1e-9)


@pytest.mark.parametrize(("place", "options"), PLACES)
def test_the_same_seed_gives_the_same_journal(place: str, options: dict[str, object]) -> None:
    first, second = (simulated(rings(4), place, options)[2] for _ in range(2))
    assert first == second


def test_random_draws_by_the_runs_seed() -> None:
    first, second = (
        simulated(rings(seed, seed=1), "random", {})[0].timeline.device_R.tolist()
        for seed in (1, 2)
    )
    assert first != second


def test_packing_a_horizon_and_one_kappa_change_the_plan() -> None:
    run = rings(1)
    ways = [
        {},
        {"packing": "used-servers"},
        {"kappa": 1},
        {"kappa": 1, "room": 4.0},
        {"horizon": 9000},
    ]
    found = [simulated(run, "sjf-bco", dict(way))[1] for way in ways]
    assert found[2].kappa == found[3].kappa == 1
    assert len({one.theta for one in found}) > 2


def test_sjf_bco_tries_more_than_it_is_asked_to_with_one_kappa() -> None:
    run = rings(1)
    all_kappas = simulated(run, "sjf-bco", {})[1].end_ns_J.max()
    listed = simulated(run, "list-scheduling", {})[1].end_ns_J.max()
    drawn = simulated(run, "random", {})[1].end_ns_J.max()
    assert all_kappas < drawn
    assert listed < drawn


def test_list_scheduling_by_size_is_sjf_bco_in_which_every_ring_counts_as_small() -> None:
    for seed in (1, 2):
        run = rings(seed)
        small = simulated(run, "sjf-bco", {"kappa": 32})[1].end_ns_J
        by_size = simulated(run, "list-scheduling", {"order": "size"})[1].end_ns_J
        by_arrival = simulated(run, "list-scheduling", {})[1].end_ns_J
        assert by_size.max() == small.max()
        assert not np.array_equal(by_arrival, by_size)


def test_baselines_of_sjf_bco_refuse_an_order_that_they_do_not_have() -> None:
    for place in ("first-fit", "list-scheduling", "random"):
        with pytest.raises(SpecError, match="order is one of arrival, size"):
            place_policy(place, {"order": "length"})


def test_the_sentence_says_what_the_search_chose() -> None:
    run = rings(1, jobs=5)
    costs = with_rings(run, cost_table(run))
    core = Core(
        run=run, costs=costs, policy=place_policy("sjf-bco"), port=sim_port(run, costs),
        sink=bytearray().extend, world="sim",
    )  # fmt: skip
    core.execute()
    assert " rounds are done; the plan (theta " in core.explain(0)
    assert " s, kappa " in core.explain(0)


@pytest.mark.parametrize("place", ["sjf-bco", "first-fit", "list-scheduling", "random", "braid"])
def test_what_cannot_be_planned_is_refused_in_one_line(place: str) -> None:
    if place != "braid":
        with pytest.raises(SpecError, match=f"{place} finds no schedule that ends within"):
            simulated(rings(1), place, {"horizon": 20})
    small: dict[str, Any] = {
        "cluster": {"hosts": [{"name": "h", "devices": {"A": 3}}]},
        "workload": {
            "jobs": [{"name": "wide", "scale": 4, "rounds": 1, "sync": "ring", "model": "m"}]
        },
        "profiles": {"m": {"model": "1 MB", "comp": {"A": "1 s"}}},
    }  # fmt: skip
    with pytest.raises(SpecError, match=r"job wide: a ring of 4 fits 3 devices"):
        simulated(run_from_dict(small, "d", reader({})), place, {})
    small["cluster"]["network"] = {"model": "contention"}
    with pytest.raises(SpecError, match=r"job wide: a ring of 4 fits 3 devices"):
        simulated(run_from_dict(small, "d", reader({})), place, {})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"packing": "tight"}, "packing is one of least-busy, used-servers"),
        ({"room": 0.5}, "room is a number, 1 or more"),
        ({"kappa": -1}, "horizon and kappa are whole numbers, 0 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], line: str) -> None:
    with pytest.raises(SpecError, match=line):
        place_policy("sjf-bco", options)


def test_an_empty_workload_has_an_empty_plan() -> None:
    run = rings(1, jobs=1)
    assert np.all(simulated(run, "sjf-bco", {})[0].finish_ns_J > 0)


def test_first_fit_gains_most_from_more_servers_as_in_the_papers_fig_6() -> None:
    def makespan_s(place: str, servers: int, seed: int) -> float:
        data = {
            "cluster": {"hosts": {"generate": "sjf-bco", "servers": servers, "seed": seed}},
            "workload": {"generate": "sjf-bco", "jobs": 160},
            "seed": seed,
        }
        return float(simulated(run_from_dict(data, "d", reader({})), place, {})[1].end_ns_J.max())

    for seed in (1, 2):
        gain = {
            place: makespan_s(place, 10, seed) / makespan_s(place, 20, seed)
            for place in ("sjf-bco", "first-fit", "list-scheduling")
        }
        assert gain["first-fit"] > max(gain["sjf-bco"], gain["list-scheduling"])
        assert min(gain.values()) > 1
