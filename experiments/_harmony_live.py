"""Six jobs on the three hosts of a testbed, alone or in groups, and what was measured of them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from pathlib import Path
from random import Random
from statistics import median
from threading import Event
from typing import Any, Final

import numpy as np
from _common import ROOT
from _testbeds import limited_hosts

from warren.core.journal_reader import History
from warren.live.testbed.names import NIC
from warren.live.testbed.namespaces import places
from warren.live.training.app.app_loader import build_app
from warren.live.training.tensor_layout import Layout
from warren.model.job import Job
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
REPEATED: Final = ROOT / "experiments/_repeated_rows.py"
DIGITS: Final = 1797
"""The rows of the data of ``Deep``."""


@dataclass(frozen=True)
class LiveJob:
    """An app with its parameters and the batch of a task; how many rounds it has."""

    app: str
    params: Mapping[str, Any]
    batch: int
    rounds: int

    @property
    def all_params(self) -> dict[str, Any]:
        """The parameters, with as many copies of each row as a batch of different items needs."""
        if not self.app.startswith(str(REPEATED)):
            return dict(self.params)
        return {**self.params, "copies": ceil(self.batch / self.params.get("rows", DIGITS))}

    @cached_property
    def model_bytes(self) -> int:
        """The bytes of a state, as they are sent."""
        job = Job(
            index=0, name="sized", app=self.app, params=self.all_params, scale=TASKS, rounds=1,
            batch=self.batch,
        )  # fmt: skip
        return Layout.of(build_app(job, str(ROOT)).model()).total_bytes


@dataclass(frozen=True)
class Profile:
    """Of each job the COMP of a task, and what its round takes beyond COMP and links, in s."""

    task_s: Mapping[str, float]
    late_s: Mapping[str, float] = field(default_factory=dict)


JOBS: Final[dict[str, LiveJob]] = {
    "mlr": LiveJob(
        f"{REPEATED}:Mlr",
        {"data": "synthetic", "rows": 4000, "features": 2500, "classes": 100, "blocks": 12},
        20_000, 10,
    ),
    "mlr-small": LiveJob(
        f"{REPEATED}:Mlr",
        {"data": "synthetic", "rows": 2000, "features": 2500, "classes": 100, "blocks": 12},
        2500, 14,
    ),
    "nmf": LiveJob(
        f"{EXAMPLES / 'nmf.py'}:Nmf",
        {
            "data": "synthetic", "rows": 1000, "columns": 2500, "true_rank": 20, "rank": 100,
            "inner": 2500, "blocks": 12,
        },
        400, 9,
    ),
    "lda": LiveJob(
        f"{EXAMPLES / 'lda.py'}:Lda",
        {
            "data": "synthetic", "topics": 100, "vocabulary": 1000, "documents": 2000,
            "length": 300, "scale": TASKS, "batch": 250, "blocks": 12,
        },
        250, 9,
    ),
    "net": LiveJob(
        f"{REPEATED}:Deep", {"layers": 12, "width": 150}, 7500, 12,
    ),
    "net-small": LiveJob(
        f"{REPEATED}:Deep", {"layers": 12, "width": 150}, 1500, 14,
    ),
}  # fmt: skip


LASSO: Final = LiveJob(
    f"{REPEATED}:Lasso",
    {"data": "synthetic", "rows": 400, "features": 50_000, "blocks": 12}, 2000, 10,
)  # fmt: skip


def drawn_jobs(seed: int) -> dict[str, LiveJob]:
    """Six jobs of the same apps, and lasso, with sizes that were not looked at.

    COMP, model and rounds are drawn around those of ``JOBS``, each by a factor of 0.6 to 1.6 and
    that to the power of a uniform number; of lasso around 0.2 s a task and 0.2 MB.
    """
    random = Random(seed)

    def factor() -> float:
        return float(0.6 * (1.6 / 0.6) ** random.random())

    found: dict[str, LiveJob] = {}
    for name in ("mlr", "nmf", "lda", "lasso", "net", "net-small"):
        base, comp, model, rounds = JOBS.get(name, LASSO), factor(), factor(), factor()
        params, batch = dict(base.params), round(base.batch * comp)
        size = {"mlr": "features", "nmf": "columns", "lda": "vocabulary", "lasso": "features"}
        wide = size.get(name, "width")
        params[wide] = round(params[wide] * (model**0.5 if wide == "width" else model))
        if "batch" in params:
            params["batch"] = batch
        found[f"drawn-{name}"] = LiveJob(base.app, params, batch, round(10 * rounds))
    return found


def testbed() -> AbstractContextManager[float]:
    """The hosts; what their links carry of their rates, in the mean."""
    link = f"{LINK_BPS / 1e6:.0f} Mbit"
    return limited_hosts(NAME, [{"name": name, "link": link, "cpus": CPUS} for name in HOSTS])


def described(
    scheduler: Mapping[str, Any],
    options: Mapping[str, Any],
    profile: Profile,
    share: float,
    jobs: Mapping[str, LiveJob],
    devices: int = 1,
) -> dict[str, Any]:
    """A run of the jobs; ``profile``: what is known of them; ``devices`` of each host."""
    rows = {
        name: {
            "model": f"{job.model_bytes} B",
            "comp": {"cpu": f"{1000 * profile.task_s[name]:.1f} ms"},
            "sync": {"cpu": "1 ms"},
            "step": f"{1000 * profile.late_s.get(name, 0.0):.1f} ms",
        }
        for name, job in jobs.items()
    }
    listed = [
        {
            "name": name, "app": job.app, "params": job.all_params, "model": name,
            "scale": TASKS, "batch": job.batch, "rounds": job.rounds,
        }
        for name, job in jobs.items()
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
        # Of jobs of few tasks the first ones, which are computed again, are many.
        "seed": 1, "verify": 0,
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
    jobs: Mapping[str, LiveJob], hosts: int, profile: Profile, share: float
) -> GroupIteration:
    """What an iteration of these jobs as a group takes by the model."""
    comp_J = np.array([TASKS * profile.task_s[name] for name in jobs])
    state_J = np.array([8 * job.model_bytes / (LINK_BPS * share) for job in jobs.values()])
    late_s_J = np.array([profile.late_s.get(name, 0.0) for name in jobs])
    problem = JobGroupingProblem(
        comp_machine_s_J=comp_J, net_s_J=np.zeros(len(comp_J)), machines=hosts,
        rounds=RoundTerms(
            pull_s_J=state_J, push_s_J=TASKS * state_J, task_s_J=comp_J / TASKS, step_s_J=late_s_J
        ),
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
