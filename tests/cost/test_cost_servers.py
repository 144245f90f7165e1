"""Pushes of parameter servers at their best: what stands for T^s where bytes are on links."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from warren.cost.max_min import FluidNetwork
from warren.cost.run_servers import push_s, with_servers
from warren.profile.cost_table import cost_table
from warren.runs.compose import LIVE, SIMULATED, PreparedRun
from warren.workload.run_file import run_from_dict

NETWORK = FluidNetwork(
    nic_bytes_per_s_S=np.array([4.0, 1.0, 2.0]), inner_bytes_per_s_S=np.array([inf, 8.0, inf])
)


@pytest.mark.parametrize(
    ("host", "parts", "expected_s"),
    [
        (0, ((1, 6.0),), 6),  # the server's link
        (1, ((0, 6.0), (2, 6.0)), 12),  # the device's, which carries both
        (0, ((1, 6.0), (1, 6.0), (2, 6.0)), 12),  # two servers of one host
        (1, ((1, 8.0), (0, 2.0)), 2),  # one beside the device: 1 s within the host
        (1, ((1, 32.0), (0, 2.0)), 4),
        (0, ((0, 5.0),), 0),
    ],
)
def test_a_push_alone_takes_what_its_busiest_link_carries(
    host: int, parts: tuple[tuple[int, float], ...], expected_s: float
) -> None:
    assert push_s(NETWORK, host, parts) == expected_s
    sends = any(target != host for target, _ in parts)
    waits_s = push_s(NETWORK, host, parts, latency_s=3.0)
    assert waits_s == max(expected_s, 3 + push_s(NETWORK, host, [p for p in parts if p[0] != host])
                          if sends else 0)  # fmt: skip


def two_jobs(**scheduler: object) -> PreparedRun:
    """One server each, on the first and second of two hosts; a type on each host."""
    data = {
        "cluster": {
            "hosts": [
                {"name": "a", "devices": {"V100": 1}, "nic": "80 Mbit"},
                {"name": "b", "devices": {"K80": 1}, "nic": "8 Mbit"},
            ],
            "network": {"model": "fluid", "latency": "1 s"},
            "emulate": {"time_scale": 1},
            "local": {"testbed": "bed"},
        },
        "workload": [{"name": f"j{at}", "model": "m", "rounds": 1} for at in range(2)],
        "profiles": {"m": {"model": "2 MB", "comp": {"V100": "1 s", "K80": "1 s"}}},
        "scheduler": {"place": "srtf", **scheduler},
    }
    return PreparedRun(run=run_from_dict(data, "d", lambda path: b""))


def test_t_s_is_a_push_from_the_best_host_of_a_type_in_both_worlds() -> None:
    """2 MB over 1 MB/s, behind a second of latency; nothing beside the server."""
    for world in (SIMULATED, LIVE):
        sync_s_JT = replace(two_jobs(), world=world).costs.sync_ns_JT / 1e9
        assert sync_s_JT == pytest.approx(np.array([[0, 3], [3, 0]]), abs=3e-9)
        assert sync_s_JT.max() <= 3


def test_where_a_policy_may_place_servers_no_push_is_sure() -> None:
    assert not two_jobs(shape="fixed").costs.sync_ns_JT.any()


def test_on_other_networks_t_s_is_that_of_the_profile() -> None:
    run = two_jobs().run
    other = replace(
        run, cluster=replace(run.cluster, network=replace(run.cluster.network, model="lane"))
    )
    assert (
        with_servers(other, cost_table(other)).sync_ns_JT.tolist()
        == cost_table(other).sync_ns_JT.tolist()
    )
