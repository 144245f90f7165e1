"""Policies of groups on hosts of unequal speed, and on links that jobs share without turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_policy_groups import (
    HOSTS,
    described,
    drawn_jobs,
    group_round_s,
    model,
    recorded,
    simulated,
    together,
)

from warren.model.decision import Group
from warren.model.errors import SpecError
from warren.policy.joint.group_rounds import grouping_problem, host_codes_H
from warren.policy.joint.host_groups import with_hosts
from warren.policy.registry import JOINT_POLICIES, policy_of
from warren.solve.flows.queued_steps import Sends, iteration_s
from warren.solve.job_groups.regrouping import RunningGroups, utilization_of
from warren.solve.job_groups.worth import weighed_speed


def unequal(
    jobs: list[dict[str, Any]], scheduler: dict[str, str], fast: int, slow: int
) -> dict[str, Any]:
    """A run of these jobs on fast hosts and on slow ones, which take four times as long a task."""
    run = described(jobs, scheduler, hosts=fast + slow)
    for one in run["profiles"].values():
        one["comp"]["B"] = f"{4 * float(one['comp']['A'].split()[0]):.3f} ms"
        one["sync"]["B"] = "1 ms"
    for host in run["cluster"]["hosts"][fast:]:
        host["devices"] = {"B": 1}
    return run


def test_on_two_fast_and_three_slow_hosts_harmony_is_ahead_of_srtf_with_cruise(
    tmp_path: Path,
) -> None:
    jobs = drawn_jobs(702, 4, rounds=8)
    grouped, alone = (
        simulated(tmp_path / name, unequal(jobs, scheduler, 2, 3))
        for name, scheduler in (
            ("a", {"joint": "harmony", "flow": "turns"}),
            ("b", {"place": "srtf", "shape": "cruise"}),
        )
    )
    assert grouped.finish_ns_J.mean() <= alone.finish_ns_J.mean()
    assert grouped.finish_ns_J.max() <= alone.finish_ns_J.max()


@pytest.mark.parametrize("policy", sorted(JOINT_POLICIES))
def test_jobs_end_on_hosts_of_unequal_speed_under_every_joint_policy(
    tmp_path: Path, policy: str
) -> None:
    jobs = drawn_jobs(3, 4, rounds=5)
    jobs[3]["arrival"] = "4 s"
    simulated(tmp_path, unequal(jobs, {"joint": policy}, 1, 2))


def test_a_job_alone_takes_on_unequal_hosts_what_its_group_is_chosen_by(tmp_path: Path) -> None:
    jobs = [{"name": "a", "scale": 8, "rounds": 12, "comp_s": 0.3, "bytes": 500_000}]
    run = unequal(jobs, {"place": "naive", "shape": "all"}, 1, 2)
    record = recorded(tmp_path, run)
    problem = grouping_problem(record.run.cluster, record.costs, record.run.workload.jobs)
    code = int(host_codes_H(record.run.cluster).sum())
    assert code == problem.all_machines
    # Six tasks on the fast host and one on each slow one: 6 x 0.3 s, and the links.
    assert problem.comp_s_J(code)[0] == pytest.approx(1.8)
    expected_s = float(problem.alone_s_J(code)[0])
    assert expected_s > 1.8
    assert group_round_s(record.history, 1) == pytest.approx(expected_s, rel=0.03)


def test_hosts_of_more_kinds_than_a_code_can_have_count_as_alike(tmp_path: Path) -> None:
    jobs = drawn_jobs(3, 2, rounds=2)
    run = described(jobs, {"joint": "harmony"}, hosts=64)
    for at, host in enumerate(run["cluster"]["hosts"]):
        host["nic"] = f"{40 + at} Mbps"
    record = recorded(tmp_path, run)
    assert host_codes_H(record.run.cluster).tolist() == [1] * 64
    assert (
        grouping_problem(record.run.cluster, record.costs, record.run.workload.jobs).kinds is None
    )


def test_groups_have_as_many_hosts_of_each_kind_as_was_decided() -> None:
    """Kinds have the codes 1 and 3: the first group has two hosts of one and one of the other."""
    code_H = np.array([1, 3, 1, 3])
    found = RunningGroups(group_J=np.array([0, 1]), machine_G=np.array([2 + 3, 3]))
    before = (Group((1,), (1,)),)
    after = with_hosts(before, found, [0, 1], {0: 5, 1: 5}, code_H)
    assert after == (Group((0,), (0, 2, 3)), Group((1,), (1,)))


def steps_s(jobs: list[dict[str, Any]], sends: Sends) -> tuple[float, float]:
    """An iteration by (4.1), and one whose pulls and pushes are steps of their own."""
    problem = model(jobs, HOSTS)
    comp_J, comm_J = problem.comp_machine_s_J / HOSTS, problem.comm_s_J(HOSTS)
    alone_J, pull_J = problem.alone_s_J(HOSTS), problem.pull_s_J(HOSTS)
    by_4_1 = max(comp_J.sum(), comm_J.sum(), float(alone_J.max()))
    due_J = alone_J - comm_J
    return by_4_1, iteration_s(pull_J, comp_J, due_J, comm_J - pull_J, sends)


@pytest.mark.parametrize("seed", [1002, 6002])
def test_with_turns_a_push_and_the_next_pull_keep_one_turn_and_without_share_links(
    tmp_path: Path, seed: int
) -> None:
    """Two jobs with a task on each host: a group that would take 15 % more if pulls and pushes
    queued apart. With turns it takes what (4.1) says."""
    jobs = drawn_jobs(seed, 2, scale=HOSTS, rounds=25)
    for one in jobs:
        one["comp_s"] *= 2
    by_4_1, apart_s = steps_s(jobs, "apart")
    assert apart_s > 1.14 * by_4_1
    in_turns = simulated(tmp_path / "a", together(jobs, "turns"))
    assert group_round_s(in_turns, 2) == pytest.approx(by_4_1, rel=0.02)
    shared = simulated(tmp_path / "b", together(jobs, "fair"))
    by_4_1, shared_s = steps_s(jobs, "shared")
    assert group_round_s(shared, 2) == pytest.approx(shared_s, rel=0.02)
    assert shared_s > 1.3 * by_4_1


@pytest.mark.parametrize("sends", ["apart", "shared"])
def test_a_group_is_worth_less_where_its_jobs_do_not_send_in_turns(sends: Sends) -> None:
    jobs = drawn_jobs(1002, 2, scale=HOSTS)
    for one in jobs:
        one["comp_s"] *= 2
    by_4_1, longer_s = steps_s(jobs, sends)
    weighed = weighed_speed(model(jobs, HOSTS), np.full(2, 9.0), np.ones(2))
    in_turns, other = (
        utilization_of(one, RunningGroups(group_J=np.zeros(2, int), machine_G=np.array([HOSTS])))
        for one in (weighed, replace(weighed, sends=sends))
    )
    assert in_turns / other == pytest.approx(longer_s / by_4_1, rel=1e-6)
    with pytest.raises(SpecError, match="sends is 'x'; allowed: turns, apart, shared"):
        policy_of("joint", "harmony", {"sends": "x"})
