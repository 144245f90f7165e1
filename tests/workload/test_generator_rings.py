"""Generated rings and servers of SJF-BCO's simulations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from workload_files import reader

from warren.cost.ring import most_round_s_J
from warren.cost.run_rings import devices_S, ring_exchanges, ring_network
from warren.model.errors import SpecError
from warren.model.run import Run
from warren.profile.cost_table import cost_table
from warren.workload.run_file import load_cluster, load_run, run_from_dict
from warren.workload.specs.write import dump_run

MIX = Path(__file__).parents[2] / "experiments" / "sjf-bco" / "mix.yaml"


def rings(seed: int = 1, hosts: object = None, **options: object) -> Run:
    data = {
        "cluster": {"hosts": hosts or {"generate": "sjf-bco"}},
        "workload": {"generate": "sjf-bco", "jobs": 160, **options},
        "seed": seed,
    }
    return run_from_dict(data, "d", reader({}))


def test_the_mix_is_the_papers_and_all_rings_are_there_at_once() -> None:
    jobs = rings().workload.jobs
    assert Counter(job.scale for job in jobs) == {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
    assert {(job.sync, job.arrival_ns) for job in jobs} == {("ring", 0)}
    half = Counter(job.scale for job in rings(jobs=80).workload.jobs)
    assert half == {1: 40, 2: 7, 4: 13, 8: 15, 16: 4, 32: 1}


def test_rounds_and_their_times_are_in_the_papers_ranges() -> None:
    for seed in range(5):
        run = rings(seed, jobs=1000)
        costs = cost_table(run)
        rounds_J = np.array([job.rounds for job in run.workload.jobs])
        round_s_J = (costs.comp_ns_JT + costs.sync_ns_JT)[:, 0] / 1e9
        assert rounds_J.min() >= 1000
        assert rounds_J.max() <= 6000
        assert round_s_J.min() >= 0.01 - 1e-9
        assert round_s_J.max() <= 0.05
        assert (rounds_J * round_s_J).min() >= 50 - 1e-3
        assert (rounds_J * round_s_J).max() <= 300
        assert (rounds_J * round_s_J).max() > 280


def test_contention_and_overhead_are_at_most_15_percent_of_the_time_as_in_the_paper() -> None:
    """The upper end of the range of (8), with 32 rings on a link and every worker on a server."""
    run = load_run(str(MIX), lambda path: Path(path).read_bytes())
    costs = cost_table(run)
    exchanges = ring_exchanges(run.workload.jobs, costs)
    server_gpus = int(devices_S(run.cluster).max())
    assert server_gpus == 32
    exchange_s_J = most_round_s_J(ring_network(run.cluster), exchanges, server_gpus)
    round_s_J = costs.comp_ns_JT[:, 0] / 1e9 + exchange_s_J
    alone_s_J = (costs.comp_ns_JT + costs.sync_ns_JT)[:, 0] / 1e9
    assert 0.10 < ((round_s_J - alone_s_J) / round_s_J).max() <= 0.15


def test_gradients_take_their_part_of_a_round_on_the_slowest_nic() -> None:
    run = rings(exchange=0.1)
    costs = cost_table(run)
    sent_s_J = ring_exchanges(run.workload.jobs, costs).sent_bytes_J / (10e9 / 8)
    alone_s_J = (costs.comp_ns_JT + costs.sync_ns_JT)[:, 0] / 1e9
    many_J = np.array([job.scale > 1 for job in run.workload.jobs])
    assert sent_s_J[many_J] == pytest.approx(0.1 * alone_s_J[many_J], rel=1e-4)
    assert not sent_s_J[~many_J].any()


def test_with_a_load_rings_arrive_over_a_window() -> None:
    run = rings(load=2)
    costs = cost_table(run)
    devices = len(run.cluster.devices)
    work_s = sum(
        job.scale * (job.rounds or 0) * costs.comp_ns_JT[job.index, 0] / 1e9
        for job in run.workload.jobs
    )
    latest_s = run.workload.jobs[-1].arrival_ns / 1e9
    assert 0.9 * work_s / devices / 2 < latest_s <= 1.02 * work_s / devices / 2


def test_servers_have_4_to_32_gpus_and_fewer_servers_are_the_first_of_more() -> None:
    def held(servers: int, seed: int) -> list[int]:
        text = f"hosts: {{generate: sjf-bco, servers: {servers}, seed: {seed}}}"
        cluster = load_cluster("c.yaml", reader({"c.yaml": text}))
        assert {host.nic_bps for host in cluster.hosts} == {10e9}
        assert {host.intra_bps for host in cluster.hosts} == {100e9}
        found: list[int] = devices_S(cluster).tolist()
        return found

    many = held(400, 1)
    assert min(Counter(many).values()) > 70
    assert set(many) == {4, 8, 16, 32}
    assert held(10, 1) == held(20, 1)[:10] == many[:10]
    assert held(20, 2) != held(20, 1)


def test_a_run_written_out_is_the_same_run() -> None:
    run = rings()
    again = load_run("r.yaml", reader({"r.yaml": dump_run(run)}))
    assert again.workload.jobs == run.workload.jobs
    assert np.array_equal(cost_table(again).comp_ns_JT, cost_table(run).comp_ns_JT)


@pytest.mark.parametrize(
    ("hosts", "options", "line"),
    [
        ({"generate": "sjf-bco", "servers": 0}, {}, "hosts.servers: must be at least 1, got 0"),
        ({"generate": "sjf-bco", "devices": 9}, {}, "hosts.devices: unknown field; allowed: gen"),
        (None, {"exchange": 1}, "workload.exchange: must be less than 1.0, got 1"),
    ],
)
def test_a_wrong_option_says_what_is_allowed(
    hosts: object, options: dict[str, object], line: str
) -> None:
    with pytest.raises(SpecError) as error:
        rings(1, hosts, **options)
    assert line in str(error.value)
