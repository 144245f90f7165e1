"""Workers of trainers: the bits of the plain loop, whatever is killed; nothing outlives a run."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from live_worlds import drive, ended, hashes, of, session, shuffled, treat_devices_as_gpus
from live_worlds import world as world_of

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.process.specs import TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.costs import CostTable
from warren.model.events import AnyEvent, JobFailed, RoundsDone
from warren.model.job import Job
from warren.model.run import Run

pytestmark = pytest.mark.live

APP = """
import os, random
import numpy, torch
from torch.utils.data import Dataset
from apps import Tiny


class Drawn(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 4)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, item):
        moved = random.random() + numpy.random.rand()
        x = self.x[item] + moved * torch.rand(4)
        return x, x.sum(0, keepdim=True)


class Pictures(Tiny):
    def dataset(self):
        return Drawn()

    def sampler(self, epoch, length):
        return torch.randperm(length)

    def evaluate(self, model):
        return {}
"""


def world(folder: Path, jobs: list[Job], servers: int = 1) -> tuple[Run, CostTable]:
    found = world_of(folder, jobs, 2, servers=servers)
    (folder / "pictures.py").write_text(APP)
    return found


def pictures(index: int, workers: int | None) -> Job:
    return Job(
        index=index, name=f"job-{index}", app="pictures.py:Pictures", seed=5, scale=2, rounds=6,
        batch=4, workers=workers,
    )  # fmt: skip


def inputs(pid: int) -> list[int]:
    """The processes that build batches, their parents first."""
    found = {}
    for one in session(pid):
        with suppress(OSError):
            found[one] = Path(f"/proc/{one}/comm").read_text().strip()
    return [
        one for name in ("warren-inputs", "warren-input") for one in found if found[one] == name
    ]


@pytest.mark.parametrize("stand_in", [False, True])
def test_any_number_of_workers_gives_the_bits_of_plain_after_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: bool
) -> None:
    jobs = [pictures(0, 0), pictures(1, 1), pictures(2, 4)]
    # A stand-in with one server computes tasks in the server's process.
    run, costs = world(tmp_path, jobs, servers=1 if stand_in else 2)
    app = build_app(jobs[0], run.base)
    numerics.pin()  # the app's module sets what it likes
    right = train(app, jobs[0]).digest
    if stand_in:
        treat_devices_as_gpus(monkeypatch)
    seen = []

    def watch(event: AnyEvent) -> None:
        if isinstance(event, RoundsDone) and event.job < 3:
            found = inputs(port.session)
            seen.append(len(found))
            trainers = [p for p, role in port.processes().items() if isinstance(role, TrainerRole)]
            for pid in [*found[-2:], *(trainers[:1] if len(seen) in (5, 11) else ())]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    with LivePort(run, costs, tmp_path / "out") as port:
        pid = port.session
        events = drive(port, shuffled(run, seed=1), watch)
    assert set(ended(events).values()) == {"finished"}, of(events, JobFailed)
    assert set(hashes(events).values()) == {right}
    assert max(seen) > 4
    assert session(pid) == []
