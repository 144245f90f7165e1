"""How long a task waits for its batch is measured in its trainer, and reaches the barrier."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from device_world import stage
from live_worlds import job
from torch import Tensor
from torch.utils.data import Dataset

from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.live.transport.messages import RunTask, TaskComputed
from warren.live.transport.server_messages import Push

sys.path.append(str(Path(__file__).parents[1] / "live_training"))
from training_bench import Points, a_job

SLEEP_S = 0.01
BATCH = 8


class Late(Dataset[Any]):
    """Items that are read slowly."""

    def __init__(self, items: tuple[Tensor, ...]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items[0])

    def __getitem__(self, at: int) -> tuple[Tensor, ...]:
        time.sleep(SLEEP_S)
        return tuple(one[at] for one in self.items)


class LatePoints(Points):
    def dataset(self) -> Any:
        return Late(super().dataset())


def test_a_task_measures_how_long_it_waits_for_its_batch_unless_that_is_there() -> None:
    one = a_job(batch=BATCH)
    runner = TaskRunner(LatePoints(), one)
    state = b"".join(ParameterStore(LatePoints(), one).state())
    waits_ns = runner.run(state, 0, 0).data_ns
    assert waits_ns >= BATCH * SLEEP_S * 1e9
    quick = TaskRunner(Points(), one)
    quick.expect(0, 0)
    assert quick.run(state, 0, 0).data_ns < waits_ns


def test_the_stamp_of_a_task_has_how_long_it_waited_for_its_batch() -> None:
    with stage(job(0, rounds=2, scale=1)) as device:
        trainer = device.trainer(10)
        device.assign(1, 0, 0, (0,))
        device.state(0)
        assert trainer.hear(RunTask).round == 0
        trainer.say(TaskComputed(0, 0, 0, 0.0, b"", b"m", data_ns=123))
        assert device.servers[0].hear(Push).stamp.data_ns == 123
