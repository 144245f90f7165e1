"""Jobs whose data are on disk train with the bits they have in memory; what does not fit fails."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, job, of, shuffled, world

import warren
from warren.live.control.input_budgets import InputBudgets, refuse_blocks_on_gpus
from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.process.specs import ServerRole, TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.cluster import Local
from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, JobFailed, ParamsSaved, RoundsDone
from warren.model.job import Evaluate, Job
from warren.model.run import Run

APPS = """

class Large(Tiny):
    rows: int = 2000

    def dataset(self):
        draw = torch.Generator().manual_seed(0)
        self.data = torch.randn(self.rows, 300, generator=draw), torch.arange(self.rows)
        return self.data

    def loss(self, model, batch):
        x, y = batch
        assert torch.equal(x, self.data[0][y])
        return super().loss(model, (x[:, :4], x.sum(1, keepdim=True)))

    def evaluate(self, model):
        return {"mean": float(model(self.data[0][:, :4]).mean())}


class LargeDict(Large):
    def dataset(self):
        return dict(zip("xy", super().dataset()))

    def loss(self, model, batch):
        return super().loss(model, (batch["x"], batch["y"]))


class Keeps(Large):
    def dataset(self):
        x, y = super().dataset()
        self.rest = x[:], y[:]
        return x, y


class FullDisk(Large):
    def dataset(self):
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5))  # to a disk that is full
        return super().dataset()


class TooLarge(Large):
    rows = 10**7


class Wide(Tiny):
    def model(self):
        wide = [nn.Linear(4, 600), nn.Linear(600, 600), nn.Linear(600, 600), nn.Linear(600, 1)]
        return nn.Sequential(*wide[:2], nn.BatchNorm1d(600), *wide[2:])


class WideOdd(Wide):
    def optimizer(self, named_parameters):
        class Own(torch.optim.SGD):
            pass

        return Own([p for _, p in named_parameters], lr=0.1)
"""
GB = 10**9


def run_of(
    folder: Path, jobs: Sequence[Job], local: Local, memory_bytes: int | None = None
) -> tuple[Run, CostTable]:
    """A run on one host with so much memory."""
    run, costs = world(folder, jobs, 2)
    with (folder / "apps.py").open("a") as apps:
        apps.write(APPS)
    cluster = run.cluster
    hosts = (replace(cluster.hosts[0], memory_bytes=memory_bytes),)
    return replace(run, cluster=replace(cluster, hosts=hosts, local=local)), costs


def trained(
    run: Run,
    costs: CostTable,
    folder: Path,
    lost: Sequence[type[TrainerRole | ServerRole]] = (),
) -> list[AnyEvent]:
    """What comes of a run; processes of the first job with these roles are killed in it."""
    left = list(lost)

    def watch(event: AnyEvent) -> None:
        if not (isinstance(event, RoundsDone) and event.job == 0 and left):
            return
        for pid, role in port.processes().items():
            if left and isinstance(role, left[-1]) and role.job.index == 0:
                os.kill(pid, signal.SIGKILL)
                left.pop()

    with LivePort(run, costs, folder / "out") as port:
        events = drive(port, shuffled(run, seed=1), watch)
    assert not left
    return events


def digests(events: Sequence[AnyEvent]) -> dict[int, str]:
    """The hash of each job's parameters."""
    return {one.job: one.sha256 for one in of(events, ParamsSaved)}


def plain(run: Run) -> dict[int, str]:
    """The hashes that a loop in one process gives, with all data in memory."""
    found = {}
    for one in run.workload.jobs:
        app = build_app(one, run.base)
        numerics.pin()
        found[one.index] = train(app, one).digest
    return found


@pytest.mark.live
def test_groups_of_jobs_with_data_on_disk_have_the_bits_of_data_in_memory(tmp_path: Path) -> None:
    """Under ``harmony``, on hosts whose memory is stated."""
    world(tmp_path, [], 1)
    with (tmp_path / "apps.py").open("a") as apps:
        apps.write(APPS)
    app = {"Large": "graphsage", "LargeDict": "fastgcn"}
    listed = [
        {"name": f"{kind}-{at}", "app": f"{tmp_path}/apps.py:{kind}", "model": model, "scale": 3,
         "rounds": 6, "batch": 4, "seed": at}
        for at in range(2) for kind, model in app.items()
    ]  # fmt: skip
    found = {}
    for engine in ("plain", "local"):
        host = {"name": "h", "count": 3, "devices": {"V100": 1}, "nic": "25 Gbps", "memory": "2 GB"}
        local = {"local": {"spill": True}} if engine == "local" else {}
        cluster = {"hosts": [host], "emulate": {"time_scale": 0.001}}
        run = {
            "format": 1,
            "cluster": cluster | {"engine": engine} | local,
            "workload": {"jobs": listed},
            "scheduler": {"joint": "harmony"},
            "seed": 1,
        }
        done = warren.run(run, out=tmp_path / engine)
        found[engine] = {name: job.row["params_sha256"] for name, job in done.jobs.items()}
    assert len(found["plain"]) == 4
    assert found["local"] == found["plain"]
    logs = [file.read_text() for file in (tmp_path / "local/logs").iterdir()]
    assert not any("stay in memory" in text for text in logs)


@pytest.mark.live
@pytest.mark.parametrize("ratio", [1.0, None])
def test_jobs_have_the_bits_of_data_in_memory(tmp_path: Path, ratio: float | None) -> None:
    jobs = [
        job(0, "Large"),
        job(1, "LargeDict"),
        job(2, "Keeps", evaluate=Evaluate(every=2)),
        job(3),
    ]
    local = Local(spill=True, disk_ratio=ratio)
    run, costs = run_of(tmp_path, jobs, local, 2 * GB if ratio is None else None)
    events = trained(run, costs, tmp_path)
    assert digests(events) == plain(run), of(events, JobFailed)
    said = {one.name: (tmp_path / "out/logs" / f"{one.name}.log").read_text() for one in jobs}
    assert "the app keeps them" in said["job-2"]
    assert "small, or not tensors" in said["job-3"]
    assert "stay in memory" not in said["job-0"] + said["job-1"]


@pytest.mark.live
def test_jobs_that_find_no_place_fail_alone_and_lost_processes_change_no_bit(
    tmp_path: Path,
) -> None:
    jobs = [job(0, "Large", rounds=12, params={"sleep_s": 0.01})]
    run, costs = run_of(tmp_path, jobs, Local(spill=True), 2 * GB)
    expected = plain(run)
    others = [*jobs, job(1, "FullDisk"), job(2, "TooLarge")]
    run = replace(run, workload=replace(run.workload, jobs=tuple(others)))
    costs = run_of(tmp_path, others, Local())[1]
    events = trained(run, costs, tmp_path, [TrainerRole, ServerRole])
    assert digests(events) == expected
    why = {one.job: one.reason for one in of(events, JobFailed)}
    assert re.fullmatch(r"its input data cannot be written to \S+tmp-1: File too large", why[1])
    assert why[2].startswith("to build it takes more than the ")
    assert "of 2 GB (cluster file, hosts[].memory): " in why[2]
    assert "tried to allocate 12000000000 bytes" in why[2]


@pytest.mark.live
@pytest.mark.parametrize("servers", [1, 2])
def test_models_on_disk_have_the_bits_of_memory_with_lost_processes_and_servers(
    tmp_path: Path, servers: int
) -> None:
    jobs = [
        job(0, "Wide", rounds=8, params={"sleep_s": 0.01}, evaluate=Evaluate(every=4)),
        job(1, "Wide", scale=1),
        job(2, "WideOdd"),
    ]
    local = Local(spill=True, model_on_disk=True)
    run, costs = run_of(tmp_path, jobs, local, 4 * GB)
    run = replace(run, scheduler=replace(run.scheduler, servers=servers))
    expected = plain(replace(run, workload=replace(run.workload, jobs=tuple(jobs[:2]))))
    events = trained(run, costs, tmp_path, [TrainerRole, ServerRole])
    assert digests(events) == expected, of(events, JobFailed)
    (odd,) = of(events, JobFailed)
    assert odd.job == 2
    assert re.search("Own is not known to step each tensor alone.* cannot ", odd.reason)
    said = (tmp_path / "out/logs/job-0.log").read_text()
    assert "model blocks are on disk as the cluster file says" in said


def test_models_on_disk_are_refused_where_gpus_compute(tmp_path: Path) -> None:
    local = Local(spill=True, model_on_disk=True)
    run, _ = run_of(tmp_path, [job(0)], local, GB)
    with pytest.raises(SpecError, match=r"local.model_on_disk: true is for devices that are proc"):
        refuse_blocks_on_gpus(run.cluster, [None, 0])
    refuse_blocks_on_gpus(run.cluster, [None, None])


def test_rings_are_refused_before_anything_starts(tmp_path: Path) -> None:
    run, costs = run_of(tmp_path, [job(0), job(1, sync="ring")], Local(spill=True), GB)
    with pytest.raises(SpecError, match=r"local.spill: .*'job-1' has sync: ring"):
        LivePort(run, costs, tmp_path / "out").start()


def test_a_host_that_is_too_small_for_warren_itself_is_refused(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path, [job(0)], Local(spill=True), 10**7)
    budgets = InputBudgets(run.cluster, tmp_path)
    with pytest.raises(SpecError, match=r"hosts\[\].memory: of h, 10 MB, is too little"):
        budgets.measure()
    budgets.close()
