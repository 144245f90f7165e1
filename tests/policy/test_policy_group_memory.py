"""Data of jobs in the memory of the hosts that they share: the sum counts, for every policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_policy_groups import described, drawn_jobs, simulated

import warren
from warren.model.errors import SpecError
from warren.policy.joint import job_profiles
from warren.policy.registry import JOINT_POLICIES, policy_of

POLICIES = sorted(JOINT_POLICIES)


def three_jobs(policy: str, data: str, memory: str = "1 GB", **local: Any) -> dict[str, Any]:
    """Three jobs with as much data each, on three hosts with as much memory each.

    The first computes most of its time and the others send, so that all three go together well.
    """
    jobs = [
        {"name": "a", "scale": 6, "rounds": 3, "comp_s": 1.0, "bytes": 100_000},
        {"name": "b", "scale": 6, "rounds": 5, "comp_s": 0.1, "bytes": 2_400_000},
        {"name": "c", "scale": 6, "rounds": 5, "comp_s": 0.1, "bytes": 2_500_000},
    ]
    run = described(jobs, {"joint": policy}, hosts=3)
    cost = {"items": 100, "item": {"A": "1 ms"}, "model": "1 MB", "batch": 10, "data": data}
    for one in run["workload"]["jobs"]:
        one["cost"] = cost
    for host in run["cluster"]["hosts"]:
        host["memory"] = memory
    run["cluster"]["local"] |= local
    return run


def sharing(folder: Path, run: dict[str, Any]) -> int:
    """The most jobs that a group of the run had."""
    told = simulated(folder, run).groups_over_time()
    return max(len(group.jobs) for _, groups in told for group in groups)


@pytest.mark.parametrize("policy", POLICIES)
def test_three_jobs_of_2_gb_on_three_hosts_of_1_gb_are_never_together(
    tmp_path: Path, policy: str
) -> None:
    for at_ns, groups in simulated(tmp_path, three_jobs(policy, "2 GB")).groups_over_time():
        held = [(2e9 * len(group.jobs), 1e9 * len(group.hosts)) for group in groups]
        assert all(data <= memory for data, memory in held), at_ns
        assert sum(len(group.jobs) for group in groups) <= 1


@pytest.mark.parametrize("policy", ["harmony", "harmony-published"])
def test_models_take_as_much_memory_as_stated_however_slow_their_links_are_measured(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = job_profiles._stated_push_ns_H
    monkeypatch.setattr(
        job_profiles, "_stated_push_ns_H", lambda view, job: stated(view, job) / 1000
    )
    run = three_jobs(policy, "1.4 GB") | {"policy": {"costs": "measured"}}
    for at_ns, groups in simulated(tmp_path, run).groups_over_time():
        assert all(1.4 * len(group.jobs) <= len(group.hosts) for group in groups), at_ns


@pytest.mark.parametrize(
    ("data", "local", "most"),
    [("1.4 GB", {}, 2), ("0.9 GB", {}, 3), ("2 GB", {"spill": True}, 3)],
)
def test_as_many_jobs_share_hosts_as_their_memory_holds_or_all_with_data_on_disk(
    tmp_path: Path, data: str, local: dict[str, Any], most: int
) -> None:
    """Algorithm 1 puts all three together if nothing binds."""
    assert sharing(tmp_path, three_jobs("harmony-published", data, **local)) <= most
    if most == 3:
        assert sharing(tmp_path / "3", three_jobs("harmony-published", data, **local)) == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_hosts_that_data_fill_are_summed_over_the_jobs_of_a_group(
    tmp_path: Path, policy: str
) -> None:
    run = described(drawn_jobs(1, 5, rounds=4), {"joint": policy}, {"least": 2})
    for _, groups in simulated(tmp_path, run).groups_over_time():
        assert all(2 * len(group.jobs) <= len(group.hosts) for group in groups)


@pytest.mark.parametrize("policy", POLICIES)
def test_data_that_no_group_can_hold_are_refused_with_the_bytes_that_there_are(
    tmp_path: Path, policy: str
) -> None:
    # The models, 5 MB, leave 995 MB a host.
    message = "'a', 3000000000 bytes, in memory; 3 hosts hold 2985000000 bytes beside the models"
    with pytest.raises(SpecError, match=message):
        warren.simulate(three_jobs(policy, "3 GB"), out=tmp_path / "a")
    warren.simulate(three_jobs(policy, "3 GB", spill=True), out=tmp_path / "b")


def test_harmony_published_refuses_no_host_as_the_least() -> None:
    with pytest.raises(SpecError, match="least is 0; allowed: 1 and more"):
        policy_of("joint", "harmony-published", {"least": 0})
