"""braid-online: ahead of gangs in order of arrival, and no ring is put off for ever."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.core.journal_reader import History, read_history
from warren.core.loop import Core
from warren.cost.run_rings import with_rings
from warren.model.decision import Decision
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.policy.place.rings.backfilling import BackfillingMemory
from warren.policy.registry import place_policy
from warren.profile.cost_table import cost_table
from warren.sim.build import sim_port
from warren.workload.run_file import run_from_dict

sys.path.insert(0, str(Path(__file__).parents[1] / "workload"))
from workload_files import reader

pytestmark = pytest.mark.slow

S = 10**9
Seen = list[tuple[int, BackfillingMemory]]
"""The time of each decision, and the memory after it."""


def simulated(run: Run, place: str, **options: object) -> tuple[History, Seen]:
    costs, seen, journal = with_rings(run, cost_table(run)), list[tuple[int, Any]](), bytearray()
    policy = place_policy(place, options)

    class Watched:
        name, source, offline = policy.name, policy.source, policy.offline
        needs_rounds, triggers = policy.needs_rounds, policy.triggers
        initial, explain = policy.initial, policy.explain

        def decide(self, view: Any, memory: Any) -> tuple[Decision, Any]:
            decision, memory = policy.decide(view, memory)
            seen.append((view.now_ns, memory))
            return decision, memory

    core = Core(
        run=run, costs=costs, policy=Watched(), port=sim_port(run, costs), sink=journal.extend,
        world="sim", check=True,
    )  # fmt: skip
    core.execute()
    return read_history(bytes(journal)), seen


def starts_ns_J(history: History) -> Any:
    start_ns_J = np.full(len(history.finish_ns_J), np.iinfo(np.int64).max)
    np.minimum.at(start_ns_J, history.timeline.job_R, history.timeline.start_ns_R)
    return start_ns_J


def crowded(large_at: int = 20) -> Run:
    """Four devices on two hosts, more small rings than they can take, and one that needs all."""
    small = [
        {"name": f"s{at}", "model": "m", "rounds": 10, "arrival": f"{2 * at} s", "sync": "ring"}
        for at in range(150)
    ]
    large = {"name": "large", "model": "m", "scale": 4, "rounds": 10, "sync": "ring"}
    data = {
        "cluster": {
            "hosts": [{"name": "h", "count": 2, "devices": {"A": 2}}],
            "network": {"model": "contention"},
        },
        "profiles": {"m": {"model": "8 MB", "comp": {"A": "1 s"}}},
        "workload": {"jobs": [*small, large | {"arrival": f"{large_at} s"}]},
        "grain": "1 h",
    }  # fmt: skip
    return run_from_dict(data, "d", reader({}))


def test_a_large_ring_starts_among_a_stream_of_small_ones() -> None:
    run = crowded()
    large = next(job.index for job in run.workload.jobs if job.name == "large")
    never, soon = (
        starts_ns_J(simulated(run, "braid-online", patience=patience)[0]) for patience in (1e9, 2.0)
    )
    assert never[large] > 300 * S  # all others have come by then
    # It is due 20 s after it came, and the last of the small ones at work ends 10 s later.
    assert 40 * S <= soon[large] <= 51 * S
    assert np.all(soon < np.iinfo(np.int64).max)


def drawn(rng: random.Random) -> Run:
    """A crowd of rings, jobs with servers among them, on hosts of two types."""
    jobs = [
        {
            "name": f"j{at}", "model": rng.choice("mn"), "scale": rng.choice([1, 1, 2, 3, 6]),
            "rounds": rng.randint(1, 30), "arrival": f"{rng.randint(0, 60)} s",
            "sync": rng.choice(["ring", "ring", "ring", "ps"]), "weight": rng.choice([1, 5]),
        }
        for at in range(rng.randint(1, 25))
    ]  # fmt: skip
    data = {
        "cluster": {
            "hosts": [
                {"name": "a", "count": 2, "devices": {"A": 2}, "nic": "2 Gbps", "intra": "9 Gbps"},
                {"name": "b", "devices": {"B": 3}, "nic": "2 Gbps", "intra": "9 Gbps"},
            ],
            "network": rng.choice(
                [{"model": "contention", "xi1": 0.5, "xi2": "5 ms"}, {"model": "constant"}]
            ),
        },
        "profiles": {
            "m": {"model": "40 MB", "comp": {"A": "500 ms", "B": "1 s"}},
            "n": {"model": "90 MB", "comp": {"A": "1 s", "B": "700 ms"}},
        },
        "workload": {"jobs": jobs},
        "grain": "1 h",
    }
    return run_from_dict(data, "d", reader({}))


@given(st.randoms(use_true_random=False), st.sampled_from([0.0, 1.0, 3.0]))
def test_who_is_due_first_starts_when_those_at_work_have_left_enough(
    rng: random.Random, patience: float
) -> None:
    """From the first decision at which a job is due first and waits, nothing puts it off: it starts
    when enough of the devices at work then are free at the latest, whatever comes meanwhile."""
    run = drawn(rng)
    history, seen = simulated(run, "braid-online", patience=patience)
    start_ns_J, latest = starts_ns_J(history), dict[int, int]()
    for now_ns, memory in seen:
        due_ns_J = memory.estimates.due_ns_J
        waiting = sorted((int(due_ns_J[job]), job) for _, job in memory.waiting)
        if not waiting or waiting[0][0] > now_ns:
            continue
        job, free = waiting[0][1], [now_ns] * len(run.cluster.devices)
        for other, held in memory.holdings.by_job.items():
            for device in held.devices:
                free[device] = memory.until_ns[other]
        need = int(memory.estimates.problem.size_J[job])
        latest.setdefault(job, sorted(free)[need - 1])
    for job, until_ns in latest.items():
        assert start_ns_J[job] <= until_ns
    assert (history.finish_ns_J > 0).all()


@given(st.randoms(use_true_random=False))
def test_no_job_ends_later_than_it_may_at_most(rng: random.Random) -> None:
    history, seen = simulated(drawn(rng), "braid-online")
    for _, memory in seen:
        for job, until_ns in memory.until_ns.items():
            assert history.finish_ns_J[job] <= until_ns


@pytest.mark.parametrize("seed", [1, 2])
def test_rings_that_come_over_time_have_less_jct_than_in_order_of_arrival(seed: int) -> None:
    data = {
        "cluster": {
            "hosts": {"generate": "sjf-bco", "servers": 10, "seed": seed},
            "network": {"model": "contention", "xi1": 0.2, "xi2": "15 us", "alpha": 0.2},
        },
        "workload": {"generate": "sjf-bco", "jobs": 160, "load": 1.0},
        "seed": seed,
        "grain": "1 h",
    }
    run = run_from_dict(data, "d", reader({}))
    ours = simulated(run, "braid-online")[0].finish_ns_J
    for place in ("fifo", "gavel-fifo"):
        other = simulated(run, place)[0].finish_ns_J
        assert ours.mean() < other.mean()
        assert ours.max() <= other.max()


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_a_wrong_patience_is_refused(patience: float) -> None:
    with pytest.raises(SpecError, match="patience is a number, 0 or more"):
        place_policy("braid-online", {"patience": patience})


def test_sentences_say_what_a_job_waits_for() -> None:
    run = crowded(large_at=0)
    costs = with_rings(run, cost_table(run))
    told = set()

    policy = place_policy("braid-online")

    class Told:
        name, source, offline = policy.name, policy.source, policy.offline
        needs_rounds, triggers = policy.needs_rounds, policy.triggers
        initial = policy.initial

        def decide(self, view: Any, memory: Any) -> tuple[Decision, Any]:
            decision, memory = policy.decide(view, memory)
            told.update(policy.explain(view, memory, job)[:12] for job in range(4))
            return decision, memory

        explain = policy.explain

    Core(
        run=run, costs=costs, policy=Told(), port=sim_port(run, costs), sink=bytearray().extend,
        world="sim",
    ).execute()  # fmt: skip
    assert told == {"runs as a ga", "has not arri", "needs 4 devi", "needs 1 devi"}
