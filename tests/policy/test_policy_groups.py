"""Policies of job groups over simulated rounds on links: who shares hosts, and what rounds take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import warren
from warren.core.journal_reader import History
from warren.model.decision import Group
from warren.model.errors import SpecError
from warren.model.events import RoundsDone
from warren.model.view import View
from warren.policy.joint.host_groups import HostGroups, with_hosts
from warren.policy.registry import JOINT_POLICIES, policy_of
from warren.report.checks.check import check
from warren.runs.results import Record, load_record
from warren.solve.job_groups.problem import (
    NOT_RUN,
    JobGrouping,
    JobGroupingProblem,
    RoundTerms,
)
from warren.solve.job_groups.published import INTENSITIES, published_grouping
from warren.solve.job_groups.regrouping import EndedMember, RunningGroups, without_job

NIC_BYTES = 5e6
HOSTS = 4


def drawn_jobs(seed: int, count: int, scale: int = 8, rounds: int = 30) -> list[dict[str, Any]]:
    """Jobs whose COMP and COMM on four hosts take about equally long, some more of either."""
    random = np.random.default_rng(seed)
    comp_s = np.exp(random.normal(-1, 0.6, count))
    model = 2e6 * np.exp(random.normal(0, 0.6, count))
    return [
        {
            "name": f"j{at}",
            "scale": scale,
            "rounds": rounds,
            "comp_s": float(comp_s[at]),
            "bytes": int(model[at]),
        }
        for at in range(count)
    ]


def described(
    jobs: list[dict[str, Any]],
    scheduler: dict[str, str],
    options: dict[str, Any] | None = None,
    hosts: int = HOSTS,
) -> dict[str, Any]:
    """A run of these jobs on hosts with one device and a link of 40 Mbit each."""
    rows = {
        one["name"]: {
            "model": f"{one['bytes']} B",
            "comp": {"A": f"{1000 * one['comp_s']:.3f} ms"},
            "sync": {"A": "1 ms"},
            "step": f"{one.get('step_s', 0.0):.6f} s",
        }
        for one in jobs
    }
    listed = [
        {
            "name": one["name"],
            "model": one["name"],
            **{key: one[key] for key in ("scale", "rounds", "arrival", "sync") if key in one},
        }
        for one in jobs
    ]
    return {
        "format": 1, "name": "groups", "seed": 1, "profiles": rows,
        "workload": {"jobs": listed}, "scheduler": scheduler, "policy": options or {},
        "cluster": {
            "format": 1, "network": {"model": "fluid"}, "local": {"look_ahead": 32},
            "hosts": [
                {"name": f"h{at}", "devices": {"A": 1}, "nic": "40 Mbps"} for at in range(hosts)
            ],
        },
    }  # fmt: skip


def recorded(folder: Path, run: dict[str, Any]) -> Record:
    result = warren.simulate(run, out=folder)
    assert result.folder is not None
    files = {path.name: path.read_bytes() for path in result.folder.iterdir()}
    assert check(files) == []
    return load_record("groups", files)


def simulated(folder: Path, run: dict[str, Any]) -> History:
    history = recorded(folder, run).history
    assert (history.finish_ns_J > 0).all()
    return history


def model(jobs: list[dict[str, Any]], hosts: int) -> JobGroupingProblem:
    task_s = np.array([one["comp_s"] for one in jobs])
    scale = np.array([one["scale"] for one in jobs], dtype=float)
    state_s = np.array([one["bytes"] for one in jobs]) / NIC_BYTES
    return JobGroupingProblem(
        comp_machine_s_J=task_s * scale,
        net_s_J=np.zeros(len(jobs)),
        machines=hosts,
        rounds=RoundTerms(
            pull_s_J=state_s, push_s_J=state_s * scale, task_s_J=task_s,
            step_s_J=np.array([one.get("step_s", 0.0) for one in jobs]),
        ),
    )  # fmt: skip


def group_round_s(history: History, jobs: int) -> float:
    """The longest mean round of all jobs while all of them are there; the first rounds left out."""
    end_s = history.finish_ns_J.min() / 1e9
    found = []
    for job in range(jobs):
        ends = [one.barrier_ns / 1e9 for one in history.rounds if one.job == job]
        inside = [end for end in ends if end <= end_s][4:]
        found.append(float(np.mean(np.diff(inside))))
    return max(found)


def together(jobs: list[dict[str, Any]], flow: str) -> dict[str, Any]:
    """All jobs on all hosts, which take turns on each host's one device."""
    hosts = [f"h{at}" for at in range(HOSTS)]
    groups = [{"jobs": [one["name"] for one in jobs], "hosts": hosts}]
    scheduler = {"place": "naive", "group": "fixed", "shape": "all", "flow": flow}
    return described(jobs, scheduler, {"group": {"groups": groups}})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_where_jobs_send_in_turns_a_group_takes_what_eq_4_1_says(
    tmp_path: Path, seed: int, count: int
) -> None:
    jobs = drawn_jobs(seed, count)
    problem = model(jobs, HOSTS)
    comp_s = problem.comp_machine_s_J.sum() / HOSTS
    expected_s = max(comp_s, problem.comm_s_J(HOSTS).sum(), float(problem.alone_s_J(HOSTS).max()))
    took_s = group_round_s(simulated(tmp_path, together(jobs, "turns")), count)
    assert took_s == pytest.approx(expected_s, rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_servers_counts_as_comm_of_its_job(tmp_path: Path, seed: int) -> None:
    jobs = drawn_jobs(seed, 1)
    jobs[0]["step_s"] = 1.5
    run = together(jobs, "turns")
    expected_s = float(model(jobs, HOSTS).alone_s_J(HOSTS).max())
    assert group_round_s(simulated(tmp_path, run), 1) == pytest.approx(expected_s, rel=0.02)
    # The folder has it, too: what is told of the run later counts with it.
    costs = load_record("groups", {one.name: one.read_bytes() for one in tmp_path.iterdir()}).costs
    assert costs.step_ns_J is not None
    assert costs.step_ns_J.tolist() == [1_500_000_000]


@pytest.mark.parametrize("shape", ["all", "cruise", "optimus"])
def test_servers_and_workers_of_a_job_in_a_group_are_on_hosts_of_the_group(
    tmp_path: Path, shape: str
) -> None:
    """Groups are answered at the instant at which shapes are: when the jobs arrive."""
    jobs = drawn_jobs(2, 3)
    jobs[2]["arrival"] = "7 s"
    stated = [
        {"jobs": ["j0", "j2"], "hosts": ["h2", "h3"]},
        {"jobs": ["j1"], "hosts": ["h0", "h1"]},
    ]
    scheduler = {"place": "srtf", "group": "fixed", "shape": shape}
    history = simulated(tmp_path, described(jobs, scheduler, {"group": {"groups": stated}}))
    line = history.timeline
    for job, hosts in enumerate(({2, 3}, {0, 1}, {2, 3})):
        told = [one for _, one in history.shapes_of(job)]
        assert told
        for one in told:
            assert set(one.servers) <= hosts
            assert set(one.workers or hosts) <= hosts
        assert set(line.device_R[line.job_R == job].tolist()) <= hosts
        if shape == "all":
            assert [set(one.servers) for one in told] == [hosts]


def test_a_job_whose_group_has_one_host_needs_no_shape_to_be_measured(tmp_path: Path) -> None:
    stated = [{"jobs": ["j0"], "hosts": ["h1"]}]
    scheduler = {"place": "srtf", "group": "fixed", "shape": "optimus"}
    run = described(drawn_jobs(2, 1), scheduler, {"group": {"groups": stated}})
    history = simulated(tmp_path, run)
    assert set(history.timeline.device_R.tolist()) == {1}
    assert history.shapes_of(0) == []


def test_where_they_share_links_alike_some_groups_take_longer(tmp_path: Path) -> None:
    longer = []
    for seed in range(4):
        jobs = drawn_jobs(seed, 3)
        each = [
            group_round_s(simulated(tmp_path / f"{flow}{seed}", together(jobs, flow)), 3)
            for flow in ("fair", "turns")
        ]
        longer.append(each[0] / each[1])
    assert max(longer) > 1.1
    assert min(longer) > 0.98


@pytest.mark.parametrize(
    ("policy", "follows"), [("harmony", True), ("harmony-published", False), ("isolated", False)]
)
def test_harmony_groups_again_where_a_job_takes_other_times_than_was_thought(
    tmp_path: Path, policy: str, follows: bool
) -> None:
    run = described(drawn_jobs(0, 8), {"joint": policy, "flow": "turns"})
    run["truth"] = {"job_cv": 1.0, "seed": 0}
    history = simulated(tmp_path, run)
    due = {0, *history.finish_ns_J.tolist()}
    assert any(at_ns not in due for at_ns, _ in history.groups_over_time()) == follows


@pytest.mark.parametrize("policy", sorted(JOINT_POLICIES))
def test_every_job_ends_on_hosts_of_its_group_and_decisions_repeat(
    tmp_path: Path, policy: str
) -> None:
    jobs = drawn_jobs(5, 6, rounds=8)
    for at, one in enumerate(jobs):
        one["arrival"] = f"{3 * at} s"
    run = described(jobs, {"joint": policy})
    first, again = (simulated(tmp_path / name, run) for name in ("a", "b"))
    assert np.array_equal(first.finish_ns_J, again.finish_ns_J)
    line, told = first.timeline, first.groups_over_time()
    for row in range(len(line.job_R)):
        # A task is assigned at the barrier before its round, or when the job comes or is let in.
        job, before = int(line.job_R[row]), int(line.round_R[row]) - 1
        begun_ns = max(
            (one.barrier_ns for one in first.rounds if (one.job, one.round) == (job, before)),
            default=0,
        )
        since = [
            group.hosts
            for at_ns, groups in told
            for group in groups
            if job in group.jobs and begun_ns <= at_ns <= line.start_ns_R[row]
        ]
        stood = [
            group.hosts
            for at_ns, groups in told
            for group in groups
            if job in group.jobs and at_ns <= begun_ns
        ]
        assert any(line.device_R[row] in hosts for hosts in (*stood[-1:], *since))


@pytest.mark.parametrize("policy", sorted(JOINT_POLICIES))
def test_jobs_that_come_and_end_at_one_instant_are_grouped_and_no_host_is_in_two_groups(
    tmp_path: Path, policy: str
) -> None:
    jobs = drawn_jobs(8, 4, rounds=6) + drawn_jobs(8, 4, rounds=6)
    for at, one in enumerate(jobs):
        one |= {"name": f"j{at}", "arrival": f"{7 * (at // 4)} s"}
    told = simulated(tmp_path, described(jobs, {"joint": policy})).groups_over_time()
    for _, groups in told[:-1]:
        hosts = [host for group in groups for host in group.hosts]
        assert len(hosts) == len(set(hosts))


def test_hosts_of_a_group_that_has_ended_are_there_for_jobs_that_come(tmp_path: Path) -> None:
    """The second job of four hosts ends; its host is nobody's until the third job comes."""
    jobs = [
        {"name": "a", "scale": 4, "rounds": 40, "comp_s": 1.0, "bytes": 10**5},
        {"name": "b", "scale": 4, "rounds": 4, "comp_s": 1.0, "bytes": 10**5},
        {"name": "c", "scale": 4, "rounds": 4, "comp_s": 1.0, "bytes": 10**5, "arrival": "30 s"},
    ]
    for policy in sorted(JOINT_POLICIES):
        history = simulated(tmp_path / policy, described(jobs, {"joint": policy}))
        assert history.finish_ns_J[2] < history.finish_ns_J[0]


def test_who_waits_begins_on_idle_hosts_though_that_gains_little(tmp_path: Path) -> None:
    """Thirty jobs on forty hosts, each best alone on one, and then one more like them."""
    jobs = [
        {"name": f"j{at}", "scale": 1, "rounds": 8, "comp_s": 1.0, "bytes": 10**6}
        for at in range(31)
    ]
    jobs[30]["arrival"] = "2.5 s"
    history = simulated(tmp_path, described(jobs, {"joint": "harmony"}, hosts=40))
    assert history.finish_ns_J[30] / 1e9 == pytest.approx(2.5 + 8, rel=0.02)


def test_isolated_jobs_share_no_host_and_have_as_many_as_they_need(tmp_path: Path) -> None:
    run = described(drawn_jobs(1, 5, rounds=6), {"joint": "isolated"}, {"least": 2})
    for _, groups in simulated(tmp_path, run).groups_over_time():
        hosts = [host for group in groups for host in group.hosts]
        assert len(hosts) == len(set(hosts))
        assert all(len(group.jobs) == 1 and len(group.hosts) >= 2 for group in groups)


@pytest.mark.parametrize("foreseen", [0, 8])
def test_harmony_keeps_to_the_hosts_that_a_group_needs(tmp_path: Path, foreseen: int) -> None:
    options = {"least": 3, "foreseen": foreseen}
    run = described(drawn_jobs(1, 5, rounds=6), {"joint": "harmony", "flow": "turns"}, options)
    told = simulated(tmp_path, run).groups_over_time()
    assert all(len(group.hosts) >= 3 for _, groups in told for group in groups)


def constant_model(jobs: list[dict[str, Any]]) -> JobGroupingProblem:
    """The problem with a COMM that does not depend on the hosts, as (4.2) has it."""
    problem = model(jobs, HOSTS)
    return JobGroupingProblem(
        comp_machine_s_J=problem.comp_machine_s_J,
        net_s_J=problem.comm_s_J(HOSTS),
        machines=HOSTS,
    )


def members(running: JobGrouping | RunningGroups, jobs: Sequence[int]) -> dict[Any, int]:
    """The hosts of each group of these jobs, which are given by place."""
    return {
        tuple(jobs[at] for at in np.flatnonzero(running.group_J == number)): int(machines)
        for number, machines in enumerate(running.machine_G)
    }


def told_members(told: tuple[Group, ...]) -> dict[Any, int]:
    return {group.jobs: len(group.hosts) for group in told}


def test_the_published_policy_begins_with_the_groups_of_algorithm_1_as_it_is_read(
    tmp_path: Path,
) -> None:
    jobs = drawn_jobs(9, 6, rounds=4)
    expected = {}
    for intensity in INTENSITIES:
        options = {"intensity": intensity}
        run = described(jobs, {"joint": "harmony-published"}, options)
        told = simulated(tmp_path / intensity, run).groups_over_time()
        found = published_grouping(constant_model(jobs), intensity=intensity)
        expected[intensity] = members(found, range(6))
        assert told_members(told[0][1]) == expected[intensity]
    assert expected["ratio"] != expected["difference"]


def test_when_a_job_ends_the_published_policy_takes_those_first_that_its_option_names(
    tmp_path: Path,
) -> None:
    """Three of six jobs run, and the first ends; then others, or two more beside those two."""
    jobs = drawn_jobs(34, 6, rounds=6)
    problem = constant_model(jobs)
    ended = EndedMember(
        comp_machine_s=problem.comp_machine_s_J.item(0), net_s=problem.net_s_J.item(0), group=0
    )
    before = RunningGroups(
        group_J=np.array([0, 0, NOT_RUN, NOT_RUN, NOT_RUN]), machine_G=np.array([HOSTS])
    )
    left = replace(
        problem, comp_machine_s_J=problem.comp_machine_s_J[1:], net_s_J=problem.net_s_J[1:]
    )
    for first, expected in ((True, (3, 4, 5)), (False, (1, 2, 3, 4, 5))):
        found = without_job(
            left, before, ended, lambda part, _: published_grouping(part), waiting_first=first
        )
        assert members(found, range(1, 6)) == {expected: HOSTS}
        run = described(jobs, {"joint": "harmony-published"}, {"waiting_first": first})
        told = simulated(tmp_path / str(first), run).groups_over_time()
        assert told_members(told[0][1]) == {(0, 1, 2): HOSTS}
        assert told_members(told[1][1]) == {expected: HOSTS}


def test_harmony_ends_jobs_sooner_than_isolated_where_two_fit_all_hosts(tmp_path: Path) -> None:
    """Three seeds that were not chosen by their results; the data of a job fill two of the four
    hosts, alone and in a group."""
    for seed in range(3):
        jobs = drawn_jobs(seed, 6)
        alone = simulated(
            tmp_path / f"i{seed}", described(jobs, {"joint": "isolated"}, {"least": 2})
        )
        run = described(jobs, {"joint": "harmony", "flow": "turns"}, {"least": 2})
        shared = simulated(tmp_path / f"h{seed}", run)
        assert shared.finish_ns_J.mean() * 1.05 < alone.finish_ns_J.mean()
        assert shared.finish_ns_J.max() < alone.finish_ns_J.max()


def test_groups_stay_where_their_jobs_are_and_new_ones_take_what_is_free() -> None:
    before = (Group((0, 1), (1, 3)), Group((2,), (0,)))
    found = RunningGroups(group_J=np.array([1, 1, 0, 2]), machine_G=np.array([1, 2, 1]))
    after = with_hosts(before, found, [0, 1, 2, 3], {0: 5, 1: 5, 2: 5, 3: 5}, np.ones(4, np.int64))
    assert after == (Group((2,), (0,)), Group((0, 1), (1, 3)), Group((3,), (2,)))


def test_a_group_that_grows_keeps_the_hosts_with_most_of_its_models() -> None:
    before = (Group((0,), (0,)), Group((1,), (2,)), Group((2,), (1,)))
    found = RunningGroups(group_J=np.array([0, 0, 1]), machine_G=np.array([2, 1]))
    after = with_hosts(before, found, [0, 1, 2], {0: 1, 1: 9, 2: 4}, np.ones(3, np.int64))
    assert after == (Group((0, 1), (0, 2)), Group((2,), (1,)))


@pytest.mark.parametrize(
    ("model", "hosts", "late_s"), [(10**6, (0, 1), 5.0), (10**6, (0,), None), (0, (0,), 6.0)]
)
def test_what_rounds_take_longer_is_learned_on_several_hosts_or_of_jobs_without_links(
    tmp_path: Path, model: int, hosts: tuple[int, ...], late_s: float | None
) -> None:
    """Rounds of two tasks of 1 s, on two hosts 0.2 s for links beside, and seconds more."""
    jobs = [{"name": "a", "scale": 2, "rounds": 4, "comp_s": 1.0, "bytes": model or 1}]
    record = recorded(tmp_path, described(jobs, {"joint": "harmony"}))
    costs = record.costs
    if model == 0:
        costs = replace(costs, model_bytes_J=None, sync_ns_JT=np.zeros_like(costs.sync_ns_JT))
    memory = HostGroups(groups=(Group((0,), hosts),))
    # A task, the state's other half, and the update's other half; on one host both tasks.
    round_s = (1.0 + 2 * model / 2 / NIC_BYTES if len(hosts) == 2 else 2.0) + (late_s or 6.0)
    for round_ in range(3):
        told = SimpleNamespace(
            changes=(RoundsDone(0, 0, round_, 1, False),),
            cluster=record.run.cluster,
            costs=costs,
            jobs=record.run.workload.jobs,
            round_ns_J=np.array([round(round_s * 1e9)]),
        )
        memory = memory.after(cast("View", told))
    assert memory.late_s.get(0) == (None if late_s is None else pytest.approx(late_s))


def test_what_no_group_can_have_is_refused(tmp_path: Path) -> None:
    jobs = drawn_jobs(0, 2)
    run = described(jobs, {"joint": "harmony"})
    run["cluster"]["hosts"][0]["devices"] = {"B": 1}
    with pytest.raises(SpecError, match="lets each job run on any host; 'j0' does not fit B"):
        warren.simulate(run, out=tmp_path / "b")
    coarse = {**described(jobs, {"joint": "harmony"}), "grain": "3 rounds"}
    with pytest.raises(SpecError, match=r"take turns round by round; allowed: grain: 1"):
        warren.simulate(coarse, out=tmp_path / "g")
    small = described(jobs, {"joint": "harmony"})
    small["cluster"]["hosts"][1]["memory"] = "1 MB"
    with pytest.raises(SpecError, match="may put the models of all jobs"):
        warren.simulate(small, out=tmp_path / "m")
    for policy in sorted(JOINT_POLICIES):
        ring = described([{**jobs[0], "sync": "ring"}], {"joint": policy})
        with pytest.raises(SpecError, match="ring"):
            warren.simulate(ring, out=tmp_path / "r")
    for options, message in (
        ({"threshold": 1.0}, "threshold is 1.0; allowed: 0 up to 1"),
        ({"least": 0}, "least is 0; allowed: 1 and more"),
        ({"sooner": 1.0}, "sooner is 1.0; allowed: 0 up to 1"),
        ({"foreseen": -1}, "foreseen is -1; allowed: 0 and more"),
        ({"surprise": 0.0}, "surprise is 0.0; allowed: more than 0"),
    ):
        with pytest.raises(SpecError, match=message):
            policy_of("joint", "harmony", options)
    with pytest.raises(SpecError, match="order is 'x'; allowed: arrival, shortest"):
        policy_of("joint", "isolated", {"order": "x"})
    for published, message in (
        ({"patience": 0}, "patience is 0; allowed: 1 and more"),
        ({"intensity": "x"}, "intensity is 'x'; allowed: ratio, difference"),
        ({"intensity": ["ratio"]}, r"intensity is \['ratio'\]; allowed: ratio, difference"),
        ({"waiting_first": 1}, "waiting_first: harmony-published expects true or false, got 1"),
    ):
        with pytest.raises(SpecError, match=message):
            policy_of("joint", "harmony-published", published)
