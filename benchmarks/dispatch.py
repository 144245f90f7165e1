"""How many tasks a second pass through a controller: 100 played hosts with 1,000 executors.

The controller is the real one: policy, core, journal on disk, ledger, leases, agents, TLS. Hosts
are played by another process (``_fake_hosts``), which talks to it over 1,200 connections. There are
100 jobs of ten tasks a round; a task takes 50 ms, so that devices would take up to 20,000 a second.
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import pstats
import select
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from _fake_hosts import play
from _ranges import report

from warren.live.control.local_engine import LivePort
from warren.live.process.agents.agent_pool import AgentPool
from warren.live.process.agents.leased_processes import LeasedProcesses
from warren.live.process.agents.messages import StartZygote
from warren.live.process.host_placement import HostPlacement
from warren.live.process.leases.lease_grants import LeaseGrants
from warren.live.process.leases.timing import LeaseTiming
from warren.live.testbed.namespaces import HostNamespace
from warren.live.transport.sockets import controller_address
from warren.live.transport.tcp_listener import TcpListener
from warren.model.cluster import Cluster, Device, DeviceType, Host, Local
from warren.model.costs import CostTable
from warren.model.job import Job, Workload
from warren.model.run import Run, Scheduler
from warren.runs.choose_policy import TimedPolicies
from warren.runs.compose import Options, PreparedRun, RunParts
from warren.store.run_folder import RunFolder

HOSTS: Final = 100
DEVICES: Final = 1000
SCALE: Final = 10
ROUNDS: Final = 60
TASK_NS: Final = 50_000_000
TIMING: Final = LeaseTiming(30 * 10**9)
RUNS: Final = 3


class PlayedPort(LivePort):
    """The real controller; its hosts are another process."""

    hosts: Any = None

    def _placement_now(self) -> HostPlacement:
        places = [HostNamespace(address="127.0.0.1")] * HOSTS
        return HostPlacement(places, [one % HOSTS for one in range(DEVICES)], agents=True)

    def _agents(self, zygote: StartZygote) -> AgentPool:
        folder = str(self._folder)
        epoll = select.epoll()
        here = self._placement.identity(0)
        listener = TcpListener(f"{folder}/agents", here, epoll)
        folders = [folder] * HOSTS
        names = [host.name for host in self._run.cluster.hosts]
        grants = LeaseGrants(1, HOSTS, TIMING, time.monotonic_ns())
        processes = LeasedProcesses(self._placement, grants, names, folder, folders, zygote, {})
        self.hosts = multiprocessing.get_context("fork").Process(
            target=play,
            args=(
                (listener.address, listener.port), controller_address(folder), here.secret,
                HOSTS, TIMING, TASK_NS, [job.scale for job in self._jobs], ROUNDS,
            ),
            daemon=True,
        )  # fmt: skip
        self.hosts.start()
        return AgentPool(processes, HOSTS, listener, epoll)


def the_run(place: str) -> tuple[Run, CostTable]:
    """A run whose jobs together have a device a task."""
    hosts = [f"h{at}" for at in range(HOSTS)]
    devices = tuple(
        Device(index=at, name=f"{hosts[at % HOSTS]}/d{at}", type="cpu", host=hosts[at % HOSTS])
        for at in range(DEVICES)
    )
    cluster = Cluster(
        hosts=tuple(
            Host(name=name, devices=tuple(one.name for one in devices if one.host == name))
            for name in hosts
        ),
        devices=devices,
        types=(DeviceType(name="cpu"),),
        local=Local(testbed="played", lease_ns=TIMING.lease_ns),
    )
    jobs = tuple(
        Job(index=at, name=f"job-{at}", app="app.py:App", scale=SCALE, rounds=ROUNDS, batch=1)
        for at in range(DEVICES // SCALE)
    )
    run = Run(
        name="dispatch", cluster=cluster, workload=Workload(jobs=jobs), sources={},
        scheduler=Scheduler(place=place),
    )  # fmt: skip
    shape = (len(jobs), 1)
    costs = CostTable(
        comp_ns_JT=np.full(shape, TASK_NS), sync_ns_JT=np.full(shape, 1_000_000),
        fits_JT=np.ones(shape, dtype=bool),
    )  # fmt: skip
    return run, costs


def one(place: str = "srtf", sort: str | None = None) -> dict[str, float]:
    """Run once, and tell what it took; ``sort``: print a profile, sorted so."""
    run, costs = the_run(place)
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) / "out", durable=True)
        prepared = PreparedRun(run=run, recorded=costs)
        policies = TimedPolicies(prepared.policies)
        begin = time.perf_counter()
        with folder, PlayedPort(run, costs, folder.path, warm_limit=0) as port:
            parts = RunParts(
                prepared=prepared, policies=policies, port=port, journal=folder,
                options=Options(), begin=time.perf_counter(),
            )  # fmt: skip
            parts.core.numerics = port.numerics
            folder.keep()
            start_s, begin, cpu = (
                time.perf_counter() - begin,
                time.perf_counter(),
                time.process_time(),
            )
            if sort is None:
                parts.execute()
            else:
                with cProfile.Profile() as profile:
                    parts.execute()
                pstats.Stats(profile).sort_stats(sort).print_stats(40)
            wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
            port.hosts.kill()
    tasks = DEVICES * ROUNDS
    return {
        "dispatched_tasks_per_s": tasks / wall_s, "dispatch_cpu_us_a_task": cpu_s / tasks * 1e6,
        "dispatch_decide_us_a_task": policies.decide_s / tasks * 1e6,
        "thousand_executors_start_s": start_s,
    }  # fmt: skip


def main() -> None:
    """Measure, print, and stop with an error where a figure leaves its range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", metavar="SORT", help="Profile one run instead: tottime, ...")
    asked = parser.parse_args()
    if asked.profile:
        print(one(sort=asked.profile))
        return
    runs = [one() for _ in range(RUNS)]
    report({name: median(run[name] for run in runs) for name in runs[0]})


if __name__ == "__main__":
    main()
