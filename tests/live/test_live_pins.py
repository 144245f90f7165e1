"""Processes that run user code are pinned: to one core if asked, and to one way of computing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from live_worlds import APPS, drive, ended, job, of, world
from processes import wait_until

from warren.live.control.local_engine import LivePort
from warren.live.process.linux import core_of
from warren.live.process.specs import ExecutorRole, RankRole, TrainerRole
from warren.live.training import numerics
from warren.model.cluster import Local
from warren.model.decision import Assignment
from warren.model.events import AnyEvent, JobFailed, RoundsDone

ROUNDS = 6
UNPINS = """

SWITCHES = {
    "threads": (torch.get_num_threads, torch.set_num_threads, 2),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, False
    ),
    "precision": (
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
}


def unpin(where):
    for name, (get, put, other) in SWITCHES.items():
        if get() == other:
            raise RuntimeError(f"{name} is {other} when {where} begins")
        put(other)


class UnpinningSGD(torch.optim.SGD):
    def step(self, closure=None):
        unpin("a step")
        return super().step(closure)


class Unpins(Tiny):
    def loss(self, model, batch):
        unpin("a loss")
        return super().loss(model, batch)

    def optimizer(self, named_parameters):
        return UnpinningSGD([p for _, p in named_parameters], lr=0.05)
"""


@pytest.fixture
def _pinned_again() -> Iterator[None]:
    yield
    numerics.pin()


@pytest.mark.usefixtures("_pinned_again")
def test_whatever_code_has_switched_is_as_it_was() -> None:
    numerics.pin()
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False
    numerics.pin()
    assert torch.get_num_threads() == torch.get_num_interop_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert torch.get_float32_matmul_precision() == "highest"
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic) == (False, True)


def _is_on(core: int, pid: int) -> bool:
    """Whether a process is on one core, a moment after it was forked; or is gone."""
    with suppress(ProcessLookupError):
        return wait_until(lambda: os.sched_getaffinity(pid) == {core})
    return True


@pytest.mark.live
def test_a_process_is_pinned_again_after_user_code_and_so_is_the_one_that_replaces_it(
    tmp_path: Path,
) -> None:
    """The app refuses to begin a task or a step with a switch as it left it."""
    jobs = [
        job(0, "Unpins", rounds=ROUNDS),
        job(1, "Unpins", rounds=ROUNDS, sync="ring"),
    ]
    run, costs = world(tmp_path, jobs, devices=2)
    (tmp_path / "apps.py").write_text(APPS + UNPINS)
    run = replace(run, cluster=replace(run.cluster, local=Local(pin=True)), verify=0.0)
    seen: dict[type, set[int]] = {}
    killed: list[int] = []
    with LivePort(run, costs, tmp_path / "out") as port:

        def watch(event: AnyEvent) -> None:
            if not isinstance(event, RoundsDone):
                return
            for pid, role in port.processes().items():
                if isinstance(role, ExecutorRole | TrainerRole | RankRole):
                    assert _is_on(core_of(role.device), pid)
                    seen.setdefault(type(role), set()).add(pid)
                    if isinstance(role, TrainerRole) and event.round == 2 and not killed:
                        killed.append(pid)
                        os.kill(pid, signal.SIGKILL)

        rounds = [Assignment(d, 0, r, 1, (d,)) for r in range(ROUNDS) for d in (0, 1)]
        ring = [Assignment(d, 1, 0, ROUNDS, (d,)) for d in (0, 1)]
        events = drive(port, [*rounds, *ring], watch, held=True)
    assert ended(events) == {0: "finished", 1: "finished"}, of(events, JobFailed)
    assert len(seen[TrainerRole]) == 3
    assert len(seen[RankRole]) == len(seen[ExecutorRole]) == 2
