"""GPUs of hosts with agents: found, claimed and used there, with stand-ins for the GPUs."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_worlds import KIND, agents_with, cut_of, on_agents, stand_in
from live_worlds import drive, hashes, job, of, plain_hashes, world

from warren.live.control.agent_hosts import wanted_gpus
from warren.live.control.local_engine import LivePort
from warren.live.control.run_context import RunContext, refuse_servers_without_gpus
from warren.live.control.servers import Servers
from warren.live.gpu.gpu_watch import lost_gpus
from warren.live.process.agents import host_gpus
from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.host_gpus import HostGpus
from warren.live.process.agents.leased_gpus import LeasedGpus
from warren.live.process.agents.leased_processes import AWAY
from warren.live.process.agents.spec import WantedGpus
from warren.live.process.device_claims import devices_held
from warren.model.cluster import Device, Emulate
from warren.model.decision import Assignment
from warren.model.errors import EngineError, SpecError
from warren.model.events import AnyEvent, JobFailed, ParamsSaved, RolledBack, RoundsDone
from warren.model.job import Checkpoint
from warren.model.run import Run

pytestmark = pytest.mark.live

TWO = [[KIND], [KIND]]


def agent_pids(port: LivePort) -> tuple[int, ...]:
    """The process ids of the agents, by host."""
    assert isinstance(port._pool, AgentPool)
    assert port._pool._launcher is not None
    return port._pool._launcher.pids_H


def test_jobs_on_gpus_of_two_agents_have_the_bits_of_plain_though_one_is_killed_and_one_cut_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    often, calls = Checkpoint(every=2), tmp_path / "calls"
    calls.mkdir()
    short = {"calls": str(calls), "short_at": [9]}
    jobs = [
        job(0, rounds=10, params={"width": 3000, "sleep_s": 0.05}, checkpoint=often),
        job(1, rounds=20, params={"sleep_s": 0.1}, user="bob", sync="ring", checkpoint=often),
        job(2, "Short", rounds=8, params=short),
    ]
    agents_with(monkeypatch, tmp_path, [[stand_in(0)], [stand_in(1)]])
    run, costs = world(tmp_path, jobs, 2, servers=2)
    run, faults = on_agents(run, TWO), []
    rows = [
        Assignment(shard, one.index, round_no, 1, (shard,))
        for round_no in range(20)
        for one in jobs
        if round_no < (one.rounds or 0)
        for shard in range(2)
    ]

    def strike(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and event.job == 1:
            if event.round >= 3 and not faults:
                faults.append("killed")
                os.kill(agent_pids(port)[1], signal.SIGKILL)
            elif event.round >= 8 and faults == ["killed"]:
                faults.append("cut off")
                cut_of(tmp_path, 0).touch()
        if isinstance(event, RolledBack) and faults == ["killed", "cut off"]:
            cut_of(tmp_path, 0).unlink(missing_ok=True)

    with LivePort(run, costs, tmp_path / "out") as port:
        assert port._gpus == (0, 1)
        events = drive(port, rows, strike)
    assert faults == ["killed", "cut off"]
    assert not cut_of(tmp_path, 0).exists()
    assert any(AWAY in event.reason for event in of(events, RolledBack))
    # The memory of its device ran out once.
    assert (calls / "9").exists()
    assert of(events, JobFailed) == []
    assert hashes(events) == plain_hashes(tmp_path, jobs)
    assert all("stand-in" in event.numerics for event in of(events, ParamsSaved))


def devices(*kinds: str) -> tuple[Device, ...]:
    return tuple(
        Device(index=5 + at, name=f"n1/{kind}-{at}", type=kind, host="n1")
        for at, kind in enumerate(kinds)
    )


def wanted(*kinds: str, share: bool = False) -> WantedGpus:
    return WantedGpus(devices(*kinds), "/runs/mine", "", share)


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARREN_CLAIMS", str(tmp_path / "claims"))


FIRST, SECOND = stand_in(1, number=0), stand_in(1, "other", number=1)


@pytest.mark.usefixtures("claims")
def test_two_agents_of_one_machine_take_each_a_gpu_and_a_third_is_refused_with_the_holders() -> (
    None
):
    with (
        closing(HostGpus(wanted(KIND), [FIRST, SECOND])) as first,
        closing(HostGpus(wanted(KIND), [FIRST, SECOND])) as second,
    ):
        assert (first.found, second.found) == (((5, FIRST),), ((5, SECOND),))
        third = HostGpus(wanted(KIND), [FIRST, SECOND])
        assert third.found == ()
        assert third.problem.startswith(
            "its devices are 1 of type cuda, and its GPUs (each `cuda` or by its name) are "
            "1 stand-in, 1 other; GPU -1 (stand-in) cannot be claimed: run /runs/mine of "
        )
        with closing(HostGpus(wanted(KIND, share=True), [FIRST, SECOND])) as shares:
            assert (shares.found, shares.problem) == (((5, FIRST),), "")
    with closing(HostGpus(wanted("other", KIND), [FIRST, SECOND])) as again:
        assert again.found == ((5, SECOND), (6, FIRST))


@pytest.mark.usefixtures("claims")
def test_an_agent_that_lacks_gpus_keeps_no_claim() -> None:
    lacking = HostGpus(wanted("V100", KIND), [FIRST, SECOND])
    assert lacking.problem == (
        "its devices are 1 of type V100 and 1 of type cuda, and its GPUs (each `cuda` or by its "
        "name) are 1 stand-in, 1 other"
    )
    with closing(HostGpus(wanted(KIND, KIND), [FIRST, SECOND])) as others:
        assert not others.problem
    assert HostGpus(wanted(KIND), []).problem.endswith("are none")


def test_a_gpu_that_two_looks_in_a_row_do_not_find_is_lost_and_an_unknown_one_is_not_watched() -> (
    None
):
    answers = [["c"], [], ["a"], [], ["b"], ["b"], []]
    asked: list[list[str]] = []

    def look(uuids: Sequence[str]) -> Sequence[str]:
        asked.append(list(uuids))
        return answers[len(asked) - 1]

    fd = os.eventfd(0, os.EFD_NONBLOCK)
    host_gpus._watch(["a", "b", "c"], fd, look, lambda seconds: None)
    assert asked == [["a", "b", "c"], *[["a", "b"]] * 5]
    assert os.eventfd_read(fd) == 1
    os.close(fd)
    assert lost_gpus(["no-such-gpu"]) == ["no-such-gpu"]


def leased(optional: Collection[int] = ()) -> LeasedGpus:
    """Three hosts with one device each, all of one type."""
    every = [Device(index=at, name=f"n{at}/g", type=KIND, host=f"n{at}") for at in range(3)]
    return LeasedGpus(["n0", "n1", "n2"], every, optional)


def test_a_host_that_lacks_its_gpus_at_first_is_refused_with_its_name() -> None:
    gpus = leased()
    with pytest.raises(SpecError, match=r"cluster: devices: host n1: its devices are 4"):
        gpus.found(1, {}, "its devices are 4")
    with pytest.raises(SpecError, match="host n0: its agent speaks of other devices"):
        gpus.found(0, {1: FIRST}, "")
    assert not gpus.found(1, {1: FIRST}, "")
    # A GPU may be lost, and be found again, by another number.
    assert gpus.found(1, {}, "its devices are 4")
    assert not gpus.found(1, {1: replace(FIRST, index=7)}, "")
    assert gpus.fits(1)
    assert gpus.of(1) == replace(FIRST, index=7)


def test_a_device_stays_in_its_numerics_class() -> None:
    gpus = leased(optional=[1])
    for host in (0, 1):
        gpus.found(host, {host: FIRST}, "")
        assert not gpus.found(host, {host: SECOND}, "")
    with pytest.raises(EngineError, match="host n0: device n0/g computes on 'other, ', not on 's"):
        gpus.fits(0)
    # A host that need not be there is kept out, until it is as before.
    assert not gpus.fits(1)
    gpus.found(1, {1: FIRST}, "")
    assert gpus.fits(1)


def test_a_host_that_comes_later_has_gpus_of_the_class_of_those_that_are_there() -> None:
    gpus = leased(optional=[1, 2])
    with pytest.raises(SpecError, match="host n0 may be away, and no host that is there has a GPU"):
        gpus.of_devices()
    gpus.found(0, {0: FIRST}, "")
    assert gpus.of_devices() == dict.fromkeys(range(3), FIRST)
    assert gpus.found(1, {}, "its devices are 4")
    assert not gpus.found(2, {2: SECOND}, "")
    assert [gpus.fits(host) for host in range(3)] == [True, False, False]


def test_agents_look_for_gpus_of_other_machines_alone(tmp_path: Path) -> None:
    run = on_agents(world(tmp_path, [job(0)], 2)[0], [["cpu", KIND, "H100"], ["CPU-fast"]])
    cluster = run.cluster
    found = [[one.index for one in wanted_gpus(cluster, tmp_path, at).devices] for at in (0, 1)]
    assert found == [[1, 2], []]
    for here in (
        replace(cluster, local=replace(cluster.local, testbed="lab")),
        replace(cluster, emulate=Emulate(time_scale=1.0)),
    ):
        assert wanted_gpus(here, tmp_path, 0) == WantedGpus()
    assert not wanted_gpus(cluster, tmp_path, 0).share
    ray = replace(run, cluster=replace(cluster, engine="ray", ray="127.0.0.1:6379"))
    with devices_held(ray, tmp_path, share=True), devices_held(ray, tmp_path):
        assert wanted_gpus(cluster, tmp_path, 0).share


def test_a_run_is_refused_where_a_host_has_too_few_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, costs = world(tmp_path, [job(0)], 2)
    agents_with(monkeypatch, tmp_path, [[FIRST], []])
    with (
        pytest.raises(SpecError, match="host n1: its devices are 1 of type cuda, and its GPUs "),
        LivePort(on_agents(run, TWO), costs, tmp_path / "few"),
    ):
        pass


def context(run: Run, gpus: tuple[int | None, ...]) -> Any:
    """As much of a run's context as says where servers may be."""
    made: Any = RunContext.__new__(RunContext)
    made.run, made.gpus = run, gpus
    return made


def test_servers_of_a_job_on_gpus_are_on_hosts_that_have_its_gpus(tmp_path: Path) -> None:
    jobs = [job(0, types=(KIND,)), job(1, types=("cpu",)), job(2, numerics="mixed")]
    run = on_agents(world(tmp_path, jobs, 2)[0], [["cpu"], [KIND, KIND], [KIND]])
    run = replace(run, scheduler=replace(run.scheduler, servers=3))
    found = context(run, (None, 1, 2, 3))
    assert [found.server_hosts(one) for one in jobs] == [(1, 2), (0, 1, 2), (0, 1, 2)]
    assert [found.home_of(one) for one in jobs] == [None] * 3
    servers = Servers(found, lambda _: None, lambda *_: None)  # type: ignore[arg-type, return-value]
    assert servers.homes(0) == (1, 2, 1)
    assert [servers._gpu_of(jobs[0], part, servers.homes(0)[part]) for part in range(3)] == [
        1,
        3,
        1,
    ]
    assert servers._gpu_of(jobs[1], 0, 0) is None
    refuse_servers_without_gpus(found)
    moving = replace(run, scheduler=replace(run.scheduler, shape="cruise"))
    with pytest.raises(
        SpecError, match="cruise may place servers of job job-0 on host n0, which h"
    ):
        refuse_servers_without_gpus(context(moving, found.gpus))
