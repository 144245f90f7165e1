"""The limit of memory on hosts with agents; its cgroups are of the whole machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_worlds import KIND, agents_with, on_agents, stand_in
from live_worlds import drive, ended, job, of, shuffled, world

from warren.live.control.local_engine import LivePort
from warren.model.events import JobFailed

pytestmark = [pytest.mark.live, pytest.mark.machine]

HOG = """

class Hog(Tiny):
    def loss(self, model, batch):
        self.held = bytearray(os.urandom(1)) * 500_000_000
        return super().loss(model, batch)
"""


def test_a_job_that_takes_more_than_its_host_allows_fails_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agents_with(monkeypatch, tmp_path, [[stand_in(0)], [stand_in(1)]])
    run, costs = world(tmp_path, [job(0, rounds=3), job(1, "Hog", rounds=3)], 2)
    with (tmp_path / "apps.py").open("a") as apps:
        apps.write(HOG)
    run = on_agents(run, [[KIND], [KIND]], memory_bytes=300_000_000)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events) == {0: "finished", 1: "failed"}
    (failed,) = of(events, JobFailed)
    # By a cgroup, or by the limit of a process.
    assert "memory limit of 300 MB" in failed.reason or "MemoryError" in failed.reason
