"""A process that computes tasks of one model on a GPU as a trainer does, and times them.

Its parent tells it through a pipe what to do, and gives it memory for a state and for an update.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

_ROUND: Final = 7


def main(connection: Connection, name: str) -> None:
    """Serve until the parent closes the pipe; an error is sent as text."""
    try:
        child = Child(name)
        connection.send(("bytes", child.bytes))
        child.open(*connection.recv())
        child.warm()
        connection.send(("warm", 0.0))
        while (asked := connection.recv()) is not None:
            connection.send((asked[0], child.do(*asked)))
    except EOFError:
        pass
    except BaseException as error:
        import traceback

        traceback.print_exc()
        connection.send(("failed", f"{type(error).__name__}: {error}"))


class Child:
    """The task runner of one model."""

    def __init__(self, name: str) -> None:
        import torch
        from _gpu_models import MODELS

        from warren.live.gpu.gpu_memory import DeviceMemory
        from warren.live.gpu.pinned_memory import PinnedMemories
        from warren.live.gpu.trainer_device import on_gpu
        from warren.live.training import numerics
        from warren.live.training.task_runner import TaskRunner
        from warren.model.job import Job

        numerics.pin()
        self._torch = torch
        self.memory_of = on_gpu(0)
        app = MODELS[name]()
        self.job = Job(
            index=0, name=name, app="a.py:A", scale=1, rounds=10, batch=app.batch, seed=1
        )
        self.runner = TaskRunner(app, self.job, self.memory_of)
        memory = self.runner._memory
        assert isinstance(memory, DeviceMemory)
        self.memory = memory
        self.bytes = self.runner.layout.total_bytes
        self.mapped = PinnedMemories()

    def open(self, state: Any, update: Any) -> None:
        """Map the memory that the parent has made, and put the first state there."""
        begin = time.perf_counter()
        self.state, self.update = self.mapped.view(state), self.mapped.view(update)
        self.pinned_s = time.perf_counter() - begin
        self.model = self.runner.built.model
        first = self.runner.layout.pack(self.model)
        second = first.clone()
        for view in self.runner.layout.views(second).values():
            view.mul_(0.5) if view.is_floating_point() else None
        self.states = first, second
        self.put(0)

    def warm(self) -> None:
        """Compute the tasks that are watched, and one more; rehearse as trainers do."""
        for _ in range(4):
            self.run("pipelined")
        self.memory.transfer.whole = False
        state = memoryview(self.states[0].clone().numpy())
        self.memory.rehearse(lambda: self.runner._trial(state), state)
        self.chosen = "whole" if self.memory.transfer.whole else "pipelined"

    def put(self, number: int) -> None:
        """Put one of two states where the next task finds it."""
        from warren.live.training.tensor_layout import flat_of

        flat_of(self.state).copy_(self.states[number])
        self.runner.unstage()

    def do(self, what: str, *rest: Any) -> Any:
        """Do what the parent asks; return seconds, or what else was asked for."""
        if what == "put":
            return self.put(rest[0])
        if what == "stage":
            return self.stage()
        if what == "run":
            return self.run(rest[0])
        if what == "copies":
            return self.copies()
        if what == "bare":
            return self.bare(*rest)
        if what == "chosen":
            return self.chosen
        if what == "marks":
            return self.result.marks.hex()
        raise ValueError(what)

    def stage(self) -> float:
        """Bring the state to the GPU ahead of its task."""
        begin = time.perf_counter()
        self.runner.stage(self.state, _ROUND)
        self.runner.expect(_ROUND, 0)
        return time.perf_counter() - begin

    def run(self, how: str) -> tuple[float, float]:
        """Compute the task; ``whole``: nothing computes before all of the state is here.

        Returns seconds until the GPU had computed gradients, and until the update was there, with
        its hashes.
        """
        self.memory.transfer.whole = how == "whole"
        self.runner.expect(_ROUND, 0)
        self._torch.cuda.synchronize()
        places, noted = type(self.memory).places, []

        def noting(update: Any) -> Any:
            noted.append(time.perf_counter())
            return places(self.memory, update)

        self.memory.places = noting  # type: ignore[method-assign]
        begin = time.perf_counter()
        self.result = self.runner.run(self.state, _ROUND, 0, self.update)
        return noted[-1] - begin, time.perf_counter() - begin

    def copies(self) -> dict[str, float]:
        """Medians of a plain copy of as many bytes from pinned memory, and of staging."""
        torch = self._torch
        pinned = torch.empty(self.bytes, dtype=torch.uint8).pin_memory()
        target = torch.empty(self.bytes, dtype=torch.uint8, device="cuda")
        plain, staged = [], []
        for _ in range(15):
            begin = time.perf_counter()
            target.copy_(pinned, non_blocking=True)
            torch.cuda.synchronize()
            plain.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            self.runner.stage(self.state, _ROUND)
            staged.append(time.perf_counter() - begin)
        return {"plain_s": median(plain), "staged_s": median(staged), "pinned_s": self.pinned_s}

    def bare(self, deterministic: bool) -> float:
        """Median seconds of forward and backward alone, with or without deterministic kernels."""
        from warren.live.gpu.app_tensors import moved
        from warren.live.training import numerics

        torch, model, app = self._torch, self.model, self.runner.built.app
        if not deterministic:
            torch.use_deterministic_algorithms(False)
            torch.utils.deterministic.fill_uninitialized_memory = False
            torch.backends.cudnn.deterministic = False
            torch.backends.cudnn.benchmark = True
        x, y = self.runner.built.dataset
        batch = moved((x[: app.batch], y[: app.batch]), torch.device("cuda", 0))

        def step() -> None:
            model.zero_grad()
            app.loss(model, batch).backward()
            torch.cuda.synchronize()

        taken = _median_of(step, 12)
        numerics.pin()
        return taken


def _median_of(call: Callable[[], None], times: int) -> float:
    found = []
    for at in range(times + 2):
        begin = time.perf_counter()
        call()
        if at >= 2:
            found.append(time.perf_counter() - begin)
    return median(found)


def cold() -> None:
    """Compute one task in a fresh process: ``python _gpu_child.py MODEL``."""
    child = Child(sys.argv[1])
    child.state = bytearray(child.bytes)
    child.update = bytearray(child.bytes)
    from warren.live.training.tensor_layout import flat_of

    flat_of(child.state).copy_(child.runner.layout.pack(child.runner.built.model))
    child.run("whole")
    print("done")


if __name__ == "__main__":
    cold()
