"""Jobs whose data are on disk train with the bits they have in memory; what does not fit fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, job, of, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.cluster import Local
from warren.model.costs import CostTable
from warren.model.events import AnyEvent, JobFailed, ParamsSaved
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


def trained(run: Run, costs: CostTable, folder: Path) -> list[AnyEvent]:
    """What comes of a run."""
    with LivePort(run, costs, folder / "out") as port:
        return drive(port, shuffled(run, seed=1))


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
@pytest.mark.timed
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, None])
def test_jobs_have_the_bits_of_data_in_memory(tmp_path: Path, ratio: float | None) -> None:
    jobs = [
        job(0, "Large"),
        job(1, "LargeDict"),
        job(2, "Keeps", evaluate=Evaluate(every=2)),
        job(3),
    ]
    local = Local(spill=True, disk_ratio=ratio)
    run, costs = run_of(tmp_path, jobs, local, None if ratio == 0.5 else 2 * GB)
    events = trained(run, costs, tmp_path)
    assert digests(events) == plain(run), of(events, JobFailed)
    said = {one.name: (tmp_path / "out/logs" / f"{one.name}.log").read_text() for one in jobs}
    assert "the app keeps them" in said["job-2"]
    assert "small, or not tensors" in said["job-3"]
    assert "stay in memory" not in said["job-0"] + said["job-1"]
