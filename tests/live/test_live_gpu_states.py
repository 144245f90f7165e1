"""States of jobs on stand-ins for GPUs: kept there, split over two, out and back, by any policy.

Each device has memory for one job's state, so all others have to leave it.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from live_worlds import drive, ended, hashes, of, shuffled, treat_devices_as_gpus, world

from warren.core.journal_reader import read_history
from warren.core.loop import Core
from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.process.specs import ExecutorRole, ServerRole, TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.costs import CostTable
from warren.model.events import AnyEvent, JobFailed, RolledBack, RoundsDone
from warren.model.job import Checkpoint, Evaluate, Job
from warren.model.run import Run
from warren.policy.registry import place_policy

pytestmark = pytest.mark.live

APP = """
import torch
from apps import Tiny
from warren.live.gpu.gpu_memory import DeviceMemory
from warren.live.gpu.offload import Offload

NEED_BYTES, FREE_BYTES = 6, 10
come_back = Offload.come_back


def settle(memory):
    memory.evict()
    return NEED_BYTES, FREE_BYTES, False


def noted(offload):
    with open({noted!r}, "a") as file:
        file.write(".")
    come_back(offload)


DeviceMemory.settle = settle
Offload.come_back = noted


class Leaves(Tiny):
    clip_norm = 1.0
    ema = 0.9

    def optimizer(self, named_parameters):
        return torch.optim.AdamW([one for _, one in named_parameters], lr=0.05)
"""
JOBS = tuple(
    Job(
        index=index, name=f"job-{index}", app="leaves.py:Leaves", seed=3 + index, scale=scale,
        rounds=rounds, batch=4, checkpoint=Checkpoint(every=3),
        evaluate=Evaluate(every=4) if index else None,
    )
    for index, (scale, rounds) in enumerate([(3, 8), (2, 10), (1, 6)])
)  # fmt: skip


def on_gpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch, devices: int, servers: int = 1
) -> tuple[Run, CostTable]:
    """Return a run of ``JOBS`` on stand-ins, each with memory for one job's state."""
    found = world(folder, [replace(JOBS[0], app="apps.py:Tiny")], devices, servers=servers)
    (folder / "leaves.py").write_text(APP.replace("{noted!r}", repr(str(folder / "came-back"))))
    treat_devices_as_gpus(monkeypatch)
    run, costs = found
    workload = replace(run.workload, jobs=JOBS)
    costs = CostTable(**{name: getattr(costs, name).repeat(len(JOBS), axis=0) for name in COSTS})
    return replace(run, workload=workload), costs


COSTS = ("comp_ns_JT", "sync_ns_JT", "fits_JT")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The hashes of the plain loop."""
    folder = tmp_path_factory.mktemp("plain")
    world(folder, [replace(JOBS[0], app="apps.py:Tiny")], 1)
    (folder / "leaves.py").write_text(APP[: APP.index("from warren")] + APP[APP.index("\nclass") :])
    found = {}
    for one in JOBS:
        app = build_app(one, str(folder))
        numerics.pin()
        found[one.index] = train(app, one).digest
    return found


def times_back(folder: Path) -> int:
    """Return how often a job's state came back to its device."""
    with suppress(FileNotFoundError):
        return len((folder / "came-back").read_text())
    return 0


@pytest.mark.parametrize(
    ("place", "devices", "servers"), [("gavel-fifo", 1, 1), ("srtf", 2, 2), ("hare", 2, 1)]
)
def test_policies_give_the_bits_of_plain_with_states_that_leave_and_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[int, str],
    place: str, devices: int, servers: int,
) -> None:  # fmt: skip
    run, costs = on_gpus(tmp_path, monkeypatch, devices, servers)
    costs = replace(costs, comp_ns_JT=costs.comp_ns_JT + 10**7)
    journal = bytearray()
    with LivePort(run, costs, tmp_path / "out") as port:
        Core(
            run=run, costs=costs, policy=place_policy(place), port=port, sink=journal.extend,
            world="test", check=True,
        ).execute()  # fmt: skip
    history = read_history(journal)
    assert {job: saved.sha256 for job, saved in history.saved.items()} == plain
    # Of two servers, other processes compute the tasks, and give back what they have.
    assert times_back(tmp_path) >= (len(JOBS) if servers == 1 else 0)


def killer(port: LivePort, draw: random.Random) -> Callable[[AnyEvent], None]:
    """Return a watcher that kills a process of each kind in turn, at random barriers."""
    kinds = [ServerRole, TrainerRole, ExecutorRole, "zygote"] * 2

    def watch(event: AnyEvent) -> None:
        if not isinstance(event, RoundsDone) or event.finished or draw.random() < 0.5:
            return
        kind = kinds.pop(0) if kinds else None
        if kind == "zygote":
            os.kill(port.session, signal.SIGKILL)
        elif kind is not None:
            pids = [pid for pid, role in port.processes().items() if isinstance(role, kind)]
            with suppress(ProcessLookupError):
                os.kill(draw.choice(pids or [1 << 30]), signal.SIGKILL)

    return watch


@pytest.mark.parametrize("servers", [1, 2])
def test_kills_at_random_moments_change_no_bit_of_states_that_leave_and_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[int, str], servers: int
) -> None:
    run, costs = on_gpus(tmp_path, monkeypatch, 2, servers)
    with LivePort(replace(run, verify=0.2), costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=4), killer(port, random.Random(servers)))
    assert set(ended(events).values()) == {"finished"}, of(events, JobFailed)
    assert hashes(events) == plain
    assert of(events, RolledBack)
    assert not (tmp_path / "out" / "checkpoints").exists()
    assert times_back(tmp_path) >= (2 * len(JOBS) if servers == 1 else 0)
