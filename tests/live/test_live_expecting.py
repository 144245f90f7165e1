"""A trainer makes the next task's generators and batch ready, and nothing comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from live_worlds import APPS, job

from warren.live.device import trainer
from warren.live.process.specs import TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.live.training.memory.shared_arena import Arena
from warren.live.training.task_runner import TaskRunner
from warren.live.training.tensor_layout import raw
from warren.live.transport.messages import RunTask, TaskComputed
from warren.live.transport.sockets import Hub, Poller, executor_address

JOB = job(0, scale=2)


class World:
    """A trainer that is told by the test what to do, and what each task must give."""

    def __init__(self, folder: Path) -> None:
        (folder / "apps.py").write_text(APPS)
        self.hub = Hub(executor_address(str(folder), 0, 0))
        role = TrainerRole(
            device=0,
            folder=str(folder),
            base=str(folder),
            job=JOB,
            log="",
            incarnation=0,
            tmp="",
            rehearse=False,
            core=None,
            memory=None,
        )
        self.trainer = trainer.Trainer(role)
        self.runner = TaskRunner(build_app(JOB, str(folder)), JOB)
        numerics.pin()
        self.state = raw(self.runner.layout.pack(self.runner._model))
        self.arena = Arena.create(len(self.state), 2)
        self.arena.slot(0)[:] = self.state

    def run(self, round_no: int, then: tuple[int, int] | None = None) -> bytes:
        """The marks of task 0 of a round."""
        spots = self.arena.spot(0), self.arena.spot(1)
        self.trainer._guarded(RunTask(0, round_no, 0, *spots, then))
        poller = Poller()
        poller.register(self.hub)
        assert self.hub in poller.poll(5000)
        poller.close()
        said = [message for _, message, _ in self.hub.drain()]
        assert isinstance(said[-1], TaskComputed)
        return said[-1].marks

    def right(self, round_no: int) -> bytes:
        """The same, by a runner that is told of nothing."""
        return self.runner.run(self.state, round_no, 0).marks


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    class NoAlarm:
        def within(self, limit_ns: int) -> Any:
            return nullcontext()

    monkeypatch.setattr(trainer, "Alarm", NoAlarm)
    one = World(tmp_path)
    yield one
    one.trainer._link.close()
    one.hub.close()
    one.arena.close()


def test_the_task_that_was_announced_finds_all_ready(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(0, then=(1, 0))
    right = world.right(1)
    world.run(0, then=(1, 0))
    monkeypatch.setattr("warren.live.training.task_runner.reseed", None)  # not needed again
    assert world.run(1) == right


@pytest.mark.parametrize("between", ["task", "nothing"])
def test_what_comes_between_does_not_change_the_bits_of_the_announced_task(
    world: World, between: str
) -> None:
    right, other = world.right(1), world.right(2)
    world.run(0, then=(1, 0))
    if between == "task":
        assert world.run(2) == other
    assert world.run(1) == right


def test_an_announced_task_that_cannot_be_made_ready_is_tried_in_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = world.right(1)

    def refuses(*_: object) -> None:
        raise MemoryError

    world.run(0)
    with monkeypatch.context() as patch:
        patch.setattr("warren.live.training.data_order.Batches.of", refuses)
        world.trainer._expect(1, 0)
    assert world.run(1) == right
