"""Hosts with agents of their own: killed or cut off, every job has the bits of plain."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_worlds import AGENT, warm_agents
from bed_worlds import NAME, on_hosts, standing_bed
from live_worlds import drive, hashes, job, of, plain_hashes, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.leased_processes import AWAY, LeasedProcesses
from warren.live.process.agents.spec import AgentSpec
from warren.live.testbed import names
from warren.live.testbed.namespaces import inside
from warren.live.testbed.orphans import processes
from warren.live.testbed.ray_nodes import ray_folder, start_ray
from warren.live.transport.tls import TlsSocket
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, RolledBack, RoundsDone
from warren.model.testbed import Bed
from warren.runs.studies.ray_hosts import ray_hosts

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

LEASE_NS = 2 * 10**9
AHEAD_S = 5000
TIME_NAMESPACES = Path("/proc/self/ns/time").exists()
AHEAD = f"""
import ctypes, os
NEW_TIME = 0x80  # <linux/sched.h>
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.unshare(NEW_TIME), ctypes.get_errno()
with open("/proc/self/timens_offsets", "w") as offsets:
    offsets.write("monotonic {AHEAD_S} 0")
with open("/proc/self/ns/time_for_children") as ahead:
    assert not libc.setns(ahead.fileno(), NEW_TIME), ctypes.get_errno()
"""
"""As ``unshare --time`` does, for the process itself."""
JOBS = (
    job(0, rounds=12, params={"width": 6000, "sleep_s": 0.05}),
    job(1, rounds=24, params={"sleep_s": 0.05}, user="bob"),
    job(2, rounds=24, params={"sleep_s": 0.02}, sync="ring"),
)


@pytest.fixture(scope="module", params=["agents", "ray"])
def bed(can_make_testbeds: None, request: pytest.FixtureRequest) -> Iterator[tuple[Bed, str, str]]:
    """Two hosts, where their Ray cluster is, and what `warren hosts` says of it.

    Nowhere: the controller starts the agents.
    """
    if request.param == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with standing_bed(2) as made:
        try:
            address = start_ray(made) if request.param == "ray" else ""
            # Here, since Ray keeps a process idle for a while after somebody has asked it.
            yield made, address, ray_hosts(address, NAME) if address else ""
        finally:
            shutil.rmtree(ray_folder(made.name), ignore_errors=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    return plain_hashes(tmp_path_factory.mktemp("plain"), JOBS)


@dataclass
class Told:
    """What a run was seen to do."""

    events: list[AnyEvent] = field(default_factory=list)
    agents: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    attacked: set[str] = field(default_factory=set)
    refused: int = 0
    lost_hosts: list[int] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    locks: str = ""
    ray: bool = False


@pytest.fixture(scope="module")
def told(bed: tuple[Bed, str, str], tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run whose second agent is killed, and whose second host is cut off afterwards.

    All the time somebody who does not know the secret is on the network of the first host.
    """
    folder = tmp_path_factory.mktemp("agents")
    run, costs = world(folder, JOBS, 2, servers=2)
    run = on_hosts(run, ["h0", "h1"])
    local = replace(run.cluster.local, lease_ns=LEASE_NS)
    address = bed[1]
    engine = {"engine": "ray", "ray": address} if address else {}
    run = replace(run, cluster=replace(run.cluster, local=local, **engine))
    told = Told(ray=bool(address))
    # A rank of the ring on each host.
    rows = [
        one
        if JOBS[one.job].sync == "ps"
        else Assignment(one.shards[0], one.job, one.round, one.rounds, one.shards)
        for one in shuffled(run, seed=1)
    ]

    def strike(event: AnyEvent) -> None:
        pool = port._pool
        assert isinstance(pool, AgentPool)
        agents = pool._launcher
        assert agents is not None
        told.agents.update(agents.pids_H)
        told.folders = [Path(pool.processes.folder), *map(Path, pool.processes.folders_H)]
        if isinstance(event, RoundsDone) and event.job == 1:
            if event.round >= 3 and not told.faults:
                told.faults.append("killed")
                os.kill(agents.pids_H[1], signal.SIGKILL)
            elif event.round >= 8 and told.faults == ["killed"]:
                told.faults.append("cut off")
                set_link(1, "down")
                back.start()

    def lose(processes: LeasedProcesses, host: int, plain: Any = LeasedProcesses._lose) -> None:
        told.lost_hosts.append(host)
        plain(processes, host)

    back = threading.Timer(1.8 * LEASE_NS / 1e9, set_link, (1, "up"))
    with pytest.MonkeyPatch.context() as patch:
        warm_agents(patch, folder, with_another_clock)
        patch.setattr(LeasedProcesses, "_lose", lose)
        with LivePort(run, costs, folder / "out") as port:
            over = threading.Event()
            attacker = threading.Thread(target=attack, args=(port, told.attacked, over))
            attacker.start()
            try:
                told.events += drive(port, rows, strike)
            finally:
                over.set()
                attacker.join()
            pool, hub = port._pool, port._hub._tcp_listener
            assert isinstance(pool, AgentPool)
            assert hub is not None
            told.refused = min(pool._listener.refused, hub.refused)
    back.join()
    out = (folder / "out").stat()
    told.locks = f"warren-agent-{os.getuid()}-{out.st_dev:x}-{out.st_ino:x}-*"
    return told


def attack(port: LivePort, attacked: set[str], over: threading.Event) -> None:
    """Say all kinds of nonsense to whoever listens, and hello by another secret."""
    pool = port._pool
    assert isinstance(pool, AgentPool)
    noise = [b"GET / HTTP/1.1\r\n\r\n", b"\1\0\0\0" + b"\xff" * 8, bytes(100_000), b"\x16\x03\x01"]
    with inside(port._placement.places_H[0]):
        while not over.wait(0.2):
            ways = [
                data.decode()
                for name, data in [*pool.processes.files.items()]
                if name.endswith(".tcp")
            ]
            ways.append(f"{pool._listener.address}:{pool._listener.port}")
            for way in ways:
                address, at = way.rsplit(":", 1)
                for what in (None, *noise):
                    with suppress(OSError):
                        end = socket.create_connection((address, int(at)), 0.2)
                        with end:
                            if what is not None:
                                end.sendall(what)
                            else:
                                stranger = TlsSocket(end, b"x" * 32, False)
                                stranger.handshake()
                            attacked.add(way)


def with_another_clock(spec: AgentSpec) -> str:
    """The program of the second host's agent, whose clock is far ahead, where it can be.

    None of the first host's, which is started as those of users are.
    """
    return ((AHEAD if TIME_NAMESPACES else "") + AGENT) if spec.host == 1 else ""


def named(pid: int) -> str:
    """The name of a process; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def set_link(host: int, state: str) -> None:
    """Take a host's link down, or bring it up again."""
    link = ["ip", "-n", names.switch(NAME), "link", "set", names.port(host), state]
    subprocess.run(link, check=True)


def test_the_nodes_of_a_ray_cluster_become_hosts(bed: tuple[Bed, str, str]) -> None:
    if not bed[1]:
        pytest.skip("no Ray in this testbed")
    found = yaml.safe_load(bed[2])
    assert found["engine"] == {"ray": bed[1]}
    hosts = [(host["name"], host["devices"]) for host in found["hosts"]]
    assert hosts == [("h0", {"cpu": 1}), ("h1", {"cpu": 1})]


def test_after_an_agent_was_killed_and_a_host_cut_off_the_bits_are_those_of_plain(
    told: Told, plain: dict[int, str]
) -> None:
    assert told.faults == ["killed", "cut off"]
    assert hashes(told.events) == plain
    lost = [event.job for event in of(told.events, RolledBack) if AWAY in event.reason]
    # Both jobs by the agent, and at least the one that went on by the cut. On a busy machine a
    # host may be too late to renew its lease, too: no job goes back more often than a host is lost.
    assert told.lost_hosts.count(1) >= 2
    assert 2 <= lost.count(1) <= len(told.lost_hosts)
    assert 1 <= lost.count(0) <= len(told.lost_hosts)
    # Each round is counted once in the end.
    for one in JOBS:
        rounds: list[int] = []
        for event in told.events:
            if isinstance(event, RoundsDone) and event.job == one.index:
                rounds += range(event.round, event.round + event.rounds)
            elif isinstance(event, RolledBack) and event.job == one.index:
                rounds = [round_no for round_no in rounds if round_no < event.round]
        assert rounds == list(range(one.rounds or 0))


@pytest.mark.skipif(not TIME_NAMESPACES, reason="no time namespaces here")
def test_times_are_by_one_clock_though_that_of_a_host_is_far_ahead(told: Told) -> None:
    if told.ray:
        pytest.skip("the actors of Ray start agents by themselves")
    times_s = [event.barrier_ns / 1e9 for event in of(told.events, RoundsDone)]
    assert all(0 < time_s < AHEAD_S / 10 for time_s in times_s)


def test_who_does_not_know_the_secret_is_refused_and_counted_wherever_one_listens(
    told: Told,
) -> None:
    # The controller for agents, the controller for executors, and servers of both jobs.
    assert len(told.attacked) >= 4
    assert told.refused > 10


def test_after_a_run_no_process_and_no_folder_is_left(told: Told) -> None:
    assert len(told.agents) >= 3
    assert not [pid for pid in told.agents if Path(f"/proc/{pid}").exists()]
    left = [named(pid) for pid in processes([names.namespace(NAME, host) for host in (0, 1)])]
    assert not [name for name in left if name.startswith("warren") or not told.ray]
    assert told.folders
    assert not [path for path in told.folders if path.exists()]
    assert not list(Path(tempfile.gettempdir()).glob(told.locks))
