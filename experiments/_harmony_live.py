"""Six jobs on the three hosts of a testbed, alone or in groups, and what was measured of them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any, Final

import numpy as np
from _common import ROOT
from _testbeds import limited_hosts

from warren.core.journal_reader import History
from warren.live.testbed.names import NIC
from warren.live.testbed.namespaces import places
from warren.model.units import NS_PER_S
from warren.report.standing_groups import GroupHistory
from warren.solve.job_groups.iteration import GroupIteration, iteration_of
from warren.solve.job_groups.problem import JobGroupingProblem, RoundTerms

NAME: Final = "harmony"
HOSTS: Final = tuple(f"h-{at}" for at in range(3))
CPUS: Final = 0.5
LINK_BPS: Final = 20e6
TASKS: Final = 6
"""Of a round: two on each of three hosts."""
LOOK_AHEAD: Final = 16
"""Tasks whose states a device fetches before their turn: those of all jobs that share a host."""
EXAMPLES: Final = ROOT / "examples/apps"


@dataclass(frozen=True)
class LiveJob:
    """An app with its parameters, the bytes of its model, and a first guess of a task's time."""

    app: str
    params: Mapping[str, Any]
    batch: int
    model_bytes: int
    rounds: int


JOBS: Final[dict[str, LiveJob]] = {
    "mlr": LiveJob(
        f"{EXAMPLES / 'mlr.py'}:Mlr",
        {"data": "synthetic", "rows": 4000, "features": 2500, "classes": 100, "blocks": 12},
        20_000, 1_000_400, 10,
    ),
    "mlr-small": LiveJob(
        f"{EXAMPLES / 'mlr.py'}:Mlr",
        {"data": "synthetic", "rows": 2000, "features": 2500, "classes": 100, "blocks": 12},
        2500, 1_000_400, 14,
    ),
    "nmf": LiveJob(
        f"{EXAMPLES / 'nmf.py'}:Nmf",
        {
            "data": "synthetic", "rows": 1000, "columns": 2500, "true_rank": 20, "rank": 100,
            "inner": 2500, "blocks": 12,
        },
        400, 1_000_000, 9,
    ),
    "lda": LiveJob(
        f"{EXAMPLES / 'lda.py'}:Lda",
        {
            "data": "synthetic", "topics": 100, "vocabulary": 1000, "documents": 2000,
            "length": 300, "scale": TASKS, "batch": 250, "blocks": 12,
        },
        250, 1_150_000, 9,
    ),
    "net": LiveJob(
        f"{ROOT / 'experiments/_deep.py'}:Deep", {"layers": 12, "width": 150}, 7500, 1_130_000, 12,
    ),
    "net-small": LiveJob(
        f"{ROOT / 'experiments/_deep.py'}:Deep", {"layers": 12, "width": 150}, 1500, 1_130_000, 14,
    ),
}  # fmt: skip


def testbed() -> AbstractContextManager[float]:
    """The hosts; what their links carry of their rates, in the mean."""
    link = f"{LINK_BPS / 1e6:.0f} Mbit"
    return limited_hosts(NAME, [{"name": name, "link": link, "cpus": CPUS} for name in HOSTS])


def described(
    scheduler: Mapping[str, Any],
    options: Mapping[str, Any],
    task_s: Mapping[str, float],
    share: float,
    devices: int = 1,
    jobs: Sequence[str] = tuple(JOBS),
) -> dict[str, Any]:
    """A run of the jobs; ``task_s``: what is known of a task's time; ``devices`` of each host."""
    rows = {
        name: {
            "model": f"{JOBS[name].model_bytes} B",
            "comp": {"cpu": f"{1000 * task_s[name]:.1f} ms"},
            "sync": {"cpu": "1 ms"},
        }
        for name in jobs
    }
    listed = [
        {
            "name": name, "app": JOBS[name].app, "params": dict(JOBS[name].params), "model": name,
            "scale": TASKS, "batch": JOBS[name].batch, "rounds": JOBS[name].rounds,
        }
        for name in jobs
    ]  # fmt: skip
    cluster = {
        "format": 1, "engine": "local", "network": {"model": "fluid"},
        "local": {"testbed": NAME, "look_ahead": LOOK_AHEAD},
        "hosts": [
            {"name": name, "devices": {"cpu": devices}, "nic": f"{LINK_BPS * share:.0f} bps"}
            for name in HOSTS
        ],
    }  # fmt: skip
    return {
        "format": 1, "name": "harmony-live", "cluster": cluster, "profiles": rows,
        "workload": {"jobs": listed}, "scheduler": dict(scheduler), "policy": dict(options),
        "seed": 1,
    }  # fmt: skip


@dataclass
class Used:
    """What hosts used, sampled beside a run: seconds of processor, and bytes sent."""

    samples: list[tuple[float, float, float]] = field(default_factory=list)
    _ticks: dict[str, int] = field(default_factory=dict)

    def __call__(self, folder: Path, ended: Event) -> None:
        """Sample twice a second until the run has ended."""
        hosts = places(NAME, HOSTS)
        while not ended.wait(0.5):
            for host in hosts:
                self._look(Path(host.cgroup))
            used_s = sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")
            sent = sum(_sent_bytes(host.namespace) for host in hosts)
            self.samples.append((time.monotonic(), used_s, sent))

    def _look(self, cgroup: Path) -> None:
        """Note the processor time of each process of a host; of those that have ended the last."""
        # Not of the cgroup: the controller that counts it may be mounted elsewhere.
        for process in (cgroup / "cgroup.procs").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):
                stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                self._ticks[process] = int(stat[11]) + int(stat[12])

    def over(self, makespan_s: float) -> dict[str, float]:
        """Parts of the hosts' processors and links that were busy in the last so many seconds."""
        end, cpu_s, sent = self.samples[-1]
        begin = min(self.samples, key=lambda one: abs(one[0] - (end - makespan_s)))
        span_s = end - begin[0]
        return {
            "cpu_used": (cpu_s - begin[1]) / span_s / (CPUS * len(HOSTS)),
            # Each byte is sent once and received once.
            "link_used": 8 * (sent - begin[2]) / span_s / (LINK_BPS * len(HOSTS)),
        }


def _sent_bytes(namespace: str) -> float:
    """Bytes that a host has sent over its link so far."""
    file = f"/sys/class/net/{NIC}/statistics/tx_bytes"
    found = subprocess.run(
        ["ip", "netns", "exec", namespace, "cat", file], capture_output=True, text=True, check=True
    )
    return float(found.stdout)


def tasks_s(history: History, names: Sequence[str]) -> dict[str, float]:
    """What a task of each job computes, in the median."""
    line = history.timeline
    took_s = line.busy_ns_R / line.tasks_R / 1e9
    return {name: median(took_s[line.job_R == job].tolist()) for job, name in enumerate(names)}


def predicted(
    names: Sequence[str],
    hosts: int,
    task_s: Mapping[str, float],
    share: float,
    late_s: Mapping[str, float] | None = None,
) -> GroupIteration:
    """What a group iteration takes by the model; ``late_s``: what more of COMM was measured."""
    comp_J = np.array([TASKS * task_s[name] for name in names])
    state_J = np.array([8 * JOBS[name].model_bytes / (LINK_BPS * share) for name in names])
    late_s_J = np.array([(late_s or {}).get(name, 0.0) for name in names])
    problem = JobGroupingProblem(
        comp_machine_s_J=comp_J, net_s_J=late_s_J, machines=hosts,
        rounds=RoundTerms(pull_s_J=state_J, push_s_J=TASKS * state_J, task_s_J=comp_J / TASKS),
    )  # fmt: skip
    return iteration_of(problem, hosts)


def groups_of(history: History) -> GroupHistory:
    """What the history of a run tells of groups; all jobs are there from the beginning."""
    arrival_ns_J = np.zeros(len(history.finish_ns_J), dtype=np.int64)
    return GroupHistory(history=history, arrival_ns_J=arrival_ns_J)


def settled_round_s(told: GroupHistory, job: int, begin_ns: int, end_ns: int) -> float:
    """How long a job's rounds took in the mean that began two rounds or more after a time."""
    # The first barrier inside ends a round of before; the round after it still meets others.
    round_ns = told.round_ns(job, begin_ns, end_ns, skip=2)
    assert round_ns is not None, f"job {job} has no two rounds there"
    return round_ns / NS_PER_S
